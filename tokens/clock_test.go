package tokens

import (
	"testing"
	"time"
)

// B38: the controller's clock is known from an own creation, and its steps show.
func TestControllersClock(t *testing.T) {
	var c controllerClock
	own := time.Now()
	if _, _, known := c.now(own); known {
		t.Error("known before the first reading")
	}
	issue := time.UnixMilli(5_000)
	at := func(shown, asked, took time.Duration) time.Duration {
		return c.learn(reading{issue: issue.Add(shown), asked: own.Add(asked), answered: own.Add(asked + took)})
	}
	if step := at(0, 0, 300*time.Millisecond); step != 0 {
		t.Errorf("the first reading is a step of %v", step)
	}
	if now, width, known := c.now(own.Add(time.Minute)); !known || width != 300*time.Millisecond || !now.Equal(issue.Add(time.Minute)) {
		t.Errorf("a minute later it shows %v, %v", now, known)
	}
	for _, s := range []struct {
		name               string
		shown, asked, took time.Duration
		step               time.Duration
	}{
		{"as expected", time.Minute, time.Minute, 100 * time.Millisecond, 0},
		{"drifting", 2*time.Minute + 900*time.Millisecond, 2 * time.Minute, 100 * time.Millisecond, 0},
		{"ahead by ten minutes", 13 * time.Minute, 3 * time.Minute, 0, 10*time.Minute - 900*time.Millisecond},
		{"back again", 4 * time.Minute, 4 * time.Minute, 0, -10 * time.Minute},
		{"a slow answer", 5*time.Minute + 20*time.Second, 5 * time.Minute, 30 * time.Second, 0},
	} {
		step := at(s.shown, s.asked, s.took)
		if (step == 0) != (s.step == 0) || (step > 0) != (s.step > 0) || (step-s.step).Abs() > time.Second {
			t.Errorf("%s: step %v, about %v was meant", s.name, step, s.step)
		}
	}
}

func TestClockSurvivesAbsurdTimes(_ *testing.T) {
	var c controllerClock
	now := time.Now()
	for _, ms := range []int64{-1 << 63, -1, 0, 1, 1<<63 - 1} {
		for _, own := range []time.Time{now, now.Add(1<<63 - 1), now.Add(-1 << 63)} {
			c.learn(reading{issue: time.UnixMilli(ms), asked: own, answered: own})
			_, _, _ = c.now(now)
		}
	}
}
