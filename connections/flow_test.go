package connections

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Flows in time, with the clock of testing/synctest and pipes for sockets. The broker
// says that a session lives for 100 s: at risk between 80 and 85 s, stop at 90 s.
const (
	flowLifetime = 100 * time.Second
	flowStop     = 90 * time.Second
)

// flow is a connection in such a bubble, and the broker's view of it.
type flow struct {
	*KafkaConnection
	t        *testing.T
	start    time.Time
	observer *counter
	v        *visit

	mu       sync.Mutex
	read     []time.Time // when the broker read a request
	keys     []int16
	ended    time.Time // when it read the end
	endError error
}

// newFlow opens the connection. answer is called, by the broker, for each request;
// false ends its reading. Everything is closed when the test's function returns.
func newFlow(t *testing.T, answer func(f *flow, r request) bool) *flow {
	l := newLab()
	f := &flow{t: t, observer: new(counter)}
	s := script{tls: l.broker.ServerConfig(), lifetime: flowLifetime.Milliseconds()}
	s.after = func(v *visit) {
		for {
			r, err := v.read()
			f.mu.Lock()
			if err != nil {
				f.ended, f.endError = time.Now(), err
				f.mu.Unlock()
				return
			}
			f.read, f.keys = append(f.read, time.Now()), append(f.keys, r.key)
			f.mu.Unlock()
			if !answer(f, r) {
				return
			}
		}
	}
	f.dialInto(l, s)
	return f
}

// dialInto opens f's connection at a broker with that script.
func (f *flow) dialInto(l *lab, s script) {
	f.t.Helper()
	d := NewDialer(l.config(f.observer))
	d.dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := newPipe()
		f.v = newVisit(there, s)
		go f.v.play(there, s)
		return here, nil
	}
	c, err := d.Open(f.t.Context(), Target{Node: 7, Host: "broker.test", Port: 9094}, ScramOverMtls, sampleCredential(), ClientInfo{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.KafkaConnection, f.start = c, time.Now()
}

// at sleeps until so long after the start.
func (f *flow) at(after time.Duration) {
	time.Sleep(time.Until(f.start.Add(after)))
	synctest.Wait()
}

func (f *flow) finish() {
	_ = f.Close()
	_ = f.v.Conn.Close()
	<-f.v.done
}

// send writes a request and flushes.
func (f *flow) send(r Request, key int16) {
	f.t.Helper()
	if err := sendFrame(f.KafkaConnection, r, key, int32(key), 10); err != nil {
		f.t.Fatal(err)
	}
	if err := f.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) take() {
	f.t.Helper()
	if _, _, err := takeAnswer(f.KafkaConnection); err != nil {
		f.t.Fatal(err)
	}
}

// later runs g and returns where its outcome and the moment of it appear.
func later[T any](g func() T) <-chan outcome[T] {
	out := make(chan outcome[T], 1)
	go func() {
		v := g()
		out <- outcome[T]{v, time.Now()}
	}()
	return out
}

type outcome[T any] struct {
	value T
	at    time.Time
}

func isDone[T any](c <-chan outcome[T]) bool { return len(c) > 0 }

func (f *flow) nextAnswer() error {
	_, err := f.NextAnswer()
	return err
}

// reads returns the keys that the broker read, and when it read the end (0: not yet),
// counted from the start.
func (f *flow) reads() (keys []int16, last, ended time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.read); n > 0 {
		last = f.read[n-1].Sub(f.start)
	}
	if !f.ended.IsZero() {
		ended = f.ended.Sub(f.start)
	}
	return f.keys, last, ended
}

func echo(f *flow, r request) bool { return f.v.frame(r.correlation, r.body) }

// fetchFor answers a request after so long.
func answerAfter(wait time.Duration) func(*flow, request) bool {
	return func(f *flow, r request) bool {
		time.Sleep(wait)
		return echo(f, r)
	}
}

// never leaves requests unanswered but reads on.
func never(*flow, request) bool { return true }

