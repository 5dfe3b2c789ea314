package conformance

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Row is what a run found out about one key.
type Row struct {
	Key              int16
	Served, Offered  []int16 // versions, of those that kmsg knows
	Success, Failure map[int16]bool
	Other            map[int16]bool // answered in whatever way, or not at all
	Masks            []Mask         // that its cases have
	Needed           map[Path]Used  // of them, those that made a difference, with what that was first
	Seen             bool           // an answer had an address in it
	Withheld         []int16
	WithheldAs       Withheld
	Refused          map[string][]int16 // by name and reason
	Differences      []string
	closed, answered []int16 // versions that are not served, as both sides take them
}

func (r *Row) note(c Case, version int16, q question, needed []Used) {
	switch {
	case q.direct.Frame == nil || c.Want == Either:
		r.Other[version] = true
		if q.parsed == nil {
			break
		}
		if slices.ContainsFunc(ErrorCodes(q.parsed), func(code int16) bool { return code != 0 }) {
			r.Failure[version] = true
		} else if !hollow(q.parsed) {
			r.Success[version] = true
		}
	case c.Want == Success:
		r.Success[version] = true
	case c.Want == Failure:
		r.Failure[version] = true
	}
	if q.parsed != nil {
		for _, p := range addressed(kmsg.Key(r.Key)) {
			p.descend(reflect.ValueOf(q.parsed), func(v reflect.Value) { r.Seen = r.Seen || v.FieldByName("Host").Len() > 0 })
		}
	}
	for _, m := range c.Masks {
		if m.covers(version) && !slices.ContainsFunc(r.Masks, func(o Mask) bool { return o.Field == m.Field }) {
			r.Masks = append(r.Masks, m)
		}
	}
	for _, m := range needed {
		if _, ok := r.Needed[m.Field]; !ok {
			r.Needed[m.Field] = m
		}
	}
}

func (r *Row) withheld(version int16, as Withheld) {
	r.Withheld, r.WithheldAs = append(r.Withheld, version), as
}

func (r *Row) refuse(version int16, c Case) {
	what := c.Name + " | " + c.Refused
	if r.Refused == nil {
		r.Refused = map[string][]int16{}
	}
	if !slices.Contains(r.Refused[what], version) {
		r.Refused[what] = append(r.Refused[what], version)
	}
}

// Gap is what cannot be asked, and why.
type Gap struct {
	Key          kmsg.Key
	From, Before int16 // versions; a Before of 0 means all from From on
	Success      bool  // there is no successful answer; otherwise, no error
	Why          string
}

// Gaps are all versions for which a kind of answer cannot be had.
func Gaps() []Gap {
	const (
		here    = "the gateway answers by itself, always so"
		quorum  = "the cluster's voters are set by its configuration, and cannot be changed"
		plugin  = "no broker has the plugin that would keep what clients send"
		filters = "what a client may not see is left out, which is no error"
	)
	gaps := []Gap{
		{Key: kmsg.ApiVersions, Before: 3, Why: "it has nothing in it that could be wrong"},
		{Key: kmsg.SASLHandshake, Success: true, Why: here}, {Key: kmsg.SASLAuthenticate, Success: true, Why: here},
		{Key: kmsg.Produce, Before: 3, Success: true, Why: "the broker closes the connection over batches of today in it, or takes none"},
		{Key: kmsg.Produce, Before: 3, Why: "the broker closes the connection over batches of today in it, or takes none"},
		{Key: kmsg.OffsetCommit, Before: 1, Success: true, Why: "it wrote to ZooKeeper"},
		{Key: kmsg.OffsetFetch, Before: 1, Success: true, Why: "it read from ZooKeeper"},
		{Key: kmsg.OffsetFetch, Before: 2, Why: "the broker leaves out what it cannot say"},
		{Key: kmsg.ListGroups, Why: filters},
		{Key: kmsg.ListTransactions, Before: 2, Why: filters},
		{Key: kmsg.DescribeLogDirs, Before: 3, Why: filters},
		{Key: kmsg.DescribeCluster, Before: 1, Why: "everybody may ask, and there is nothing in it that could be wrong"},
		{Key: kmsg.AddRaftVoter, Success: true, Why: quorum}, {Key: kmsg.RemoveRaftVoter, Success: true, Why: quorum},
		{Key: kmsg.StreamsGroupTopologyDescriptionUpdate, Success: true, Why: plugin},
		{Key: kmsg.GetTelemetrySubscriptions, Why: "everybody may ask, and there is nothing in it that could be wrong"},
		{Key: kmsg.PushTelemetry, Success: true, Why: plugin},
	}
	for _, key := range []kmsg.Key{kmsg.CreateDelegationToken, kmsg.RenewDelegationToken, kmsg.ExpireDelegationToken, kmsg.DescribeDelegationToken} {
		gaps = append(gaps, Gap{Key: key, Success: true, Why: here})
	}
	return gaps
}

// gap finds why a kind of answer is missing.
func gap(key, version int16, success bool) (Gap, bool) {
	for _, g := range Gaps() {
		if int16(g.Key) == key && g.Success == success && version >= g.From && (g.Before == 0 || version < g.Before) {
			return g, true
		}
	}
	return Gap{}, false
}

// cover makes a fault of every version that has not been compared, or lacks a successful
// answer or an error without a reason.
func (r *Report) cover() {
	for key := range r.world.Served {
		row := r.row(key)
		from, to := r.world.versions(kmsg.Key(key))
		for v := from; v <= to; v++ {
			name := fmt.Sprintf("%s v%d", kmsg.NameForKey(key), v)
			if !row.Success[v] && !row.Failure[v] && !row.Other[v] {
				r.fault(key, name+" was not asked at all")
				continue
			}
			if _, ok := gap(key, v, true); !row.Success[v] && !ok {
				r.fault(key, name+" has no successful answer, and no reason for that")
			}
			if _, ok := gap(key, v, false); !row.Failure[v] && !ok {
				r.fault(key, name+" has no error for an answer, and no reason for that")
			}
		}
	}
}
