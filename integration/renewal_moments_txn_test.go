//go:build integration

package integration

// Transactions that are nearly always open, on one raw connection each.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/checker"
)

// openTransactions has one open nearly always, longer than a session; every third one is
// aborted.
func (w *moments) openTransactions(ctx context.Context, l *leg) error {
	ledger := w.ledger("txn", l.name, checker.Acknowledged)
	id, err := w.c.Admin.TxnOn(ctx, l.node, w.app+"-"+l.name)
	if err != nil {
		return unlessOver(ctx, err)
	}
	t := &rawTxn{leg: l, id: id, topic: ledger.Topic}
	if err := t.begin(); err != nil {
		return err
	}
	for n, i := 0, 0; ctx.Err() == nil; n++ {
		if err := t.addPartition(); err != nil {
			return err
		}
		first := i
		for end := time.Now().Add(w.life + rand.N(w.life)); i == first || time.Now().Before(end) && ctx.Err() == nil; i++ {
			ledger.Sent(i, l.partition)
			r := produceRequest(9, -1, [16]byte{}, ledger.Record(i, l.partition))
			r.TransactionID, r.TimeoutMillis = &id, 1000
			r.Topics[0].Partitions[0].Records = t.next().batch(checker.Key(ledger.Prefix, i), checker.Value(checker.Key(ledger.Prefix, i), ledger.Size))
			if err := l.ask(r, wrote(ledger, i, l.partition)); err != nil {
				return err
			}
			for len(l.due) >= 1+rand.N(3) {
				if err := l.hear(); err != nil {
					return err
				}
			}
			l.pause(ctx, 100*time.Millisecond)
		}
		ledger.Transaction(first, i-1, map[bool]checker.Outcome{true: checker.Committed, false: checker.Aborted}[n%3 != 2])
		if err := t.end(n%3 != 2); err != nil {
			return err
		}
	}
	return nil
}

// rawTxn is the producer of a connection's transactions.
type rawTxn struct {
	*leg
	id, topic string
	origin
}

func (t *rawTxn) begin() error {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.Version, r.TransactionalID, r.TransactionTimeoutMillis = 3, &t.id, 600_000
	return t.retried(r, func(resp kmsg.Response) int16 {
		got := resp.(*kmsg.InitProducerIDResponse)
		t.origin = origin{id: got.ProducerID, epoch: got.ProducerEpoch, txn: true}
		return got.ErrorCode
	})
}

func (t *rawTxn) next() origin {
	o := t.origin
	t.sequence++
	return o
}

func (t *rawTxn) addPartition() error {
	of := kmsg.NewAddPartitionsToTxnRequestTopic()
	of.Topic, of.Partitions = t.topic, []int32{t.partition}
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Topics = 3, t.id, t.origin.id, t.epoch, append(r.Topics, of)
	return t.retried(r, func(resp kmsg.Response) int16 {
		return resp.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
	})
}

func (t *rawTxn) end(commit bool) error {
	r := kmsg.NewPtrEndTxnRequest()
	r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = 3, t.id, t.origin.id, t.epoch, commit
	return t.retried(r, func(resp kmsg.Response) int16 { return resp.(*kmsg.EndTxnResponse).ErrorCode })
}

// retried asks until the coordinator is done with what came before, as every client does.
func (t *rawTxn) retried(r kmsg.Request, code func(kmsg.Response) int16) error {
	for end := time.Now().Add(patient); ; time.Sleep(20 * time.Millisecond) {
		var last error
		err := t.ask(r, func(resp kmsg.Response) error { last = kerr.ErrorForCode(code(resp)); return nil })
		for err == nil && len(t.due) > 0 {
			err = t.hear()
		}
		if err == nil && (last == nil || !kerr.IsRetriable(last) && !errors.Is(last, kerr.ConcurrentTransactions) || time.Now().After(end)) {
			err = last
		} else if err == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("key %d of %s: %w", r.Key(), t.id, err)
		}
		return nil
	}
}
