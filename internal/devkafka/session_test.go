package devkafka

import (
	"testing"
	"time"
)

func TestLifetime(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct{ left, most, want time.Duration }{
		{time.Hour, 0, time.Hour},
		{time.Hour, time.Minute, time.Minute},
		{time.Second, time.Minute, time.Second},
		{0, 0, 0},
		{-time.Hour, 0, 0},
		{-time.Hour, time.Minute, 0}, // expired, not swept: not the cluster's bound
		{1500 * time.Microsecond, 0, time.Millisecond},
	} {
		if got := lifetime(now, now.Add(c.left), c.most); got != c.want {
			t.Errorf("%v left, %v at most: %v, not %v", c.left, c.most, got, c.want)
		}
	}
}

func TestSessionEndAndReauthentication(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var s session
	if s.over(now.Add(1000*time.Hour)) || s.mayReauthenticate(now) {
		t.Error("a session without an end ends, or can be taken over")
	}
	s.begin(now, time.Second)
	if s.over(now.Add(time.Second)) {
		t.Error("over at its end, not after")
	}
	if !s.over(now.Add(time.Second + 1)) {
		t.Error("not over after its end")
	}
	if !s.mayReauthenticate(now) || !s.mayReauthenticate(now.Add(time.Hour)) {
		t.Error("the first re-authentication has to wait, or comes too late")
	}
	s.again = now
	for after, want := range map[time.Duration]bool{0: false, time.Second - 1: false, time.Second: true, time.Hour: true} {
		if got := s.mayReauthenticate(now.Add(after)); got != want {
			t.Errorf("%v after the last: %t", after, got)
		}
	}
	s.begin(now, 0)
	if s.over(now) || !s.over(now.Add(1)) {
		t.Error("a session of no time")
	}
}
