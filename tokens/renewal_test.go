package tokens

import (
	"math"
	"slices"
	"testing"
	"time"
)

// B11 (arithmetic part): lives from the broker's answer, absurd ones included.
func TestPlan(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name   string
		life   time.Duration
		jitter float64
		ok     bool
		want   schedule
	}{
		{"a day", day, 0, true, schedule{day * 4 / 10, day - 30*time.Second, day}},
		{"a day, most jitter", day, 0.5, true, schedule{day * 45 / 100, day - 30*time.Second, day}},
		{"a minute", time.Minute, 0, true, schedule{24 * time.Second, 54 * time.Second, time.Minute}},
		{"three seconds", 3 * time.Second, 0, true, schedule{1200 * time.Millisecond, 2500 * time.Millisecond, 3 * time.Second}},
		{"the least", 2 * time.Second, 0, true, schedule{800 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second}},
		{"too short", 2*time.Second - 1, 0, false, schedule{}},
		{"none", 0, 0, false, schedule{}},
		{"negative", -time.Hour, 0, false, schedule{}},
		{"the least number", math.MinInt64, 0.3, false, schedule{}},
		{"the greatest number", math.MaxInt64, 0, true, schedule{time.Duration(float64(longestLife) * 0.4), longestLife - 30*time.Second, longestLife}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := plan(c.life, c.jitter)
			if ok != c.ok || got != c.want {
				t.Fatalf("plan = %+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
	for life := shortestLife; life < longestLife; life = life*2 + 1 {
		for _, jitter := range []float64{0, 0.5, math.Nextafter(1, 0)} {
			p, ok := plan(life, jitter)
			if !ok || p.replace < life*4/10-1 || p.replace > life/2+1 || p.replace >= p.usable || p.usable >= p.dead {
				t.Fatalf("plan(%v, %v) = %+v, %v", life, jitter, p, ok)
			}
			if now := time.Now(); !now.Add(p.dead).After(now) {
				t.Fatalf("plan(%v): the end overflows", life)
			}
		}
	}
}

func TestLifeOfAbsurdAnswers(t *testing.T) {
	issue := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct {
		name   string
		expiry time.Time
		want   time.Duration
	}{
		{"an hour", issue.Add(time.Hour), time.Hour},
		{"never", time.UnixMilli(math.MaxInt64), math.MaxInt64},
		{"before the issue", issue.Add(-time.Second), -time.Second},
		{"the beginning of time", time.UnixMilli(math.MinInt64), math.MinInt64},
		{"-1", time.UnixMilli(-1), -1_700_000_000_001 * time.Millisecond},
	} {
		if got := lifeOf(issue, c.expiry); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestDelaysStayWithinTheirBounds(t *testing.T) {
	for _, refused := range []bool{false, true} {
		b := newBackoff()
		for n := range 60 {
			d := retryDelay(b, refused)
			least, most := backoffFloor, time.Duration(float64(backoffLast)*(1+backoffSpread))+time.Millisecond
			if refused {
				least, most = refusalLeast+backoffFloor, refusalLeast+most
			}
			if d < least || d > most {
				t.Errorf("refused %v, delay %d = %v, not in [%v, %v]", refused, n, d, least, most)
			}
		}
	}
	for left := time.Duration(0); left < 48*time.Hour; left = left*2 + time.Millisecond {
		for _, j := range []float64{0, math.Nextafter(1, 0)} {
			if d := patientDelay(time.Second, left, j); d < time.Second || d > patientMost || d > left/10 && d != time.Second {
				t.Errorf("patientDelay with %v left = %v", left, d)
			}
		}
	}
	for n := 1; n < 200; n++ {
		for _, j := range []float64{0, math.Nextafter(1, 0)} {
			if d := askDelay(n, j); d < 11*time.Millisecond || d > 625*time.Millisecond {
				t.Errorf("askDelay(%d) = %v", n, d)
			}
			if d := attemptDelay(n+1, j); d < 150*time.Millisecond || d > 4*time.Second {
				t.Errorf("attemptDelay(%d) = %v", n+1, d)
			}
		}
	}
}

// S22, B38 (arithmetic part): the schedule of a token that was made earlier.
func TestPlanAdopted(t *testing.T) {
	issue := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct {
		name      string
		life, age time.Duration
		ok        bool
		wantAge   time.Duration
	}{
		{"new", time.Hour, 0, true, 0},
		{"half of it over", time.Hour, 30 * time.Minute, true, 30 * time.Minute},
		{"a second before its margin", time.Hour, time.Hour - 31*time.Second, true, time.Hour - 31*time.Second},
		{"at its margin", time.Hour, time.Hour - 30*time.Second, false, 0},
		{"over", time.Hour, 2 * time.Hour, false, 0},
		{"issued in the future", time.Hour, -time.Minute, true, 0},
		{"issued in the far future", time.Hour, -50 * 365 * 24 * time.Hour, true, 0},
		{"too short a life", time.Second, 0, false, 0},
		{"no life", 0, 0, false, 0},
		{"a negative one", -time.Hour, 0, false, 0},
		{"no end", math.MaxInt64, time.Hour, true, time.Hour},
		{"no end, long ago", math.MaxInt64, 11 * 365 * 24 * time.Hour, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, age, ok := planAdopted(issue, issue.Add(c.life), issue.Add(c.age), 0.5)
			if ok != c.ok || age != c.wantAge {
				t.Fatalf("%+v, %v, %v", p, age, ok)
			}
			if want, _ := plan(c.life, 0.5); ok && p != want {
				t.Errorf("%+v, a new one has %+v", p, want)
			}
		})
	}
}

// Whatever timestamps a broker answers with, nothing overflows, and what is planned
// lies in order and in the future.
func FuzzSchedules(f *testing.F) {
	for _, v := range []int64{math.MinInt64, -1, 0, 1, 1_700_000_000_000, math.MaxInt64} {
		f.Add(v, int64(1_700_000_086_400_000), int64(1_700_000_000_000), uint16(0))
		f.Add(int64(1_700_000_000_000), v, int64(1_700_000_000_000), uint16(65535))
		f.Add(int64(1_700_000_000_000), int64(1_700_000_086_400_000), v, uint16(500))
	}
	f.Fuzz(func(t *testing.T, issueMs, expiryMs, controllerMs int64, j uint16) {
		issue, expiry, controller := time.UnixMilli(issueMs), time.UnixMilli(expiryMs), time.UnixMilli(controllerMs)
		jitter := float64(j) / 65536
		check := func(p schedule) {
			life := lifeOf(issue, expiry)
			if p.replace <= 0 || p.replace > p.dead/2+1 || p.replace >= p.usable || p.urgent() >= p.usable || p.usable >= p.dead || p.dead > life || p.dead > longestLife {
				t.Errorf("life %v: %+v", life, p)
			}
		}
		if p, ok := plan(lifeOf(issue, expiry), jitter); ok {
			check(p)
		}
		if p, age, ok := planAdopted(issue, expiry, controller, jitter); ok {
			check(p)
			if age < 0 || age >= p.usable {
				t.Errorf("age %v of %+v", age, p)
			}
		}
		var c controllerClock
		now := time.Now()
		c.learn(reading{issue: issue, asked: now, answered: now})
		step := c.learn(reading{issue: controller, asked: now.Add(time.Second), answered: now.Add(2 * time.Second)})
		if shown := controller.Sub(issue); (shown > 4*time.Second) != (step > 0) && (shown < -2*time.Second) != (step < 0) {
			t.Errorf("from %v to %v: step %v", issue, controller, step)
		}
	})
}

func TestDelaysAfterTokensThatVanish(t *testing.T) {
	for _, most := range []time.Duration{vanishMost, deadMost} {
		last := time.Duration(0)
		for n := range 100 {
			for _, j := range []float64{0, math.Nextafter(1, 0)} {
				d := vanishDelay(n, most, j)
				if (d == 0) != (n <= 1) || d > most*5/4 || j == 0 && d < last {
					t.Errorf("vanishDelay(%d) = %v", n, d)
				}
				if j == 0 {
					last = d
				}
			}
		}
		if last != most {
			t.Errorf("they end at %v, want %v", last, most)
		}
	}
}

func TestLooksAfterALostAnswer(t *testing.T) {
	lost := time.Now()
	if _, due := nextSweep(time.Time{}, lost); due {
		t.Error("a look is due although nothing was lost")
	}
	var got []time.Duration
	for at, due := nextSweep(lost, lost); due; at, due = nextSweep(lost, at) {
		got = append(got, at.Sub(lost))
	}
	if !slices.Equal(got, []time.Duration{sweepFirst, sweepSecond, sweepLast}) {
		t.Errorf("looks after %v", got)
	}
	w := sweeps{wake: make(chan struct{}, 1)}
	for i := range 100 { // losses that go on do not put it off
		w.lost(lost.Add(time.Duration(i) * time.Second))
	}
	if w.at != lost.Add(sweepFirst) {
		t.Errorf("the first look is put off to %v", w.at.Sub(lost))
	}
	w.looked(lost.Add(99*time.Second), false)
	if w.at != lost.Add(99*time.Second+sweepFirst) {
		t.Errorf("a look that failed is repeated after %v", w.at.Sub(lost.Add(99*time.Second)))
	}
}

func TestBoundOfTheStop(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 5 * time.Second, 103: 9120 * time.Millisecond, 375: 20 * time.Second, 10_000: 20 * time.Second} {
		if got := stopBound(n, DefaultStopWithin); got != want {
			t.Errorf("%d tokens: %v, want %v", n, got, want)
		}
	}
	if got := stopBound(100, time.Second); got != time.Second {
		t.Errorf("%v, although it is given a second", got)
	}
}

// What the task does next, without a clock.
func TestDecide(t *testing.T) {
	now := time.Now()
	p, _ := plan(time.Hour, 0) // due after 24 min, usable for 59.5 min
	aged := func(age time.Duration) *Token {
		return &Token{ID: "t", Asked: now.Add(-age), plan: p}
	}
	used := aged(40 * time.Minute)
	defer used.Use()()
	for _, c := range []struct {
		name string
		v    view
		want action
		wait time.Duration
	}{
		{"a new owner with a waiter", view{state: Absent, leases: 1}, actCreate, 0},
		{"a new owner without one", view{state: Absent, idleSince: now}, actWait, failedKeep},
		{"failed, back-off over", view{state: Failed, leases: 1, retryAt: now}, actCreate, 0},
		{"failed, back-off runs", view{state: Failed, leases: 1, retryAt: now.Add(3 * time.Second)}, actWait, 3 * time.Second},
		{"failed, nobody asks", view{state: Failed, idleSince: now.Add(-time.Hour), retryAt: now.Add(time.Second)}, actWait, time.Second + failedKeep},
		{"failed, nobody asked for long", view{state: Failed, idleSince: now.Add(-time.Hour), retryAt: now.Add(-failedKeep)}, actForget, 0},
		{"live and young", view{state: Live, leases: 1, token: aged(0)}, actWait, 24 * time.Minute},
		{"due", view{state: Live, leases: 1, token: aged(24 * time.Minute)}, actReplace, 0},
		{"due, but the last replacement failed", view{state: Live, leases: 1, token: aged(30 * time.Minute), retryAt: now.Add(time.Second)}, actWait, time.Second},
		{"due, but nobody needs it", view{state: Live, token: aged(30 * time.Minute), idleSince: now}, actWait, 29*time.Minute + 30*time.Second},
		{"due, and somebody came and went", view{state: Live, wanted: true, token: aged(30 * time.Minute), idleSince: now}, actReplace, 0},
		{"at its end", view{state: Live, leases: 1, token: aged(59*time.Minute + 30*time.Second)}, actLose, 0},
		{"suspect", view{state: Live, leases: 1, token: aged(59 * time.Minute), suspect: true}, actCheck, 0},
		{"dead at a login", view{state: Live, leases: 1, token: aged(0), doomed: true}, actLose, 0},
		{"dead at logins again", view{state: Live, leases: 1, token: aged(0), replaceBy: now.Add(5 * time.Second)}, actWait, 5 * time.Second},
		{"dead at logins, due", view{state: Live, leases: 1, token: aged(0), replaceBy: now}, actReplace, 0},
		{"replace later than planned", view{state: Live, leases: 1, token: aged(0), replaceBy: now.Add(time.Hour)}, actWait, 24 * time.Minute},
		{"due, but the one before is not gone", view{state: Live, leases: 1, token: aged(25 * time.Minute), retired: []*retired{{used, now}}}, actWait, 20 * time.Minute},
		{"urgent, though the one before is not gone", view{state: Live, leases: 1, token: aged(48 * time.Minute), retired: []*retired{{used, now}}}, actReplace, 0},
		{"something came up", view{state: Live, leases: 1, token: aged(0), found: 1}, actSettle, 0},
		{"something came up for nobody", view{state: Absent, found: 1}, actSettle, 0},
		{"an order", view{state: Failed, orders: 1, found: 1, retryAt: now.Add(time.Hour)}, actObey, 0},
		{"failed before Kafka was asked", view{state: Failed, idleSince: now.Add(-time.Minute), retryAt: now, crowded: true}, actForget, 0},
		{"idle, but its back-off runs", view{state: Live, token: aged(time.Minute), idleSince: now.Add(-time.Hour), retryAt: now.Add(time.Second)}, actWait, time.Second},
		{"idle", view{state: Live, token: aged(time.Minute), idleSince: now.Add(-time.Hour)}, actForget, 0},
		{"idle soon", view{state: Live, token: aged(time.Minute), idleSince: now.Add(-59 * time.Minute)}, actWait, time.Minute},
		{"a replaced token in its grace", view{state: Live, leases: 1, token: aged(0), retired: []*retired{{aged(30 * time.Minute), now.Add(time.Second)}}}, actWait, time.Second},
		{"a replaced token", view{state: Live, leases: 1, token: aged(0), retired: []*retired{{aged(30 * time.Minute), now}}}, actRetire, 0},
		{"a replaced token in use", view{state: Live, leases: 1, token: aged(0), retired: []*retired{{used, now}}}, actWait, 20 * time.Minute},
		{"a replaced token that is dead", view{state: Live, leases: 1, token: aged(0), retired: []*retired{{aged(time.Hour), now.Add(time.Hour)}}}, actRetire, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.v.now, c.v.idle = now, time.Hour
			if act, wait := decide(c.v); act != c.want || wait != c.wait {
				t.Errorf("decide = %d, %v; want %d, %v", act, wait, c.want, c.wait)
			}
		})
	}
}
