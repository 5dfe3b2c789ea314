package gateway

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// action is what the gateway does with a request.
type action uint8

const (
	// actionRefuse closes the client leg, as a broker does with a key that is not
	// for clients; such keys are missing from the ApiVersions answer.
	actionRefuse action = iota
	// actionForward passes request and answer as they are.
	actionForward
	// actionRewrite passes the request as it is; the answer is read whole and the
	// addresses in it are replaced by the gateway's.
	actionRewrite
	// actionFront passes the request as it is; of the answer, which streams, the beginning
	// is rewritten and does not grow by that.
	actionFront
	// actionTrail passes the request as it is; the answer streams, and the addresses at
	// its end are replaced by the gateway's.
	actionTrail
	// actionTrim is actionRewrite for ApiVersions: what the gateway does not serve is
	// taken out of the answer.
	actionTrim
	// actionAnswer answers here. The request never reaches a broker.
	actionAnswer
)

// wait is how a request says for how long a broker may sit on it. The broker reads
// the next request of a connection only after it has answered this one.
type wait uint8

const (
	waitNone      wait = iota // answered as soon as it is processed
	waitFetch                 // max_wait_ms
	waitProduce               // timeout_ms, with acks=all; acks=0 has no answer
	waitField                 // a field of milliseconds, found by the rule's layout
	waitUnbounded             // until other members of the group act
)

// tie is what a broker remembers of a connection, and forgets with it. What is tied to
// its connection cannot be carried on over another one unseen.
type tie uint8

const (
	tieNone      tie = iota
	tieShare         // share sessions and what they have acquired (KIP-932)
	tieTelemetry     // the telemetry instance and its subscription (KIP-714)
)

// rule is the policy for one API key: a line of the table.
type rule struct {
	key    kmsg.Key
	action action
	// max is the highest version that somebody has looked at and that is offered.
	max int16
	// lowered says why max is below what kmsg knows, "" where it is not.
	lowered string
	// from is the first version whose answers carry addresses, for actionRewrite and
	// actionTrail. Below it, the answer passes as it is.
	from    int16
	rewrite rewriter // of actionRewrite and actionFront
	trail   trail    // of actionTrail
	answer  layoutOf // of actionTrail: up to the addresses
	wait    wait
	// waits is the first version that may wait.
	waits int16
	field layoutOf // of waitField
	tie   tie
	// hidden keys are answered here and not offered all the same.
	hidden bool
	// why a key is refused.
	why string

	// flexible is the first version with tagged fields (KIP-482), -1 if there is none.
	flexible int16
	answers  []*wire.Layout // by version
	fields   []*wire.Layout // by version
}

// layoutOf makes a version's layout.
type layoutOf func(version int16) *wire.Layout

// flexibleAt tells whether requests and answers of a version carry tagged fields.
func (r *rule) flexibleAt(version int16) bool { return r.flexible >= 0 && version >= r.flexible }

// at is what is done with a version that is served.
func (r *rule) at(version int16) action {
	if version < r.from {
		return actionForward
	}
	return r.action
}

// policy is the table over all keys, indexed by key. What it does not name is
// refused: a key or version that came with a newer Kafka passes only after somebody
// has looked at whether its answers carry addresses.
type policy []rule

// rule returns the rule for a key and version, and whether the gateway serves it.
func (p policy) rule(key, version int16) (*rule, bool) {
	if key < 0 || int(key) >= len(p) {
		return nil, false
	}
	r := &p[key]
	return r, r.action != actionRefuse && version >= 0 && version <= r.max
}

// refusal says why a version is not served. r may be nil: then the key is not known.
func (r *rule) refusal(version int16) string {
	switch {
	case r == nil:
		return "this gateway does not know the key"
	case r.action == actionRefuse:
		return r.why
	case version > r.max && r.lowered != "":
		return r.lowered
	}
	return fmt.Sprintf("versions 0 to %d are", r.max)
}

// offered tells whether a key belongs into the ApiVersions answer, and up to which
// version.
func (p policy) offered(key int16) (highest int16, ok bool) {
	r, served := p.rule(key, 0)
	if !served || r.hidden {
		return 0, false
	}
	return r.max, true
}

// newPolicy makes of the table what can be looked up fast.
func newPolicy() policy {
	rows := table()
	var p policy
	for _, r := range rows {
		for int(r.key) >= len(p) {
			p = append(p, rule{key: kmsg.Key(len(p)), why: "this gateway does not know the key"}) //nolint:gosec // G115: below 2^15
		}
		r.flexible = -1
		if request := kmsg.RequestForKey(int16(r.key)); request != nil {
			r.flexible = firstFlexible(request)
		}
		if r.answer != nil {
			r.answers = layouts(r.answer, r.from, r.max)
		}
		if r.field != nil {
			r.fields = layouts(r.field, r.waits, r.max)
		}
		p[r.key] = r
	}
	trim := &p[kmsg.ApiVersions]
	trim.rewrite = func(s *splice, version int16) { trimVersions(s, version, p) }
	return p
}

func layouts(of layoutOf, from, to int16) []*wire.Layout {
	all := make([]*wire.Layout, to+1)
	for v := from; v <= to; v++ {
		all[v] = of(v)
	}
	return all
}

func firstFlexible(request kmsg.Request) int16 {
	for v := int16(0); v <= request.MaxVersion(); v++ {
		request.SetVersion(v)
		if request.IsFlexible() {
			return v
		}
	}
	return -1
}
