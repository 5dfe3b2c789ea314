package checker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// told is a writer's ledger of three records in partition 0 and three in partition 1.
func told(promise Promise, change func(*Ledger)) *Ledger {
	l := &Ledger{Topic: "t", Prefix: "w", Size: 20, Promise: promise}
	for i := range 6 {
		l.Sent(i, int32(i%2))
		l.Acked(i, int32(i%2), int64(i/2))
	}
	if change != nil {
		change(l)
	}
	return l
}

// held is what stands in a partition, by record number, each in its place; -1 is nothing.
type held map[int32][]int

func (h held) observe(j *Judge, l *Ledger) {
	for p := range int32(2) {
		for offset, i := range h[p] {
			if i < 0 {
				continue
			}
			r := l.Record(i, p)
			r.Offset = int64(offset)
			j.Observe(r)
		}
	}
}

func TestEachFaultHasItsFinding(t *testing.T) {
	whole := held{0: {0, 2, 4}, 1: {1, 3, 5}}
	part := func(outcome Outcome) func(*Ledger) {
		return func(l *Ledger) { l.Transaction(2, 3, outcome) }
	}
	for _, tc := range []struct {
		what    string
		promise Promise
		change  func(*Ledger)
		held    held
		want    string
	}{
		{"nothing", Acknowledged, nil, whole, ""},
		{"nothing, acks=0", Silent, func(l *Ledger) { l.records[2].state = sent }, whole, ""},
		{"one is not there", Acknowledged, nil, held{0: {0, -1, 4}, 1: {1, 3, 5}}, "1 lost"},
		{"the last is not there", Acknowledged, nil, held{0: {0, 2, 4}, 1: {1, 3}}, "1 lost"},
		{"none is there", Acknowledged, nil, held{}, "6 lost"},
		{"one of acks=0 is not there", Silent, func(l *Ledger) { l.records[2].state = sent }, held{0: {0, -1, 4}, 1: {1, 3, 5}}, "1 lost"},
		{"no answer", Acknowledged, func(l *Ledger) { l.records[2].state = sent }, whole, "1 unacknowledged"},
		{"no answer, not stored", Acknowledged, func(l *Ledger) { l.records[2].state = sent }, held{0: {0, -1, 4}, 1: {1, 3, 5}}, "1 unacknowledged"},
		{"refused", Acknowledged, func(l *Ledger) { l.Refused(3) }, whole, "1 unacknowledged"},
		{"twice", Acknowledged, nil, held{0: {0, 2, 4, 4}, 1: {1, 3, 5}}, "1 doubled"},
		{"an early one twice", Acknowledged, nil, held{0: {0, 2, 4, 0, 2}, 1: {1, 3, 5}}, "2 doubled"},
		{"twice, in another partition", Acknowledged, nil, held{0: {0, 2, 4}, 1: {1, 3, 5, 4}}, "1 doubled"},
		{"exchanged", Acknowledged, nil, held{0: {2, 0, 4}, 1: {1, 3, 5}}, "1 reordered, 2 misplaced"},
		{"exchanged, and told so", Acknowledged, func(l *Ledger) { l.Acked(0, 0, 1); l.Acked(2, 0, 0) }, held{0: {2, 0, 4}, 1: {1, 3, 5}}, "1 reordered"},
		{"told the other's place", Acknowledged, func(l *Ledger) { l.Acked(0, 0, 1); l.Acked(2, 0, 0) }, whole, "2 misplaced"},
		{"told no place", Acknowledged, func(l *Ledger) { l.Acked(0, 0, -1) }, whole, ""},
		{"in another partition", Acknowledged, nil, held{0: {0, 2}, 1: {1, 3, 5, 4}}, "1 reordered, 1 misplaced"},
		{"never sent", Acknowledged, nil, held{0: {0, 2, 4, 6}, 1: {1, 3, 5}}, "1 foreign"},
		{"a whole transaction", Acknowledged, part(Committed), whole, ""},
		{"a torn one", Acknowledged, part(Committed), held{0: {0, -1, 4}, 1: {1, 3, 5}}, "1 lost, 1 torn"},
		{"an aborted one", Acknowledged, part(Aborted), held{0: {0, -1, 4}, 1: {1, -1, 5}}, ""},
		{"an aborted one that shows", Acknowledged, part(Aborted), whole, "1 undone"},
		{"an aborted one that shows in part", Acknowledged, part(Aborted), held{0: {0, -1, 4}, 1: {1, 3, 5}}, "1 undone"},
		{"one of unknown outcome", Acknowledged, part(Unknown), held{0: {0, -1, 4}, 1: {1, -1, 5}}, ""},
		{"one of unknown outcome, torn", Acknowledged, part(Unknown), held{0: {0, -1, 4}, 1: {1, 3, 5}}, "1 torn"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			l := told(tc.promise, tc.change)
			j := NewJudge(l)
			tc.held.observe(j, l)
			if got := inWords(j.Findings()); got != tc.want {
				t.Errorf("found %q, wanted %q: %v", got, tc.want, j.Findings())
			}
		})
	}
}

func inWords(findings []Finding) string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%d %s", f.Count, f.Kind))
	}
	return strings.Join(out, ", ")
}

