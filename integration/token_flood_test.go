//go:build integration

package integration

// This file proves that a flood of certificates does not become a flood at the controller:
// of hundreds of new owners who come at the same moment as many get tokens as the rate of
// creations allows (50 a second, and 100 at once), those who would wait too long are closed
// plainly and served when they come again, and no session that was there before is touched.

import (
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// S16
func TestTokenLifeInAFloodOfOwners(t *testing.T) {
	flood := 300
	_, long := tokenLifeFor(t)
	if long {
		flood = 5000 // too many for the race detector: each derives keys
	}
	c := cluster(t)
	ctx := within(t, 10*time.Minute)
	g := gateway(t, c, harness.GatewayConfig{Plain: long, Change: func(d harness.Document) {
		d.Set("tokens.expire_on_stop", true)
		d.Set("limits.admission", "5m") // they wait for each other, admitted
		d.Set("limits.sessions_per_address", 2*flood)
		d.Set("limits.handshakes_per_address", 2*flood)
		d.Set("timeouts.drain", "2m")
	}})
	// They stay alone: how long a login takes while this machine does hundreds proves nothing.
	crowd := receive(t, g, g.Addresses(c), named("dweller", 3), time.Hour)
	legs := arrive(ctx, t, []string{g.Bootstrap}, named("flood", flood))
	before := metricsOf(t, g).Sum("doorkeeper_token_creations_total")

	from := time.Now()
	waits := askAll(t, legs)
	took := time.Since(from)
	crowd.end(t)
	m := metricsOf(t, g)
	n := m.Sum("doorkeeper_token_creations_total") - before
	t.Logf("%d owners at once were all served within %v (%s); %v tokens were asked for, %v visits found too many waiting", flood,
		took.Round(time.Millisecond), quantiles(waits), n, m.Sum("doorkeeper_token_request_failures_total", `reason="busy"`))
	for _, reason := range []string{"no_token", "broker_unusable", "limit_handshakes", "admission_timeout"} {
		if n := m.Sum("doorkeeper_session_ends_total", `reason="`+reason+`"`); n > 0 {
			t.Logf("%v sessions ended with %s, and their clients came again", n, reason)
		}
	}
	const rate, burst = 50, 100 // DefaultCreationRate in tokens/pace.go
	if most := burst + rate*took.Seconds(); n > most {
		t.Errorf("%v tokens were asked for within %v, more than %v", n, took, most)
	}
	if held := m.Sum("doorkeeper_tokens_held"); held != float64(flood+3+1) {
		t.Errorf("%v tokens are held", held)
	}
}
