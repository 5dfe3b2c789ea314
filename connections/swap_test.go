package connections

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newSwapRig is newRig with swaps alone.
func newSwapRig(t *testing.T, change func(*kafka)) *rig {
	return newRig(t, func(k *kafka) {
		k.policy = RenewSwap
		if change != nil {
			change(k)
		}
	})
}

// onLegs expects the keys that were read, each with the number of its leg.
func (r *rig) onLegs(want ...string) {
	r.t.Helper()
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	var got []string
	for _, read := range r.k.reads {
		got = append(got, fmt.Sprintf("%d:%d", read.leg, read.key))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("the broker read %v, want %v", got, want)
	}
}

// swapped expects so many swaps that worked, and nothing else.
func (r *rig) swapped(times int) {
	r.t.Helper()
	time.Sleep(2 * signOfLife)
	synctest.Wait()
	for _, renewal := range r.s.renewals() {
		if renewal.Kind != Swap || renewal.Err != nil {
			r.t.Errorf("%+v", renewal)
		}
	}
	r.renewedTimes(times)
}

func (r *rig) renewedTimes(times int) {
	r.t.Helper()
	time.Sleep(2 * signOfLife)
	synctest.Wait()
	if n := r.observer.renewals("ok"); n != times {
		r.t.Errorf("%d renewals, want %d: %+v", n, times, r.s.renewals())
	}
}

// A swap begins with the request that meets the risk. In time, that one still goes out on
// the old leg; after stop it waits for the new one.
func TestASwapBeginsWithTheNextRequest(t *testing.T) {
	for at, first := range map[time.Duration]string{89 * time.Second: "0:3", 92 * time.Second: "1:3", 10 * time.Hour: "1:3"} {
		t.Run(at.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newSwapRig(t, nil)
				defer r.finish()
				came, _ := r.answers()
				r.at(at)
				risk := r.State() == AtRiskOfAuthTokenExpiry
				r.wrote(r.write(3, 0), at)
				<-came
				synctest.Wait()
				if !risk { // the jitter put it behind 89 s
					return
				}
				r.swapped(1)
				if r.State() != Open || r.observer.atRisk.Load() != 1 {
					t.Errorf("%v", r.State())
				}
				if end, _ := r.SessionEnd(); end.Sub(r.start).Round(time.Second) != at+flowLifetime {
					t.Errorf("session end after %v", end.Sub(r.start))
				}
				r.wrote(r.write(3, 0), at)
				<-came
				r.onLegs(first, "1:3")
			})
		})
	}
}

// Rule 15: the old leg drains, whatever is in flight: long polls, parked produces, joins,
// and acks=0 produces behind an ApiVersions. Then the new one is used, and it alone.
func TestTheOldLegDrains(t *testing.T) {
	const fetch, join, parked = 1, 11, 19
	waits := map[int16]time.Duration{fetch: 30 * time.Second, join: 90 * time.Second, parked: 40 * time.Second}
	for _, tc := range []struct {
		name   string
		flight []int16       // written at 65 s
		behind time.Duration // when the last of them is answered
		legs   []string
	}{
		{"a fetch that crosses the stop", []int16{fetch}, 95 * time.Second, []string{"0:1", "1:3"}},
		{"a parked produce", []int16{parked}, 105 * time.Second, []string{"0:19", "1:3"}},
		{"a join", []int16{join}, 155 * time.Second, []string{"0:11", "1:3"}},
		{"a fetch and what it has in front", []int16{3, fetch}, 95 * time.Second, []string{"0:3", "0:1", "1:3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newSwapRig(t, func(k *kafka) {
					k.wait = func(q request) time.Duration { return waits[q.key] }
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
				r.at(91 * time.Second)
				next := r.writing(3, 0)
				synctest.Wait()
				if r.State() != Draining || isDone(next) {
					t.Errorf("%v, written: %v", r.State(), isDone(next))
				}
				r.wrote(<-next, tc.behind)
				for _, key := range append(tc.flight, 3) {
					if id := <-came; id != int32(key) {
						t.Errorf("answer %d, want %d", id, key)
					}
				}
				r.onLegs(tc.legs...)
				r.renewedTimes(1)
			})
		})
	}
}

