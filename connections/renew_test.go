package connections

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// write sends a request of its key, whose correlation id is the key too.
func (r *rig) write(key int16, wait time.Duration) outcome[error] {
	return <-r.writing(key, wait)
}

func (r *rig) writing(key int16, wait time.Duration) <-chan outcome[error] {
	return later(func() error {
		if err := sendFrame(r.KafkaConnection, Request{Wait: wait, Answered: key != 0}, key, int32(key), 10); err != nil {
			return err
		}
		return r.Flush()
	})
}

// wrote expects that a request went out, at that moment.
func (r *rig) wrote(o outcome[error], at time.Duration) {
	r.t.Helper()
	if got := o.at.Sub(r.start); o.value != nil || got.Round(10*time.Millisecond) != at {
		r.t.Errorf("the request went out after %v: %v; want %v", got, o.value, at)
	}
}

// saw expects what the broker read behind the login.
func (r *rig) saw(want ...int16) {
	r.t.Helper()
	if got, _ := r.k.keys(); !slices.Equal(got, want) {
		r.t.Errorf("the broker read %v, want %v", got, want)
	}
}

// renewed expects so many renewals that worked, the last of which ended with so many
// requests unanswered when it began.
func (r *rig) renewed(times, unanswered int) {
	r.t.Helper()
	all := r.s.renewals()
	if n := r.observer.renewals("ok"); n != times || len(all) == 0 {
		r.t.Errorf("%d renewals, want %d: %+v", n, times, all)
		return
	}
	if got := all[len(all)-1]; got.Err != nil || got.Unanswered != unanswered {
		r.t.Errorf("the last renewal: %+v, want %d unanswered", got, unanswered)
	}
}

// F7: an idle leg is renewed by its next request, before it: between the begin of risk
// and the session end, and after it too.
func TestAnIdleLegIsRenewedByItsNextRequest(t *testing.T) {
	for _, at := range []time.Duration{92 * time.Second, 99 * time.Second, 102 * time.Second, 10 * time.Hour} {
		t.Run(at.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				defer r.finish()
				came, _ := r.answers()
				r.at(60 * time.Second)
				if s := r.State(); s != Open || r.observer.atRisk.Load() != 0 {
					t.Errorf("%v at 60 s", s)
				}
				r.at(at)
				if s := r.State(); s != AtRiskOfAuthTokenExpiry || r.observer.atRisk.Load() != 1 {
					t.Errorf("%v before the request", s)
				}
				r.wrote(r.write(3, 0), at)
				if id := <-came; id != 3 {
					t.Errorf("answer %d", id)
				}
				r.saw(17, 36, 36, 3)
				r.renewed(1, 0)
				if end, _ := r.SessionEnd(); r.State() != Open || end.Sub(r.start) != at+flowLifetime {
					t.Errorf("%v, session end after %v", r.State(), end.Sub(r.start))
				}
				left := r.s.renewals()[0].Left
				if want := flowLifetime - at; left.Round(time.Second) != want {
					t.Errorf("%v were left, want %v", left, want)
				}
			})
		})
	}
}