func TestOthersRecordsAreForeign(t *testing.T) {
	l := told(Acknowledged, nil)
	j := NewJudge(l)
	held{0: {0, 2, 4}, 1: {1, 3, 5}}.observe(j, l)
	for _, r := range []*kgo.Record{
		{Topic: "t", Key: []byte("aborted"), Value: []byte("aborted")},
		{Topic: "t", Key: Key("w", 1), Value: []byte("another")},
		{Topic: "other", Key: Key("w", 1), Value: Value(Key("w", 1), 20)},
	} {
		j.Observe(r)
	}
	if got := inWords(j.Findings()); got != "3 foreign" || j.Observed() != 9 {
		t.Errorf("found %q of %d", got, j.Observed())
	}
}

func TestLedgersOfOtherProcesses(t *testing.T) {
	l := &Ledger{Topic: "t", Prefix: "w", Size: 20}
	if err := l.Import(strings.NewReader("s 0 0\na 0 0 7\na 1 1 3\ns 2 0\nr 3\nt 0 1 committed\nt 2 3 unknown\n")); err != nil {
		t.Fatal(err)
	}
	want := []entry{{offset: 7, state: acked}, {offset: 3, partition: 1, state: acked}, {offset: -1, state: sent}, {offset: -1, state: refused}}
	if !slices.Equal(l.records, want) || !slices.Equal(l.txns, []txn{{0, 1, Committed}, {2, 3, Unknown}}) {
		t.Errorf("%+v, %+v", l.records, l.txns)
	}
	if out, in := l.Count(); out != 4 || in != 2 {
		t.Errorf("%d of %d", in, out)
	}
	for _, bad := range []string{"", "x 1", "a 1", "a -1 0 0", "s 999999999 0", "t 0 1 torn", "t 5 -1 committed"} {
		if err := l.line(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestDisorderIsToldFromKafkasOwn(t *testing.T) {
	line := func(client, partition, code string) string {
		return "2026-11-30 21:45:42,552 WARN [Producer clientId=" + client + ", transactionalId=x] Got error produce response with correlation id 888 on topic-partition t-" +
			partition + ", retrying (2147483646 attempts left). Error: " + code + " (org.apache.kafka.clients.producer.internals.Sender)\n"
	}
	const first, behind = "CONCURRENT_TRANSACTIONS", "OUT_OF_ORDER_SEQUENCE_NUMBER"
	for _, tc := range []struct {
		log  string
		want int
	}{
		{"nothing\n", 0},
		{line("a", "1", first) + line("a", "1", behind) + line("a", "1", behind), 0},
		{line("a", "1", first) + strings.Repeat(line("a", "1", behind), 5), 1},
		{line("a", "1", behind) + line("a", "1", first), 1},
		{line("a", "1", first) + line("a", "2", behind), 1},
		{line("a", "1", first) + line("b", "1", behind), 1},
		{line("a", "1", "NOT_LEADER_OR_FOLLOWER") + line("a", "1", behind), 1},
		{"org.apache.kafka.common.errors.OutOfOrderSequenceException: no\n", 1},
		{"%4|REQERR: Broker: OUT_OF_ORDER_SEQUENCE_NUMBER", 1},
	} {
		if got := Disorder(tc.log); len(got) != tc.want {
			t.Errorf("%q: %q", tc.log, got)
		}
	}
}

func TestWritersThatShareAPrefix(t *testing.T) {
	a := &Ledger{Topic: "t", Prefix: "w", Size: 20, Most: 2}
	b := &Ledger{Topic: "t", Prefix: "w", Size: 20, First: 2, Most: 2}
	if err := a.Import(strings.NewReader("a 0 0 1\na 1 0 3\nt 0 1 committed\n")); err != nil {
		t.Fatal(err)
	}
	if err := b.Import(strings.NewReader("a 2 0 0\na 3 0 2\nt 2 3 committed\n")); err != nil {
		t.Fatal(err)
	}
	if b.line("a 1 0 0") == nil || a.line("t 0 2 committed") == nil {
		t.Error("a writer was taken for the other")
	}
	judge := func(stored ...int) string {
		j := NewJudge(a, b)
		for offset, i := range stored {
			r := a.Record(i, 0)
			r.Offset = int64(offset)
			j.Observe(r)
		}
		return inWords(j.Findings())
	}
	if got := judge(2, 0, 3, 1); got != "" { // each in its own order
		t.Errorf("found %q", got)
	}
	if got := judge(2, 0, 3, 1, 4); got != "1 foreign" {
		t.Errorf("found %q", got)
	}
}

func FuzzLedgerLines(f *testing.F) {
	for _, line := range []string{"s 0 0", "a 0 0 7", "r 3", "t 0 1 committed", "t 1 0 aborted", "a 9 9 -9"} {
		f.Add(line)
	}
	f.Fuzz(func(_ *testing.T, line string) {
		if len(line) > 100 || strings.Count(line, "0") > 5 {
			return // numbers of records are what memory follows
		}
		l := &Ledger{Prefix: "w", Size: 10}
		if l.line(line) == nil {
			NewJudge(l).Findings()
		}
	})
}
