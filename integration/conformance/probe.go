package conformance

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// probe sends what one of the sides does not serve: versions below and above a broker's,
// keys that it does not know, and what the gateway withholds. Requests are empty ones,
// which change nothing.
func (r *run) probe(ctx context.Context) error {
	for key := int16(0); key <= kmsg.MaxKey+1; key++ {
		for version := int16(0); version <= requestFor(key).MaxVersion()+1; version++ {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := r.probeVersion(key, version); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) probeVersion(key, version int16) error {
	served, offered := has(r.World.Served, key, version), has(r.World.Offered, key, version)
	w, expected := withheld(key, version)
	if served && (offered || w.Answered) {
		return nil // the cases ask it
	}
	direct, gateway, err := r.send(key, version)
	if err != nil {
		return err
	}
	row := r.report.row(key)
	what := fmt.Sprintf("%s v%d", kmsg.NameForKey(key), version)
	switch {
	case served && expected:
		if !gateway.Closed {
			r.report.differ(key, what+": the gateway answers what it withholds")
		}
		row.withheld(version, w)
		return nil
	case w.Answered && version <= kmsg.RequestForKey(key).MaxVersion(): // below the broker's lowest
		if !direct.Closed || gateway.Closed {
			r.report.differ(key, fmt.Sprintf("%s: closed directly %t, through the gateway %t", what, direct.Closed, gateway.Closed))
		}
		return nil
	}
	// Neither side serves it: both close the connection, or answer the same, as ApiVersions
	// does, and what a broker would serve if it had a plugin for it.
	request := requestFor(key)
	request.SetVersion(min(version, request.MaxVersion()))
	c := Comparison{Request: request, Rewritten: &r.rewritten, Masks: masksOf(key)}
	differences, _ := c.Compare(direct, gateway)
	for _, d := range differences {
		r.report.differ(key, what+": "+d)
	}
	if direct.Closed {
		row.closed = append(row.closed, version)
	} else {
		row.answered = append(row.answered, version)
	}
	return nil
}

func has(of map[int16][2]int16, key, version int16) bool {
	in, ok := of[key]
	return ok && in[0] <= version && version <= in[1]
}

// requestFor is an empty request; for a key that nobody knows, that of another.
func requestFor(key int16) kmsg.Request {
	if request := kmsg.RequestForKey(key); request != nil {
		return request
	}
	return kmsg.RequestForKey(int16(kmsg.Metadata))
}

func masksOf(key int16) []Mask {
	var out []Mask
	for _, c := range Cases() {
		if int16(c.Key) == key {
			out = append(out, c.Masks...)
		}
	}
	return out
}

// send sends an empty request to node 1 on both sides.
func (r *run) send(key, version int16) (direct, gateway Answer, err error) {
	request := requestFor(key)
	if of, ok := request.(*kmsg.AddPartitionsToTxnRequest); ok { // brokers do not answer an empty one
		t := kmsg.NewAddPartitionsToTxnRequestTransaction()
		t.TransactionalID, t.VerifyOnly = r.World.Shared("none"), true
		of.Transactions = append(of.Transactions, t)
	}
	request.SetVersion(min(version, request.MaxVersion()))
	r.correlation++
	frame := encode(request, r.correlation)
	frame[lengthSize], frame[lengthSize+1] = byte(key>>8), byte(key)
	atVersion(frame, version)
	w := way{1, Rich, ViaToken}
	if direct, err = r.Direct.send(w, request, frame); err != nil {
		return direct, gateway, err
	}
	gateway, err = r.Gateway.send(w, request, frame)
	return direct, gateway, err
}