// Rule 14, and the orders of waits: whatever is in flight, SaslHandshake goes out at once
// behind it, the request that met the risk waits, and the answers come in order.
func TestTheHandshakeGoesBehindWhatIsInFlight(t *testing.T) {
	const fetch, join, parked = 1, 11, 19
	waits := map[int16]time.Duration{fetch: 30 * time.Second, join: 200 * time.Second, parked: 40 * time.Second}
	for _, tc := range []struct {
		name   string
		flight []int16       // written at 60 s
		behind time.Duration // when the last of them is answered
		sees   []int16
	}{
		{"a fetch that crosses the session end", []int16{fetch}, 95 * time.Second, []int16{1, 17, 36, 36, 3}},
		{"a parked produce", []int16{parked}, 105 * time.Second, []int16{19, 17, 36, 36, 3}},
		{"a join, which nothing else may be written behind", []int16{join}, 265 * time.Second, []int16{11, 17, 36, 36, 3}},
		{"acks=0 produces, which have no answer", []int16{0, 0, 0}, 92 * time.Second, []int16{0, 0, 0, 17, 36, 36, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, func(k *kafka) {
					k.wait = func(r request) time.Duration { return waits[r.key] }
				})
				defer r.finish()
				came, _ := r.answers()
				r.at(65 * time.Second)
				for _, key := range tc.flight {
					w := waits[key]
					if key == join {
						w = Unbounded
					}
					r.wrote(r.write(key, w), 65*time.Second)
				}
				r.at(92 * time.Second)
				next := r.writing(3, 0)
				synctest.Wait()
				// Nothing keeps the broker from reading on behind acks=0.
				if keys, _ := r.k.keys(); tc.flight[0] != 0 && (isDone(next) || len(keys) != len(tc.flight)) {
					t.Errorf("with an answer outstanding the broker has read %v", keys)
				}
				r.wrote(<-next, tc.behind)
				synctest.Wait()
				r.saw(tc.sees...)
				for _, key := range append(tc.flight, 3) {
					if key == 0 {
						continue
					}
					if id := <-came; id != int32(key) {
						t.Errorf("answer %d, want %d", id, key)
					}
				}
				if r.Unanswered() != 0 {
					t.Errorf("%d unanswered", r.Unanswered())
				}
				r.renewed(1, len(tc.flight))
			})
		})
	}
}

// A request that waits behind a join when the risk begins has the handshake written
// then: it is in the broker's hands before the join is answered.
func TestARiskThatBeginsWhileARequestWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(k *kafka) {
			k.wait = func(q request) time.Duration {
				return map[int16]time.Duration{11: 100 * time.Second}[q.key]
			}
		})
		defer r.finish()
		_, _ = r.answers()
		r.at(10 * time.Second)
		r.wrote(r.write(11, Unbounded), 10*time.Second)
		next := r.writing(3, 0)
		r.at(60 * time.Second)
		if r.State() != Open || isDone(next) {
			t.Errorf("%v, written: %v", r.State(), isDone(next))
		}
		r.at(91 * time.Second)
		if r.State() != Reauthenticating {
			t.Errorf("%v", r.State())
		}
		r.wrote(<-next, 110*time.Second)
		synctest.Wait()
		r.saw(11, 17, 36, 36, 3)
		r.renewed(1, 1)
		if got := r.s.renewals()[0]; got.Wait < 19*time.Second || got.Took < got.Wait {
			t.Errorf("it waited %v of %v", got.Wait, got.Took)
		}
	})
}

// A newer credential is taken after its delay, by a busy leg, long before the session
// end; an idle one waits for its next request. The delay is counted from the request
// that saw it.
func TestANewerCredentialIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.finish()
		_, _ = r.answers()
		r.at(5 * time.Second)
		r.s.publish("token-2", 1000*time.Hour)
		r.wrote(r.write(3, 0), 5*time.Second)
		if r.s.prepared != 1 || r.State() != Open {
			t.Errorf("%v, prepared %d times", r.State(), r.s.prepared)
		}
		r.at(5900 * time.Millisecond)
		r.wrote(r.write(3, 0), 5900*time.Millisecond)
		synctest.Wait()
		r.saw(3, 3)
		r.at(27 * time.Second)
		if r.State() != Open {
			t.Errorf("an idle leg is %v", r.State())
		}
		r.wrote(r.write(3, 0), 27*time.Second)
		synctest.Wait()
		r.saw(3, 3, 17, 36, 36, 3)
		r.renewed(1, 0)
		if u := r.k.lastUser(); u != "token-2" || r.observer.atRisk.Load() != 1 {
			t.Errorf("renewed with %s, %d times at risk", u, r.observer.atRisk.Load())
		}
		r.at(50 * time.Second)
		r.wrote(r.write(3, 0), 50*time.Second)
		synctest.Wait()
		r.saw(3, 3, 17, 36, 36, 3, 3)
	})
}