// F7 and the moment of risk: an idle connection ends itself before its session end,
// and says so on both sides.
func TestIdleConnectionEndsItselfAtRisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, echo)
		defer f.finish()
		f.send(Request{Answered: true}, 3)
		f.take()
		waiting := later(f.nextAnswer)
		f.at(79 * time.Second)
		if s := f.State(); s != Open || isDone(waiting) || f.observer.atRisk.Load() != 0 {
			t.Fatalf("state %s before the risk", s)
		}
		f.at(86 * time.Second)
		if s := f.State(); s != Draining || f.observer.atRisk.Load() != 1 {
			t.Errorf("state %s, %d times at risk", s, f.observer.atRisk.Load())
		}
		if got := <-waiting; !errors.Is(got.value, ErrSessionEnding) {
			t.Errorf("NextAnswer: %v", got.value)
		}
		if err := f.nextAnswer(); !errors.Is(err, ErrSessionEnding) {
			t.Errorf("NextAnswer again: %v", err)
		}
		if err := f.Begin(Request{}); !errors.Is(err, ErrSessionEnding) {
			t.Errorf("Begin: %v", err)
		}
		if _, _, ended := f.reads(); ended < 80*time.Second || ended > 86*time.Second || !errors.Is(f.endError, io.EOF) {
			t.Errorf("the broker read the end after %v: %v", ended, f.endError)
		}
		if end, ok := f.SessionEnd(); !ok || end.Sub(f.start) > flowLifetime {
			t.Errorf("session end after %v (%v)", end.Sub(f.start), ok)
		}
	})
}

// At risk with something unanswered: requests are taken until a quiet moment comes.
func TestBusyConnectionEndsAtAQuietMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, answerAfter(500*time.Millisecond))
		defer f.finish()
		f.at(79900 * time.Millisecond)
		for range 20 { // one always follows on the other
			f.send(Request{Wait: 0, Answered: true}, 3)
		}
		for i := range 20 {
			f.take()
			if i == 12 { // 86.4 s
				if s := f.State(); s != AtRiskOfAuthTokenExpiry {
					t.Fatalf("state %s", s)
				}
				f.send(Request{Answered: true}, 1)
			}
		}
		f.take() // the one that was sent at risk
		if s := f.State(); s != Draining {
			t.Errorf("state %s", s)
		}
		if err := f.nextAnswer(); !errors.Is(err, ErrSessionEnding) {
			t.Errorf("NextAnswer: %v", err)
		}
		if n := f.observer.atRisk.Load(); n != 1 {
			t.Errorf("%d times at risk", n)
		}
	})
}

// Where no quiet moment comes, nothing is forwarded from stop on: Begin waits for what
// is outstanding.
func TestNothingIsForwardedFromStopOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, answerAfter(700*time.Millisecond))
		defer f.finish()
		f.at(70 * time.Second)
		f.send(Request{Answered: true}, 3) // there is always one outstanding
		sending := later(func() error {
			for {
				if err := sendFrame(f.KafkaConnection, Request{Answered: true}, 3, 3, 10); err != nil {
					return err
				}
				if err := f.Flush(); err != nil {
					return err
				}
				time.Sleep(650 * time.Millisecond)
			}
		})
		answers := 0
		for {
			if _, _, err := takeAnswer(f.KafkaConnection); err != nil {
				if !errors.Is(err, ErrSessionEnding) {
					t.Error(err)
				}
				break
			}
			answers++
		}
		if got := <-sending; !errors.Is(got.value, ErrSessionEnding) {
			t.Errorf("Begin: %v", got.value)
		}
		keys, last, ended := f.reads()
		// The broker reads a request when the one before it is answered.
		if len(keys) != answers || last >= flowLifetime || ended >= flowLifetime {
			t.Errorf("%d requests, %d answers, last read %v, ended %v", len(keys), answers, last, ended)
		}
		if last < flowStop-2*time.Second {
			t.Errorf("the last request was read after %v: risk is no reason to stop", last)
		}
	})
}

// A producer with acks=0 never has a quiet moment. At stop the half-close delivers
// what was written, and the broker's own end is the answer.
func TestSilentProducerIsEndedByHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, never)
		defer f.finish()
		waiting := later(f.nextAnswer)
		sent := 0
		var err error
		for err == nil {
			if err = sendFrame(f.KafkaConnection, Request{}, 0, 0, 10); err == nil {
				sent++
				time.Sleep(time.Second) // no flush: the connection must see to it
			}
		}
		if !errors.Is(err, ErrSessionEnding) {
			t.Errorf("Begin: %v", err)
		}
		if got := <-waiting; !errors.Is(got.value, ErrSessionEnding) {
			t.Errorf("NextAnswer: %v", got.value)
		}
		keys, _, ended := f.reads()
		if len(keys) != sent || ended < flowStop || ended >= flowLifetime {
			t.Errorf("the broker read %d of %d requests, and the end after %v", len(keys), sent, ended)
		}
		if f.Unanswered() != sent {
			t.Errorf("%d unanswered, want %d", f.Unanswered(), sent)
		}
	})
}

