package checker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Kind is what was found.
type Kind uint8

const (
	Lost           Kind = iota // promised and not stored; of a Silent writer: sent and not stored
	Unacknowledged             // sent, and refused or never answered
	Doubled                    // stored more than once
	Reordered                  // behind a later record of its writer, in one partition
	Misplaced                  // not at the place that its acknowledgement gave
	Torn                       // a part of its transaction is stored, and a part is not
	Undone                     // visible, though its transaction was aborted
	Foreign                    // of no writer, or never sent
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"lost", "unacknowledged", "doubled", "reordered", "misplaced", "torn", "undone", "foreign"}[k]
}

// Finding is how often one kind of fault hit one writer.
type Finding struct {
	Kind   Kind
	Writer string // its prefix and first number; empty: nobody's
	Count  int
	First  []string // at most five of them, in words
}

// String is a line for people.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %d %s: %s", f.Writer, f.Count, f.Kind, strings.Join(f.First, "; "))
}

// Judge holds ledgers against what is stored. Observe everything that is, partition by
// partition in order, then ask for the Findings. It is not safe for concurrent use, and
// the writers must have ended.
type Judge struct {
	ledgers  []*Ledger
	newest   map[writerAt]int // the highest record of a writer in a partition so far
	findings map[found]*Finding
	observed int
}

type writerAt struct {
	place
	ledger *Ledger
}

type found struct {
	kind   Kind
	writer string
}

// NewJudge judges these writers.
func NewJudge(ledgers ...*Ledger) *Judge {
	for _, l := range ledgers {
		l.mu.Lock()
		for i := range l.records {
			l.records[i].stored = 0
		}
		l.mu.Unlock()
	}
	return &Judge{ledgers: ledgers, newest: map[writerAt]int{}, findings: map[found]*Finding{}}
}

// Topics are those that the writers wrote to, each once.
func (j *Judge) Topics() []string {
	var out []string
	for _, l := range j.ledgers {
		if !slices.Contains(out, l.Topic) {
			out = append(out, l.Topic)
		}
	}
	return out
}

// Observed is how many records were observed.
func (j *Judge) Observed() int { return j.observed }

// Observe takes one stored record.
func (j *Judge) Observe(r *kgo.Record) {
	j.observed++
	for _, l := range j.ledgers {
		if l.Topic != r.Topic {
			continue
		}
		if i := Index(l.Prefix, l.Size, r.Key, r.Value); i >= 0 && l.numbers(i) {
			l.mu.Lock()
			defer l.mu.Unlock()
			j.stored(l, i-l.First, r)
			return
		}
	}
	j.find(Foreign, "", "%q stands at %s[%d]@%d", r.Key, r.Topic, r.Partition, r.Offset)
}

func (j *Judge) stored(l *Ledger, i int, r *kgo.Record) {
	if i >= len(l.records) || l.records[i].state == unsent {
		j.find(Foreign, l.String(), "%d stands at [%d]@%d and was never sent", i, r.Partition, r.Offset)
		return
	}
	e := &l.records[i]
	switch {
	case e.stored > 0:
		j.find(Doubled, l.String(), "%d stands at [%d]@%d again", i, r.Partition, r.Offset)
	case e.partition != r.Partition, e.state == acked && e.offset != anywhere && e.offset != r.Offset:
		j.find(Misplaced, l.String(), "%d was acknowledged at [%d]@%d and stands at [%d]@%d", i, e.partition, e.offset, r.Partition, r.Offset)
	}
	if e.stored < 255 {
		e.stored++
	}
	// A copy of an earlier record is doubled already; where it stands is no order.
	at := writerAt{place{r.Topic, r.Partition}, l}
	if before, known := j.newest[at]; known && i < before && e.stored == 1 {
		j.find(Reordered, l.String(), "%d stands at [%d]@%d, behind %d", i, r.Partition, r.Offset, before)
		return
	}
	j.newest[at] = max(j.newest[at], i)
}

// Findings ends the judgement: what was found, by writer. None is what a test wants.
func (j *Judge) Findings() []Finding {
	for _, l := range j.ledgers {
		l.mu.Lock()
		j.ended(l)
		l.mu.Unlock()
	}
	var out []Finding
	for _, f := range j.findings {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Finding) int {
		if c := strings.Compare(a.Writer, b.Writer); c != 0 {
			return c
		}
		return int(a.Kind) - int(b.Kind)
	})
	return out
}

// ended looks at what of a ledger was not stored, and at its transactions.
func (j *Judge) ended(l *Ledger) {
	gone := make([]bool, len(l.records)) // rightly not stored
	for _, t := range l.txns {
		stored := 0
		for i := t.first; i <= t.last; i++ {
			if l.records[i].stored > 0 {
				stored++
			}
		}
		switch all := t.last - t.first + 1; {
		case stored > 0 && t.outcome == Aborted:
			j.find(Undone, l.String(), "%d records of the aborted transaction %d to %d are visible", stored, t.first, t.last)
		case stored > 0 && stored < all:
			j.find(Torn, l.String(), "of the transaction %d to %d, %d records are visible", t.first, t.last, stored)
		}
		for i := t.first; i <= t.last; i++ {
			gone[i] = t.outcome != Committed
		}
	}
	for i, e := range l.records {
		switch {
		case e.state == unsent:
			continue
		case e.state != acked && l.Promise == Acknowledged && !gone[i]:
			j.find(Unacknowledged, l.String(), "%d to [%d] was %s", i, e.partition, map[state]string{sent: "never answered", refused: "refused"}[e.state])
		case e.stored == 0 && !gone[i]:
			j.find(Lost, l.String(), "%d, to [%d]@%d, is not stored", i, e.partition, e.offset)
		}
	}
}

func (j *Judge) find(kind Kind, writer, format string, args ...any) {
	f := j.findings[found{kind, writer}]
	if f == nil {
		f = &Finding{Kind: kind, Writer: writer}
		j.findings[found{kind, writer}] = f
	}
	if f.Count++; len(f.First) < 5 {
		f.First = append(f.First, fmt.Sprintf(format, args...))
	}
}