// The newest credential is chosen when the handshake is answered, which may be minutes
// after it was written.
func TestTheNewestCredentialIsChosenBehindTheHandshake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(k *kafka) {
			k.wait = func(q request) time.Duration {
				return map[int16]time.Duration{11: 100 * time.Second}[q.key]
			}
		})
		defer r.finish()
		_, _ = r.answers()
		r.at(65 * time.Second)
		r.wrote(r.write(11, Unbounded), 65*time.Second)
		r.at(95 * time.Second)
		next := r.writing(3, 0)
		r.at(120 * time.Second)
		r.s.publish("token-2", 1000*time.Hour)
		r.wrote(<-next, 165*time.Second)
		if u := r.k.lastUser(); u != "token-2" || r.s.Newer() {
			t.Errorf("renewed with %s", u)
		}
		r.renewed(1, 1)
	})
}

// The one taken in front of the handshake may have died since: then its successor is
// waited for.
func TestTheSuccessorOfADeadCredentialIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(k *kafka) {
			k.wait = func(q request) time.Duration {
				return map[int16]time.Duration{11: 100 * time.Second}[q.key]
			}
		})
		defer r.finish()
		_, _ = r.answers()
		r.s.known = func(c *token) bool { return c.name == "token-1" || time.Since(r.start) > 168*time.Second }
		r.at(65 * time.Second)
		r.wrote(r.write(11, Unbounded), 65*time.Second)
		r.at(91 * time.Second)
		next := r.writing(3, 0)
		r.at(164 * time.Second)
		r.s.publish("token-2", 1000*time.Hour)
		if o := <-next; o.value != nil || o.at.Sub(r.start) < 168*time.Second {
			t.Errorf("%v after %v", o.value, o.at.Sub(r.start))
		}
		if u := r.k.lastUser(); u != "token-2" {
			t.Errorf("renewed with %s", u)
		}
		r.renewed(1, 1)
	})
}

// A slow reader with a large answer under way: the renewal waits for it, and its time is
// not the broker's.
func TestASlowReaderWithALargeAnswerUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 2 << 20
		r := newRig(t, func(k *kafka) {
			k.size = func(q request) int {
				return map[bool]int{true: size, false: 10}[q.key == 1]
			}
		})
		defer r.finish()
		r.at(65 * time.Second)
		r.wrote(r.write(1, 0), 65*time.Second)
		r.at(91 * time.Second)
		next := r.writing(3, 0)
		a, err := r.NextAnswer()
		if err != nil {
			t.Fatal(err)
		}
		for left, b := a.Size, make([]byte, 16<<10); left > 0; {
			n, err := r.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			left -= n
			time.Sleep(time.Second) // over two minutes in all
		}
		r.Answered()
		time.Sleep(2 * ownPatience) // it takes the last piece slowly, too
		if isDone(next) {
			t.Error("the next request went out before the answer to the handshake was read")
		}
		r.take()
		if o := <-next; o.value != nil {
			t.Error(o.value)
		}
		r.renewed(1, 1)
		r.saw(1, 17, 36, 36, 3)
	})
}

// B67: a broker that leaves a throttled connection alone for long is not dead.
func TestARenewalOnAThrottledConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(k *kafka) {
			k.wait = func(q request) time.Duration {
				return map[int16]time.Duration{0: 50 * time.Second}[q.key]
			}
		})
		defer r.finish()
		_, _ = r.answers()
		r.at(69 * time.Second)
		r.wrote(r.write(0, 0), 69*time.Second)
		r.at(91 * time.Second)
		r.wrote(r.write(3, 0), 119*time.Second)
		r.renewed(1, 1)
	})
}

