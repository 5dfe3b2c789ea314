package checker

import (
	"fmt"
	"sync"
)

// Promise is what a writer is promised.
type Promise uint8

const (
	// Acknowledged: each record is stored once, in order, and its writer is told where.
	Acknowledged Promise = iota
	// Silent: acks=0. Each is stored once and in order as long as no connection ends.
	Silent
)

// Ledger is what one writer sent, and what it was told of each record. A writer numbers
// its records in the order in which it sends them, whatever their partition. Writers of
// one topic share a prefix if their numbers do not meet. It is safe for concurrent use.
type Ledger struct {
	Topic, Prefix string
	First, Most   int // its numbers are First to First+Most-1; Most 0: all from First on
	Size          int // of each value
	Promise       Promise

	mu      sync.Mutex
	records []entry
	txns    []txn
}

// entry is one record.
type entry struct {
	offset    int64 // that the acknowledgement gave
	partition int32
	state     state
	stored    uint8 // how often it was read, 255 for more
}

// state is what became of a record, as its writer sees it.
type state uint8

const (
	unsent state = iota
	sent
	acked
	refused
)

// anywhere is the offset of an acknowledgement that does not tell it.
const anywhere = -1

// Outcome is how a transaction ended, as its writer was told.
type Outcome uint8

const (
	Committed Outcome = iota
	Aborted
	Unknown // the writer was not told: all or nothing
)

// txn is a transaction: records first to last, counted from Ledger.First.
type txn struct {
	first, last int
	outcome     Outcome
}

// Sent says that record i is on its way to a partition.
func (l *Ledger) Sent(i int, partition int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.at(i); e.state == unsent {
		e.state, e.partition = sent, partition
	}
}

// Acked says that record i was acknowledged, at an offset; a negative one is not known.
func (l *Ledger) Acked(i int, partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.at(i)
	e.state, e.partition, e.offset = acked, partition, max(offset, anywhere)
}

// Refused says that the writer gave record i up, for whatever reason: it may be stored
// or not.
func (l *Ledger) Refused(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at(i).state = refused
}

// Transaction says that records first to last were one transaction.
func (l *Ledger) Transaction(first, last int, outcome Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at(last)
	l.txns = append(l.txns, txn{first - l.First, last - l.First, outcome})
}

// Count is how many records were sent, and how many of them acknowledged.
func (l *Ledger) Count() (out, in int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.records {
		if e.state != unsent {
			out++
		}
		if e.state == acked {
			in++
		}
	}
	return out, in
}

// EachAcked calls f with the number of every acknowledged record, in order.
func (l *Ledger) EachAcked(f func(i int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.records {
		if e.state == acked {
			f(l.First + i)
		}
	}
}

// numbers tells whether i is one of the writer's.
func (l *Ledger) numbers(i int) bool {
	return i >= l.First && (l.Most == 0 || i < l.First+l.Most)
}

// String names the writer.
func (l *Ledger) String() string {
	if l.First == 0 && l.Most == 0 {
		return l.Prefix
	}
	return fmt.Sprintf("%s from %d", l.Prefix, l.First)
}

// at is the entry of record i. The caller holds mu.
func (l *Ledger) at(i int) *entry {
	for len(l.records) <= i-l.First {
		l.records = append(l.records, entry{offset: anywhere})
	}
	return &l.records[i-l.First]
}
