package connections

import (
	"strings"
	"testing"
)

// Every state meets every event: what is not in the table is an error that names both
// and moves nothing.
func TestStateTransitions(t *testing.T) {
	type pair struct {
		from State
		on   event
	}
	legal := map[pair]State{
		{Unopened, dialBegun}:                   Connecting,
		{Connecting, loggedIn}:                  Open,
		{Open, riskBegun}:                       AtRiskOfAuthTokenExpiry,
		{Open, reauthBegun}:                     Reauthenticating,
		{Open, drainBegun}:                      Draining,
		{AtRiskOfAuthTokenExpiry, reauthBegun}:  Reauthenticating,
		{AtRiskOfAuthTokenExpiry, refreshBegun}: Refreshing,
		{AtRiskOfAuthTokenExpiry, drainBegun}:   Draining,
		{Reauthenticating, reauthenticated}:     Open,
		{Reauthenticating, reauthPostponed}:     AtRiskOfAuthTokenExpiry,
		{Refreshing, refreshed}:                 Draining,
		{Refreshing, refreshFailed}:             AtRiskOfAuthTokenExpiry,
		{Refreshing, refreshTimedOut}:           RefreshTimeout,
		{Refreshing, drainBegun}:                Draining,
		{RefreshTimeout, reauthBegun}:           Reauthenticating,
		{RefreshTimeout, refreshBegun}:          Refreshing,
		{RefreshTimeout, drainBegun}:            Draining,
		{Draining, switched}:                    Open,
		{Draining, refreshFailed}:               AtRiskOfAuthTokenExpiry,
		{Draining, drainBegun}:                  Draining,
	}
	names := map[string]bool{}
	for s := Unopened; s <= Closed; s++ {
		if names[s.String()] || strings.HasPrefix(s.String(), "state ") {
			t.Errorf("state %d is called %s", s, s)
		}
		names[s.String()] = true
		legal[pair{s, ended}] = Closed
		for e := range event(eventCount) {
			if strings.HasPrefix(e.String(), "event ") {
				t.Errorf("event %d has no name", e)
			}
			got, err := s.next(e)
			want, ok := legal[pair{s, e}]
			switch {
			case ok && (err != nil || got != want):
				t.Errorf("%s on %s: %s, %v; want %s", e, s, got, err, want)
			case !ok && (err == nil || got != s):
				t.Errorf("%s on %s: %s, %v; want an error and no move", e, s, got, err)
			case !ok && (!strings.Contains(err.Error(), s.String()) || !strings.Contains(err.Error(), e.String())):
				t.Errorf("%v does not name %s and %s", err, s, e)
			}
		}
	}
}