// Error 34: the leg goes on with its old session, and tries again a second later. After
// three in a row it ends as one without re-authentication.
func TestTooSoonIsTriedAgain(t *testing.T) {
	for _, refusals := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(refusals), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				left := refusals
				r := newRig(t, func(k *kafka) {
					k.policy = RenewReauthenticate
					k.broken = func(step string, v *visit, q request) (bool, bool) {
						if step != "handshake" || left == 0 {
							return false, false
						}
						left--
						return true, tooSoon(v, q)
					}
				})
				defer r.finish()
				_, ended := r.answers()
				r.at(87 * time.Second)
				for i := range 12 {
					r.at(87*time.Second + time.Duration(i)*500*time.Millisecond)
					if r.State() == Open && i > 5 {
						break
					}
					if o := r.write(3, 0); o.value != nil && (refusals < 3 || !errors.Is(o.value, ErrSessionEnding)) {
						t.Fatal(o.value)
					}
				}
				if n := r.observer.renewals("too_soon"); n != min(refusals, 3) {
					t.Errorf("%d times too soon", n)
				}
				if refusals < 3 {
					r.renewed(1, 0)
					return
				}
				// At risk at 90 s, it is tried then, a second later and two.
				if o := <-ended; !errors.Is(o.value, ErrSessionEnding) || o.at.Sub(r.start) > 93*time.Second {
					t.Errorf("%v after %v", o.value, o.at.Sub(r.start))
				}
				if r.observer.renewals("ok") != 0 || r.observer.closes("session_end") != 1 {
					t.Errorf("renewals %v, closes %v", r.observer.renewed, r.observer.forced)
				}
			})
		})
	}
}

// Two renewals of a leg are a second apart, whatever is published.
func TestRenewalsAreASecondApart(t *testing.T) {
	// At risk again at once; and so soon that stop comes before the second is over.
	for _, life := range []time.Duration{2500 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(life.String(), func(t *testing.T) { renewalsAreASecondApart(t, life) })
	}
}

func renewalsAreASecondApart(t *testing.T, life time.Duration) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(k *kafka) { k.grant = func() time.Duration { return life } })
		defer r.finish() // which fails if the broker saw two within a second
		_, _ = r.answers()
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			if o := r.write(3, 0); o.value != nil {
				t.Fatal(o.value)
			}
		}
		if n, d := r.observer.renewals("ok"), time.Since(r.start); n < 4 || n > int(d.Seconds())+1 {
			t.Errorf("%d renewals in %v", n, d)
		}
	})
}

// A broker that dies while the handshake waits behind a client's request has refused no
// renewal: the connection is lost, as without one.
func TestABrokerThatDiesInFrontOfTheHandshake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(k *kafka) {
			k.wait = func(q request) time.Duration {
				return map[int16]time.Duration{11: time.Hour}[q.key]
			}
		})
		defer r.finish()
		_, ended := r.answers()
		r.at(65 * time.Second)
		r.wrote(r.write(11, Unbounded), 65*time.Second)
		r.at(91 * time.Second)
		next := r.writing(3, 0)
		r.at(100 * time.Second)
		if r.State() != Reauthenticating {
			t.Fatal(r.State())
		}
		_ = r.v.plain.Close()
		for _, o := range []outcome[error]{<-next, <-ended} {
			if e := asError(t, o.value); e.Phase != PhaseRelay || e.Fault != PeerClosed {
				t.Error(e)
			}
		}
		if len(r.observer.forced) != 0 || r.observer.renewals("peer_closed") != 1 {
			t.Errorf("renewals %v, closes %v", r.observer.renewed, r.observer.forced)
		}
	})
}

// Without a credential that would do, requests go on until stop; then the leg ends at a
// quiet moment, within the time that is waited for one.
func TestNoCredentialInTime(t *testing.T) {
	for _, comes := range []bool{false, true} {
		t.Run(fmt.Sprint("it comes late: ", comes), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				defer r.finish()
				_, ended := r.answers()
				r.s.known = func(*token) bool { return comes && time.Since(r.start) > 93*time.Second }
				var err error
				for err == nil && time.Since(r.start) < 120*time.Second {
					time.Sleep(300 * time.Millisecond)
					err = r.write(3, 0).value
				}
				if comes {
					if err != nil {
						t.Error(err)
					}
					r.renewed(1, 0)
					return
				}
				after := time.Since(r.start)
				if !errors.Is(err, ErrSessionEnding) || after < flowStop || after > 99*time.Second {
					t.Errorf("%v after %v", err, after)
				}
				if o := <-ended; !errors.Is(o.value, ErrSessionEnding) {
					t.Error(o.value)
				}
				if r.observer.renewals("no_credential") == 0 || r.observer.closes("session_end") != 1 {
					t.Errorf("renewals %v, closes %v", r.observer.renewed, r.observer.forced)
				}
			})
		})
	}
}