// A broker that does not end its side after that is not waited for without end.
func TestSilentProducersBrokerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFlow(t, func(f *flow, r request) bool {
			if r.key == 1 {
				go func() { _, _ = io.Copy(io.Discard, f.v.Conn) }()
				<-release
			}
			return true
		})
		defer f.finish()
		defer close(release)
		waiting := later(f.nextAnswer)
		f.send(Request{}, 1)
		got := <-waiting
		if e := asError(t, got.value); e.Fault != Timeout || e.Phase != PhaseRelay {
			t.Errorf("%v", got.value)
		}
		if after := got.at.Sub(f.start); after > flowStop+deliverPatience+time.Second {
			t.Errorf("after %v", after)
		}
	})
}

// Rule 13: behind a wait without a bound a request stays here, and what was gathered
// goes out before that.
func TestRequestWaitsBehindAnUnboundedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, answerAfter(20*time.Second))
		defer f.finish()
		if err := sendFrame(f.KafkaConnection, Request{Wait: Unbounded, Answered: true}, 11, 11, 10); err != nil {
			t.Fatal(err) // not flushed
		}
		begun := later(func() error { return f.Begin(Request{Answered: true}) })
		f.at(10 * time.Second)
		if keys, _, _ := f.reads(); isDone(begun) || len(keys) != 1 {
			t.Fatalf("begun: %v; the broker read %v", isDone(begun), keys)
		}
		f.take()
		if got := <-begun; got.value != nil || got.at.Sub(f.start) < 20*time.Second {
			t.Errorf("Begin: %v after %v", got.value, got.at.Sub(f.start))
		}
		if _, err := f.Write(rawRequest(3, 3, 1)); err != nil {
			t.Error(err)
		}
		if err := f.End(); err != nil {
			t.Error(err)
		}
		if err := f.Flush(); err != nil {
			t.Error(err)
		}
		f.take()
	})
}

// A fetch that crosses stop holds back what comes behind it, and is itself answered.
func TestRequestWaitsBehindAFetchThatCrossesStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, answerAfter(25*time.Second))
		defer f.finish()
		f.at(70 * time.Second)
		f.send(Request{Wait: 25 * time.Second, Answered: true}, 1)
		begun := later(func() error { return f.Begin(Request{Answered: true}) })
		f.take()
		if got := <-begun; !errors.Is(got.value, ErrSessionEnding) || got.at.Sub(f.start) < 95*time.Second {
			t.Errorf("Begin: %v after %v", got.value, got.at.Sub(f.start))
		}
		if err := f.nextAnswer(); !errors.Is(err, ErrSessionEnding) {
			t.Errorf("NextAnswer: %v", err)
		}
		if keys, _, _ := f.reads(); len(keys) != 1 {
			t.Errorf("the broker read %v", keys)
		}
	})
}

// The same fetch that is answered early lets what waited go on.
func TestRequestGoesOnWhenTheFetchBeforeItIsAnsweredEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, answerAfter(time.Second))
		defer f.finish()
		f.at(70 * time.Second)
		f.send(Request{Wait: 25 * time.Second, Answered: true}, 1)
		begun := later(func() error { return f.Begin(Request{Answered: true}) })
		f.take()
		if got := <-begun; got.value != nil || got.at.Sub(f.start) != 71*time.Second {
			t.Errorf("Begin: %v after %v", got.value, got.at.Sub(f.start))
		}
	})
}

// A frame that is half written at the moment of risk, and at stop, is completed and
// answered first.
func TestHalfWrittenFrameIsCompletedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, echo)
		defer f.finish()
		f.at(79 * time.Second)
		if err := f.Begin(Request{Answered: true}); err != nil {
			t.Fatal(err)
		}
		frame := rawRequest(0, 9, 1000)
		if _, err := f.Write(frame[:500]); err != nil {
			t.Fatal(err)
		}
		f.at(95 * time.Second)
		if s := f.State(); s != AtRiskOfAuthTokenExpiry {
			t.Fatalf("state %s", s)
		}
		if _, err := f.Write(frame[500:]); err != nil {
			t.Fatal(err)
		}
		if err := f.End(); err != nil {
			t.Fatal(err)
		}
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		f.take()
		if err := f.nextAnswer(); !errors.Is(err, ErrSessionEnding) {
			t.Errorf("NextAnswer: %v", err)
		}
	})
}

