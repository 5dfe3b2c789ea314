package connections

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestSessionLifetime(t *testing.T) {
	cases := []struct {
		name   string
		kind   Kind
		millis int64
		want   time.Duration
		fault  Fault // 0: none
	}{
		{"none on a General connection", General, 0, 0, 0},
		{"none after a token login is death", ScramOverMtls, 0, 0, CredentialExpired},
		{"a General login that ends", General, 60_000, time.Minute, 0},
		{"a minute", ScramOverMtls, 60_000, time.Minute, 0},
		{"a day", ScramOverMtls, 86_400_000, 24 * time.Hour, 0},
		{"one millisecond", ScramOverMtls, 1, 0, CredentialExpired},
		{"as short as the margin", ScramOverMtls, 1000, 0, CredentialExpired},
		{"just usable", ScramOverMtls, 1001, 1001 * time.Millisecond, 0},
		{"negative", ScramOverMtls, -1, 0, Hostile},
		{"negative on General", General, -1, 0, Hostile},
		{"most negative", ScramOverMtls, math.MinInt64, 0, Hostile},
		{"the bound", ScramOverMtls, maxLifetime.Milliseconds(), maxLifetime, 0},
		{"above the bound", ScramOverMtls, maxLifetime.Milliseconds() + 1, maxLifetime, 0},
		{"overflows a duration", ScramOverMtls, math.MaxInt64/1_000_000 + 1, maxLifetime, 0},
		{"largest", ScramOverMtls, math.MaxInt64, maxLifetime, 0},
	}
	for _, tc := range cases {
		got, err := sessionLifetime(tc.kind, tc.millis)
		var r *refusal
		if errors.As(err, &r); got != tc.want || (err == nil) != (tc.fault == 0) || r != nil && r.fault != tc.fault {
			t.Errorf("%s: %v, %v; want %v, %v", tc.name, got, err, tc.want, tc.fault)
		}
	}
}

func TestMomentsOfASession(t *testing.T) {
	const ms, s, m, h = time.Millisecond, time.Second, time.Minute, time.Hour
	ends := func(lifetime time.Duration, jitter float64) moments {
		return moments{lifetime: lifetime, jitter: jitter}
	}
	renews := func(lifetime, login, wait time.Duration, jitter float64) moments {
		return moments{lifetime, true, login, wait, jitter}
	}
	cases := []struct {
		name string
		moments
		begin, stop time.Duration
	}{
		{"a minute, earliest", ends(m, 0), 48 * s, 54 * s},
		{"a minute, latest", ends(m, 1), 51 * s, 54 * s},
		{"a minute, between", ends(m, 0.5), 49500 * ms, 54 * s},
		{"ten seconds: the least margin", ends(10*s, 0), 8 * s, 9 * s},
		{"two seconds", ends(2*s, 0), 800 * ms, s},
		{"just usable", ends(s+ms, 0), 0, ms},
		{"an hour: the largest margin", ends(h, 0), h - 30*s - 6*m, h - 30*s},
		{"a day: the earliest that there is", ends(24*h, 0), 24*h - 30*s - 10*m, 24*h - 30*s},
		{"a day, latest", ends(24*h, 1), 24*h - 30*s - 5*m, 24*h - 30*s},
		{"a year", ends(maxLifetime, 0), maxLifetime - 30*s - 10*m, maxLifetime - 30*s},
		{"jitter out of range below", ends(m, -7), 48 * s, 54 * s},
		{"jitter out of range above", ends(m, 7), 51 * s, 54 * s},
		{"jitter is no number", ends(m, math.Inf(-1)), 48 * s, 54 * s},

		{"renewed, earliest", renews(m, 0, 0, 0), 42 * s, 54 * s},
		{"renewed, latest: at stop, if nothing takes time", renews(m, 0, 0, 1), 54 * s, 54 * s},
		{"behind a fetch of half a second, with logins of 100 ms", renews(m, 100*ms, 500*ms, 1), 53300 * ms, 54 * s},
		{"behind a fetch that is longer than the session", renews(m, 100*ms, 5*m, 1), 42 * s, 54 * s},
		{"the same, earliest", renews(m, 100*ms, 5*m, 0), 30 * s, 54 * s},
		{"a wait and a login that make no sense", renews(m, -s, -s, 1), 54 * s, 54 * s},
		{"twenty seconds", renews(20*s, 10*ms, 500*ms, 0), 13480 * ms, 18 * s},
		{"two seconds, renewed", renews(2*s, 10*ms, 500*ms, 0), 200 * ms, s},
		{"just usable, renewed", renews(s+ms, 10*ms, 500*ms, 0), 0, ms},
		{"a day, renewed: the earliest", renews(24*h, 0, 30*s, 0), 24*h - m - 10*m, 24*h - 30*s},
	}
	for _, tc := range cases {
		begin, stop := tc.times()
		if begin != tc.begin || stop != tc.stop {
			t.Errorf("%s: %v, %v; want %v, %v", tc.name, begin, stop, tc.begin, tc.stop)
		}
	}
	// Whatever the lifetime: 0 ≤ begin ≤ stop < lifetime, with the margin between.
	for lifetime := minMargin + time.Millisecond; lifetime <= maxLifetime; lifetime += lifetime/7 + 1 {
		for _, jitter := range []float64{0, 0.3, 0.999999} {
			for _, m := range []moments{ends(lifetime, jitter), renews(lifetime, 0, 0, jitter), renews(lifetime, s, longWait, jitter)} {
				begin, stop := m.times()
				if begin < 0 || begin > stop || stop > lifetime-minMargin {
					t.Fatalf("%+v: %v, %v", m, begin, stop)
				}
			}
		}
	}
}

// Ten thousand legs of one age are not renewed within one second, neither for their
// session end nor for a newer credential: never more of them in one than their even
// share and a tenth, on tokens of 20 s a quarter of them.
func TestLegsOfOneAgeAreNotRenewedTogether(t *testing.T) {
	const legs = 10_000
	for lifetime, most := range map[time.Duration]int{20 * time.Second: legs * 11 / 40, time.Minute: legs * 11 / 120, time.Hour: legs / 500} {
		ends, newer := map[time.Duration]int{}, map[time.Duration]int{}
		for i := range legs {
			jitter := float64(i) / legs
			begin, _ := moments{lifetime, true, 10 * time.Millisecond, 500 * time.Millisecond, jitter}.times()
			ends[begin.Truncate(time.Second)]++
			newer[newerDelay(lifetime, jitter).Truncate(time.Second)]++
		}
		for what, of := range map[string]map[time.Duration]int{"session end": ends, "newer credential": newer} {
			for second, n := range of {
				if n > most {
					t.Errorf("%v, %s: %d legs in the second after %v, %d at most are wanted", lifetime, what, n, second, most)
				}
			}
		}
	}
	for _, tc := range []struct {
		lifetime time.Duration
		jitter   float64
		want     time.Duration
	}{
		{time.Minute, 0, time.Second}, {time.Minute, 1, 13 * time.Second}, {time.Minute, 9, 13 * time.Second},
		{24 * time.Hour, 1, 10*time.Minute + time.Second}, {0, 1, time.Second}, {-time.Minute, 0.5, time.Second},
	} {
		if got := newerDelay(tc.lifetime, tc.jitter); got != tc.want {
			t.Errorf("newerDelay(%v, %v) = %v, want %v", tc.lifetime, tc.jitter, got, tc.want)
		}
	}
}