// acks=0 produces have no answer: an own ApiVersions says that the broker has read them,
// and is seen by nobody. The last one may still be half written when the leg is there.
func TestASwapFencesSilentProduces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newSwapRig(t, nil)
		defer r.finish()
		came, _ := r.answers()
		r.s.publish("token-2", 1000*time.Hour)
		r.wrote(r.write(3, 0), 0) // sees it; renewed within 21 s
		<-came
		r.at(25 * time.Second)
		if err := r.Begin(Request{}); err != nil {
			t.Fatal(err)
		}
		frame := rawRequest(0, 0, 10)
		if _, err := r.Write(frame[:5]); err != nil {
			t.Fatal(err)
		}
		r.at(26 * time.Second)
		if r.State() != Draining {
			t.Errorf("%v", r.State())
		}
		r.onLegs("0:3")
		if _, err := r.Write(frame[5:]); err != nil {
			t.Fatal(err)
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.onLegs("0:3", "0:0", "0:18")
		r.wrote(r.write(3, 0), 26*time.Second)
		if id := <-came; id != 3 {
			t.Errorf("answer %d", id)
		}
		r.onLegs("0:3", "0:0", "0:18", "1:3")
		r.swapped(1)
		if u := r.k.lastUser(); u != "token-2" {
			t.Errorf("logged in with %s", u)
		}
	})
}

// A new leg that comes after the moment from which nothing may follow: acks=0 produces got
// their fence at that moment, and only a frame that was half written then has none.
func TestSilentProducesAreFencedAtTheStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newSwapRig(t, func(k *kafka) {
			k.dial = func(n int, _ *script) error {
				if n > 0 {
					time.Sleep(4 * time.Second)
				}
				return nil
			}
		})
		defer r.finish()
		came, _ := r.answers()
		r.at(89500 * time.Millisecond)
		if r.State() != AtRiskOfAuthTokenExpiry {
			return // the jitter put it behind
		}
		r.wrote(r.write(0, 0), 89500*time.Millisecond)
		r.at(flowStop - time.Millisecond)
		r.onLegs("0:0")
		r.at(91 * time.Second)
		r.onLegs("0:0", "0:18")
		r.wrote(r.write(3, 0), 93500*time.Millisecond)
		if id := <-came; id != 3 {
			t.Errorf("answer %d", id)
		}
		r.onLegs("0:0", "0:18", "1:3")
		r.swapped(1)
	})
}

// A broker that cannot be reached: the old leg serves until stop, requests wait for a
// while, and the attempts go on with pauses. Without a request that waits, they rest.
func TestAttemptsGoOnUntilTheOldLegIsSpent(t *testing.T) {
	for _, back := range []time.Duration{85 * time.Second, 95 * time.Second, 200 * time.Second} {
		t.Run(back.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var r *rig
				dials := 0
				r = newSwapRig(t, func(k *kafka) {
					k.dial = func(n int, _ *script) error {
						if dials++; n > 0 && time.Since(r.start) < back {
							return errors.New("connection refused")
						}
						return nil
					}
				})
				defer r.finish()
				_, ended := r.answers()
				var last outcome[error]
				for time.Since(r.start) < 94*time.Second && last.value == nil {
					time.Sleep(250 * time.Millisecond)
					if last = r.write(3, 0); last.value == nil && last.at.Sub(r.start) > flowStop && last.at.Sub(r.start) < back {
						t.Errorf("written at %v", last.at.Sub(r.start))
					}
				}
				switch {
				case back > 190*time.Second:
					if got := last.at.Sub(r.start); !errors.Is(last.value, ErrSessionEnding) || got < flowStop+swapPatience || got > flowStop+2*swapPatience {
						t.Errorf("%v after %v", last.value, got)
					}
					<-ended
					if r.observer.closes("session_end") != 1 || r.observer.renewals("error")+r.observer.renewals("unreachable") < 4 {
						t.Errorf("%v %v", r.observer.forced, r.observer.renewed)
					}
				case last.value != nil:
					t.Errorf("%v", last.value)
				default:
					r.renewedTimes(1)
				}
				if dials > 40 {
					t.Errorf("%d dials", dials)
				}
			})
		})
	}
}

// An idle leg whose swap failed rests, and its next request tries again.
func TestAFailedSwapRestsWhileNobodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dials, refuse := 0, true
		r := newSwapRig(t, func(k *kafka) {
			k.dial = func(n int, _ *script) error {
				if dials++; n > 0 && refuse {
					return errors.New("connection refused")
				}
				return nil
			}
		})
		defer r.finish()
		_, _ = r.answers()
		r.at(89900 * time.Millisecond)
		r.wrote(r.write(3, 0), 89900*time.Millisecond)
		r.at(200 * time.Second)
		n := dials
		r.at(2 * time.Hour)
		if s := r.State(); dials != n || s != RefreshTimeout && s != AtRiskOfAuthTokenExpiry {
			t.Errorf("%v, %d dials, then %d", s, n, dials)
		}
		refuse = false
		r.wrote(r.write(3, 0), 2*time.Hour)
		r.renewedTimes(1)
	})
}