// A token that would give no longer session is none: nothing is renewed with it in a
// circle, and the successor is taken when it comes.
func TestATokenAtItsEndIsNoGain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.finish()
		_, _ = r.answers()
		r.s.newest.Store(&token{"token-1", r.start.Add(flowLifetime), r.start})
		r.s.latest.Store(r.s.newest.Load())
		for time.Since(r.start) < 89*time.Second {
			time.Sleep(100 * time.Millisecond)
			if o := r.write(3, 0); o.value != nil {
				t.Fatal(o.value)
			}
		}
		if n := len(r.s.renewals()); n > 20 || r.observer.renewals("ok") != 0 {
			t.Errorf("%d attempts, %v", n, r.observer.renewed)
		}
		r.s.publish("token-2", time.Hour)
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			if o := r.write(3, 0); o.value != nil {
				t.Fatal(o.value)
			}
		}
		r.renewed(1, 0)
	})
}

// F42: whatever goes wrong in a renewal ends the connection, with one cause on both
// sides, within the bound. The request that waited was not written.
func TestARenewalThatFailsEndsTheConnection(t *testing.T) {
	wrongSignature := func(v *visit, r request) bool {
		return v.say(r, "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", time.Hour.Milliseconds())
	}
	noLife := func(v *visit, r request) bool { v.lifetime = 0; return goodFinal(v, r) }
	refused := func(v *visit, r request) bool {
		return v.refuse(r, 58, "Cannot change principals during re-authentication")
	}
	otherID := func(v *visit, r request) bool { r.correlation = 77; return goodHandshake(v, r) }
	large := func(v *visit, r request) bool { return v.frame(r.correlation, make([]byte, maxLoginAnswer)) }
	silent := func(v *visit, _ request) bool { _, _ = io.Copy(io.Discard, v.Conn); return false }
	torn := func(v *visit, r request) bool {
		_ = v.bytes([]byte{0, 0, 0, 40, 0, 0, 0, byte(r.correlation), 1})
		return hangUp(v, r)
	}
	tornAndSilent := func(v *visit, r request) bool { _ = v.bytes([]byte{0, 0, 0, 40, 0}); return silent(v, r) }
	for _, tc := range []struct {
		step  string
		name  string
		do    step
		fault Fault
	}{
		{"handshake", "the broker dies", hangUp, PeerClosed},
		{"first", "the broker dies", hangUp, PeerClosed},
		{"final", "the broker dies", hangUp, PeerClosed},
		{"handshake", "it dies within an answer", torn, PeerClosed},
		{"final", "it dies within an answer", torn, PeerClosed},
		{"handshake", "the broker hangs", silent, Timeout},
		{"first", "the broker hangs", silent, Timeout},
		{"final", "the broker hangs", silent, Timeout},
		{"first", "it hangs within an answer", tornAndSilent, Timeout},
		{"handshake", "another mechanism", handshakeCode(33), NoMechanism},
		{"handshake", "a correlation id of nobody", otherID, Hostile},
		{"handshake", "too large an answer", large, Hostile},
		{"first", "a refusal", refused, CredentialRefused},
		{"final", "a refusal", refused, CredentialRefused},
		{"final", "a wrong server signature", wrongSignature, Hostile},
		{"final", "a session without life", noLife, CredentialExpired},
	} {
		for _, flight := range []int16{0, 1} { // nothing, and a fetch that is answered first
			t.Run(fmt.Sprintf("%s, %s, key %d in flight", tc.step, tc.name, flight), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t, func(k *kafka) {
						k.wait = func(q request) time.Duration {
							return map[int16]time.Duration{1: 30 * time.Second}[q.key]
						}
						k.broken = func(step string, v *visit, q request) (bool, bool) {
							return step == tc.step, step == tc.step && tc.do(v, q)
						}
					})
					defer r.finish()
					came, ended := r.answers()
					r.at(68 * time.Second)
					if flight == 1 {
						r.wrote(r.write(1, 30*time.Second), 68*time.Second)
					}
					r.at(91 * time.Second)
					r.failed(r.write(3, 0), ended, tc.fault, tc.step)
					if flight == 1 {
						if id := <-came; id != 1 {
							t.Errorf("answer %d", id)
						}
					}
				})
			})
		}
	}
}

