package connections

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Rule 13, in a table: what may be written behind what. All times count from one
// moment; stop is at 60 s.
func TestWhatMayBeWrittenBehindWhat(t *testing.T) {
	const s = time.Second
	zero := time.Unix(1_000_000, 0)
	stop := zero.Add(60 * s)
	type step struct {
		at     time.Duration
		begin  *Request
		answer bool
	}
	write := func(at, wait time.Duration) step { return step{at: at, begin: &Request{Wait: wait, Answered: true}} }
	silent := func(at time.Duration) step { return step{at: at, begin: &Request{}} }
	answer := func(at time.Duration) step { return step{at: at, answer: true} }
	cases := []struct {
		name  string
		steps []step
		at    time.Duration
		want  bool
	}{
		{"nothing before it", nil, 59 * s, true},
		{"nothing before it, at stop", nil, 60 * s, false},
		{"nothing before it, after stop", nil, 61 * s, false},
		{"behind a request without a wait", []step{write(0, 0)}, 59 * s, true},
		{"behind a fetch that ends before", []step{write(50*s, 5*s)}, 50 * s, true},
		{"behind a fetch that ends at stop", []step{write(50*s, 10*s)}, 50 * s, false},
		{"behind a fetch that crosses", []step{write(58*s, 5*s)}, 58 * s, false},
		{"behind two fetches that cross together", []step{write(50*s, 5*s), write(50*s, 5*s)}, 50 * s, false},
		{"behind the second of them once the first is answered", []step{write(50*s, 5*s), write(50*s, 5*s), answer(51 * s)}, 51 * s, true},
		{"the second fetch's wait begins when the first is answered", []step{write(50*s, 5*s), write(50*s, 5*s), answer(55 * s)}, 55 * s, false},
		{"behind a join", []step{write(0, Unbounded)}, s, false},
		{"behind a join, even behind a request", []step{write(0, Unbounded), write(0, 0)}, s, false},
		{"behind a join that is answered", []step{write(0, Unbounded), answer(s)}, s, true},
		{"behind a request behind an answered join", []step{write(0, Unbounded), write(0, 0), answer(s)}, s, true},
		{"behind a wait of a month", []step{write(0, 30*24*time.Hour)}, s, false},
		{"behind a negative wait that is not Unbounded", []step{write(0, -7*s)}, s, false},
		{"behind a fetch that was written long after acks=0 produces", []step{silent(0), write(50*s, 15*s)}, 51 * s, false},
		{"behind acks=0 produces", []step{silent(0), silent(0)}, 59 * s, true},
		{"behind a broker that is late with a fetch", []step{write(0, s)}, 30 * s, true},
	}
	for _, tc := range cases {
		var a admission
		for _, st := range tc.steps {
			if st.answer {
				a.answered(zero.Add(st.at))
			} else {
				a.begin(*st.begin, zero.Add(st.at))
			}
		}
		if got := a.before(stop, zero.Add(tc.at)); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// model is admission done naively.
type model struct {
	open []written
	last time.Time // when an answer came
}

type written struct {
	Request
	at time.Time
}

func (m *model) begin(r Request, now time.Time) {
	m.open = append(m.open, written{r, now})
}

func (m *model) answered(now time.Time) {
	for i, r := range m.open {
		if r.Answered {
			m.open, m.last = m.open[i+1:], now
			return
		}
	}
}

func (m *model) due() (n int) {
	for _, r := range m.open {
		if r.Answered {
			n++
		}
	}
	return n
}

func (m *model) before(stop, now time.Time) bool {
	free := m.last
	for _, r := range m.open {
		if r.unbounded() {
			return false
		}
		if free.Before(r.at) {
			free = r.at
		}
		free = free.Add(r.Wait)
	}
	return now.Before(stop) && (len(m.open) == 0 || free.Before(stop))
}

// FuzzAdmission runs any course of events on both.
func FuzzAdmission(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, course []byte) {
		var (
			a     admission
			m     model
			now   = time.Unix(1_000_000, 0)
			stop  = now.Add(100 * time.Second)
			whole = true // the newest request is complete
		)
		for _, b := range course {
			now = now.Add(time.Duration(b>>4) * 100 * time.Millisecond)
			switch op := b & 15; {
			case op < 9:
				waits := []time.Duration{0, 0, 0, time.Second, 5 * time.Second, Unbounded, math.MaxInt64, time.Millisecond, longWait}
				r := Request{Wait: waits[op], Answered: b>>4 != 3}
				a.begin(r, now)
				m.begin(r, now)
				whole = false
			case op < 14:
				if m.due() > 0 {
					a.answered(now)
					m.answered(now)
					if len(m.open) == 0 {
						whole = true
					}
				}
			case op == 14:
				whole = true
			default:
				if !whole && len(m.open) > 0 {
					a.abandon()
					m.open = m.open[:len(m.open)-1]
					whole = true
				}
			}
			if a.requests != len(m.open) || a.due != m.due() {
				t.Fatalf("%d requests, %d due; want %d, %d", a.requests, a.due, len(m.open), m.due())
			}
			if got, want := a.before(stop, now), m.before(stop, now); got != want {
				t.Fatalf("before: %v, want %v", got, want)
			}
		}
	})
}

// Sums of the longest waits do not overflow, however many there are.
func TestManyLongWaitsDoNotOverflow(t *testing.T) {
	var a admission
	now := time.Now()
	for a.room() {
		a.begin(Request{Wait: longWait, Answered: true}, now)
	}
	if a.wait < 0 || a.before(now.Add(time.Hour), now) {
		t.Errorf("%d requests wait %v", a.requests, a.wait)
	}
	for a.due > 0 {
		a.answered(now)
	}
	if a.wait != 0 || a.requests != 0 || !a.before(now.Add(time.Hour), now) {
		t.Errorf("%d requests wait %v", a.requests, a.wait)
	}
}