// Other API versions than the client was told end the leg, at a quiet moment.
func TestOtherVersionsAreNotHidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newSwapRig(t, func(k *kafka) {
			k.dial = func(n int, s *script) error {
				if n > 0 {
					s.versions = func(v *visit, r request) bool { return v.reply(r, versionsResponse(0, 1, 3, 18, 36)) }
				}
				return nil
			}
		})
		defer r.finish()
		_, ended := r.answers()
		r.at(92 * time.Second)
		if o := r.write(3, 0); !errors.Is(o.value, ErrSessionEnding) {
			t.Errorf("%v", o.value)
		}
		<-ended
		if r.observer.renewals("versions_changed") != 1 || r.observer.closes("session_end") != 1 {
			t.Errorf("%v %v", r.observer.renewed, r.observer.forced)
		}
	})
}

// B17: a leg that carried share APIs is never swapped, but renewed in place; also where
// the first of them comes while the new leg is on its way.
func TestShareSessionsAreNotSwapped(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newSwapRig(t, func(k *kafka) {
					k.dial = func(n int, _ *script) error {
						if n > 0 {
							time.Sleep(2 * time.Second)
						}
						return nil
					}
				})
				defer r.finish()
				_, _ = r.answers()
				share := func() {
					if err := sendFrame(r.KafkaConnection, Request{Answered: true, Ties: true}, 3, 3, 10); err != nil {
						t.Fatal(err)
					}
				}
				r.s.publish("token-2", 1000*time.Hour)
				if !late {
					share()
				}
				r.wrote(r.write(3, 0), 0)
				r.at(25 * time.Second)
				if late {
					r.wrote(r.write(3, 0), 25*time.Second) // begins the swap
					share()
					r.at(40 * time.Second)
				}
				r.wrote(r.write(3, 0), time.Since(r.start))
				synctest.Wait()
				r.renewedTimes(1)
				if all := r.s.renewals(); all[len(all)-1].Kind != Reauthenticate {
					t.Errorf("%+v", all)
				}
				for _, read := range r.k.reads {
					if read.leg != 0 {
						t.Errorf("%+v", read)
					}
				}
			})
		})
	}
}

// Rule 17: auto re-authenticates, and swaps where the broker takes none, or is elsewhere.
func TestAutoSwapsWhereReauthenticationCannotServe(t *testing.T) {
	t.Run("no re-authentication", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, func(k *kafka) {
				k.broken = func(step string, v *visit, q request) (bool, bool) {
					return step == "handshake", step == "handshake" && tooSoon(v, q)
				}
			})
			defer r.finish()
			_, _ = r.answers()
			for time.Since(r.start) < 130*time.Second {
				time.Sleep(300 * time.Millisecond)
				if o := r.write(3, 0); o.value != nil {
					t.Fatal(o.value)
				}
			}
			if r.observer.renewals("too_soon") != tooSoonMost {
				t.Errorf("%v", r.observer.renewed)
			}
			r.renewedTimes(1)
		})
	})
	t.Run("another address", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.finish()
			_, _ = r.answers()
			moved := Target{Node: 7, Host: "broker.test", Port: 9999}
			r.s.where.Store(&moved)
			r.at(92 * time.Second)
			r.wrote(r.write(3, 0), 92*time.Second)
			r.swapped(1)
			if r.Target() != moved {
				t.Errorf("%v", r.Target())
			}
			r.at(200 * time.Second)
			r.wrote(r.write(3, 0), 200*time.Second)
			synctest.Wait()
			r.renewedTimes(2)
			if all := r.s.renewals(); all[1].Kind != Reauthenticate {
				t.Errorf("%+v", all)
			}
		})
	})
}