// A waiting Begin ends with the connection, however that ends.
func TestWaitingBeginEndsWithTheConnection(t *testing.T) {
	ends := map[string]struct {
		end   func(f *flow)
		fault Fault
	}{
		"Close": {func(f *flow) { _ = f.Close() }, LocallyClosed},
		"Abort": {func(f *flow) { f.Abort() }, LocallyClosed},
		"broker": {func(f *flow) {
			waiting := later(f.nextAnswer)
			_ = f.v.Conn.Close()
			if e := asError(f.t, (<-waiting).value); e.Fault != PeerClosed || e.Phase != PhaseRelay || !e.Retry {
				f.t.Errorf("NextAnswer: %v", e)
			}
		}, PeerClosed},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlow(t, never)
				defer f.finish()
				f.send(Request{Wait: Unbounded, Answered: true}, 11)
				begun := later(func() error { return f.Begin(Request{Answered: true}) })
				f.at(time.Second)
				if isDone(begun) {
					t.Fatal("Begin did not wait")
				}
				end.end(f)
				if e := asError(t, (<-begun).value); e.Fault != end.fault {
					t.Errorf("Begin: %v", e)
				}
				if s := f.State(); s != Closed {
					t.Errorf("state %s", s)
				}
			})
		})
	}
}

// Finish delivers what was gathered; what is outstanding is answered, then comes
// io.EOF. The moment of risk changes nothing about that.
func TestFinishDeliversAndIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, answerAfter(10*time.Second))
		defer f.finish()
		f.at(75 * time.Second)
		for range 2 {
			if err := sendFrame(f.KafkaConnection, Request{Answered: true}, 3, 3, 10); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Finish(); err != nil {
			t.Fatal(err)
		}
		if err := f.Finish(); err != nil {
			t.Errorf("Finish again: %v", err)
		}
		if e := asError(t, f.Begin(Request{})); e.Fault != LocallyClosed {
			t.Errorf("Begin: %v", e)
		}
		f.take()
		f.take()
		if err := f.nextAnswer(); !errors.Is(err, io.EOF) {
			t.Errorf("NextAnswer: %v", err)
		}
		if n := f.observer.atRisk.Load(); n != 0 {
			t.Errorf("%d times at risk", n)
		}
	})
}

// Finish inside a frame: that request is lost and owed nothing.
func TestFinishInsideAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, echo)
		defer f.finish()
		f.send(Request{Answered: true}, 3)
		if err := f.Begin(Request{Answered: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(rawRequest(0, 9, 1000)[:500]); err != nil {
			t.Fatal(err)
		}
		if err := f.Finish(); err != nil {
			t.Fatal(err)
		}
		f.take()
		if err := f.nextAnswer(); !errors.Is(err, io.EOF) {
			t.Errorf("NextAnswer: %v", err)
		}
	})
}

// Rule 7: a broker that ends with an answer outstanding is a fault, after Finish too.
func TestLostAnswerAfterFinishIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, never)
		defer f.finish()
		f.send(Request{Answered: true}, 3)
		if err := f.Finish(); err != nil {
			t.Fatal(err)
		}
		if e := asError(t, f.nextAnswer()); e.Fault != PeerClosed {
			t.Errorf("NextAnswer: %v", e)
		}
	})
}

// A broker that takes no bytes ends the connection after Stall.
func TestStalledWriteEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFlow(t, func(*flow, request) bool { <-release; return false })
		defer f.finish()
		defer close(release)
		f.send(Request{Answered: true}, 3) // the broker reads no more behind this one
		f.at(10 * time.Second)
		err := sendFrame(f.KafkaConnection, Request{Answered: true}, 0, 0, 1<<20)
		if e := asError(t, err); e.Fault != Timeout {
			t.Errorf("Write: %v", err)
		}
		if stalled := time.Since(f.start) - 10*time.Second; stalled < defaultStall || stalled > defaultStall*5/4+time.Second {
			t.Errorf("after %v", stalled)
		}
		if e := asError(t, f.Begin(Request{})); e.Fault != Timeout {
			t.Errorf("Begin: %v", e)
		}
	})
}
