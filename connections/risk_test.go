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

func TestRiskTimes(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	cases := []struct {
		name        string
		lifetime    time.Duration
		jitter      float64
		begin, stop time.Duration
	}{
		{"a minute, earliest", m, 0, 48 * s, 54 * s},
		{"a minute, latest", m, 1, 51 * s, 54 * s},
		{"a minute, between", m, 0.5, 49500 * time.Millisecond, 54 * s},
		{"ten seconds: the least margin", 10 * s, 0, 8 * s, 9 * s},
		{"two seconds", 2 * s, 0, 800 * time.Millisecond, s},
		{"just usable", s + time.Millisecond, 0, 0, time.Millisecond},
		{"an hour: the largest margin", h, 0, h - 30*s - 6*m, h - 30*s},
		{"a day: the earliest that there is", 24 * h, 0, 24*h - 30*s - 10*m, 24*h - 30*s},
		{"a day, latest", 24 * h, 1, 24*h - 30*s - 5*m, 24*h - 30*s},
		{"a year", maxLifetime, 0, maxLifetime - 30*s - 10*m, maxLifetime - 30*s},
		{"jitter out of range below", m, -7, 48 * s, 54 * s},
		{"jitter out of range above", m, 7, 51 * s, 54 * s},
		{"jitter is no number", m, math.Inf(-1), 48 * s, 54 * s},
	}
	for _, tc := range cases {
		begin, stop := riskTimes(tc.lifetime, tc.jitter)
		if begin != tc.begin || stop != tc.stop {
			t.Errorf("%s: %v, %v; want %v, %v", tc.name, begin, stop, tc.begin, tc.stop)
		}
	}
	// Whatever the lifetime: 0 ≤ begin < stop < lifetime, with the margin between.
	for lifetime := minMargin + time.Millisecond; lifetime <= maxLifetime; lifetime += lifetime/7 + 1 {
		for _, jitter := range []float64{0, 0.3, 0.999999} {
			begin, stop := riskTimes(lifetime, jitter)
			if begin < 0 || begin >= stop || stop > lifetime-minMargin {
				t.Fatalf("%v, %v: %v, %v", lifetime, jitter, begin, stop)
			}
		}
	}
}