// A new leg that dies while it waits for the old one is none; another is opened.
func TestANewLegThatDiesWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newSwapRig(t, func(k *kafka) {
			k.wait = func(q request) time.Duration {
				return map[int16]time.Duration{11: 100 * time.Second}[q.key]
			}
		})
		defer r.finish()
		came, _ := r.answers()
		r.at(10 * time.Second)
		r.wrote(r.write(11, Unbounded), 10*time.Second)
		next := r.writing(3, 0)
		r.at(95 * time.Second)
		all := r.allVisits()
		if len(all) != 2 || r.State() != Draining {
			t.Fatalf("%d legs, %v", len(all), r.State())
		}
		_ = all[1].plain.Close()
		if o := <-next; o.value != nil || o.at.Sub(r.start) < 110*time.Second {
			t.Errorf("%v after %v", o.value, o.at.Sub(r.start))
		}
		<-came
		<-came
		r.onLegs("0:11", "2:3")
		r.renewedTimes(1)
	})
}

// Whoever ends the connection in the midst of a swap gets it ended: nothing lives on, no
// credential is in use, and what is due is answered after Finish.
func TestAnEndInTheMidstOfASwap(t *testing.T) {
	for _, how := range []string{"finish", "close", "abort"} {
		for _, when := range []string{"opening", "pausing", "draining"} {
			t.Run(how+" while "+when, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newSwapRig(t, func(k *kafka) {
						k.wait = func(q request) time.Duration {
							return map[int16]time.Duration{1: 20 * time.Second}[q.key]
						}
						k.dial = func(n int, s *script) error {
							switch {
							case n == 0:
							case when == "opening":
								s.first = hang
							case when == "pausing":
								return errors.New("connection refused")
							}
							return nil
						}
					})
					defer r.finish()
					came, ended := r.answers()
					r.s.publish("token-2", 1000*time.Hour)
					r.wrote(r.write(3, 0), 0)
					<-came
					r.at(25 * time.Second)
					r.wrote(r.write(1, 20*time.Second), 25*time.Second)
					synctest.Wait()
					want := map[string]State{"opening": Refreshing, "pausing": AtRiskOfAuthTokenExpiry, "draining": Draining}[when]
					if r.State() != want || !r.swapping() {
						t.Errorf("%v, swapping: %v", r.State(), r.swapping())
					}
					switch how {
					case "finish":
						if err := r.Finish(); err != nil {
							t.Error(err)
						}
						if id := <-came; id != 1 {
							t.Errorf("answer %d", id)
						}
					case "close":
						_ = r.Close()
					default:
						r.Abort()
					}
					<-ended
					synctest.Wait()
					if r.swapping() {
						t.Error("the swap lives on")
					}
				})
			})
		}
	}
}

func (r *rig) swapping() bool {
	r.KafkaConnection.mu.Lock()
	defer r.KafkaConnection.mu.Unlock()
	return r.renewal.swapping
}

// A leg that cannot be fenced says so, and blames no broker: its address is not looked
// into for that. A frame stays half written until nothing may follow it.
func TestALegThatCannotBeFencedSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newSwapRig(t, nil)
		defer r.finish()
		_, _ = r.answers()
		r.s.publish("token-2", 1000*time.Hour)
		r.wrote(r.write(3, 0), 0)
		r.at(25 * time.Second)
		if err := r.Begin(Request{}); err != nil {
			t.Fatal(err)
		}
		frame := rawRequest(0, 0, 10)
		if _, err := r.Write(frame[:5]); err != nil {
			t.Fatal(err)
		}
		r.at(flowLifetime - time.Second)
		if _, err := r.Write(frame[5:]); err != nil {
			t.Fatal(err)
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r.observer.renewals("unfenced") != 1 || r.observer.closes("session_end") != 1 {
			t.Errorf("%v %v", r.observer.renewed, r.observer.forced)
		}
		r.onLegs("0:3", "0:0")
	})
}

func TestVersionsAreComparedInAnyOrder(t *testing.T) {
	have := versionsResponse(0, 1, 3, 18)
	lower := versionsResponse(0, 1, 3, 18)
	lower.ApiKeys[2].MaxVersion--
	higher := versionsResponse(0, 1, 3, 18)
	higher.ApiKeys[0].MinVersion++
	for _, tc := range []struct {
		name  string
		other []int16
		same  bool
	}{
		{"the same", []int16{0, 1, 3, 18}, true},
		{"in another order", []int16{18, 3, 0, 1}, true},
		{"one less", []int16{0, 1, 18}, false},
		{"one more", []int16{0, 1, 3, 18, 36}, false},
		{"one for another", []int16{0, 1, 3, 36}, false},
		{"one twice, and one not at all", []int16{0, 1, 3, 3}, false},
	} {
		if got := sameVersions(have, versionsResponse(tc.other...)); got != tc.same {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	if sameVersions(have, lower) || sameVersions(have, higher) {
		t.Error("other ranges are taken for the same")
	}
}