// failed expects the end that a failed renewal is.
func (r *rig) failed(o outcome[error], ended <-chan outcome[error], fault Fault, step string) {
	r.t.Helper()
	e := asError(r.t, o.value)
	phase := PhaseAuthenticate
	if step == "handshake" {
		phase = PhaseMechanism
	}
	if e.Fault != fault || e.Phase != phase {
		r.t.Errorf("%v in phase %v, want %v, %v: %v", e.Fault, e.Phase, fault, phase, e)
	}
	if at := o.at.Sub(r.start); at > 98*time.Second+ownPatience+time.Second {
		r.t.Errorf("after %v", at)
	}
	other := <-ended
	if got := asError(r.t, other.value); got != e {
		r.t.Errorf("the answers ended with %v, the requests with %v", got, e)
	}
	if r.State() != Closed {
		r.t.Errorf("%v", r.State())
	}
	keys, _ := r.k.keys()
	if slices.Contains(keys, 3) {
		r.t.Errorf("the request that waited was written: %v", keys)
	}
	if r.observer.closes(fault.String()) != 1 || r.observer.renewals(fault.String()) != 1 || r.observer.renewals("ok") != 0 {
		r.t.Errorf("renewals %v, closes %v", r.observer.renewed, r.observer.forced)
	}
}

// Whoever ends a connection in the midst of a renewal ends the wait, too; nothing is
// counted as a renewal's fault.
func TestAnAbortEndsARenewal(t *testing.T) {
	for name, end := range map[string]func(*rig){"Abort": func(r *rig) { r.Abort() }, "Close": func(r *rig) { _ = r.Close() }} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, func(k *kafka) {
					k.broken = func(_ string, v *visit, q request) (bool, bool) { return true, hang(v, q) && false }
				})
				defer r.finish()
				_, ended := r.answers()
				r.at(91 * time.Second)
				next := r.writing(3, 0)
				r.at(93 * time.Second)
				if r.State() != Reauthenticating {
					t.Fatal(r.State())
				}
				end(r)
				for _, o := range []outcome[error]{<-next, <-ended} {
					if e := asError(t, o.value); e.Fault != LocallyClosed || o.at.Sub(r.start) != 93*time.Second {
						t.Errorf("%v after %v", e, o.at.Sub(r.start))
					}
				}
				if len(r.observer.forced) != 0 || r.observer.renewals("closed") != 1 {
					t.Errorf("renewals %v, closes %v", r.observer.renewed, r.observer.forced)
				}
			})
		})
	}
}

// The longest wait of a leg's requests moves its moment of risk ahead, so that what is
// behind such a wait is renewed before stop.
func TestTheLongestWaitMovesTheMomentOfRisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(k *kafka) {
			k.wait = func(q request) time.Duration {
				return map[int16]time.Duration{1: 15 * time.Second}[q.key]
			}
		})
		defer r.finish()
		_, _ = r.answers()
		r.wrote(r.write(1, 15*time.Second), 0)
		r.at(54 * time.Second)
		if r.State() != Open {
			t.Errorf("%v at 54 s", r.State())
		}
		r.at(76 * time.Second) // 90 s, less 15, less the jitter of up to 20
		if r.State() != AtRiskOfAuthTokenExpiry {
			t.Errorf("%v at 76 s", r.State())
		}
	})
}
