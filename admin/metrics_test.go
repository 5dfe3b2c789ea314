package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// series returns every series of the gateway's own as "name{labels} value".
func series(t *testing.T, m *Metrics) []string {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "doorkeeper_") {
			continue
		}
		for _, s := range f.GetMetric() {
			labels := ""
			for _, l := range s.GetLabel() {
				labels += "{" + l.GetName() + "=" + l.GetValue() + "}"
			}
			value := s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
			out = append(out, fmt.Sprintf("%s%s %v", f.GetName(), labels, value))
		}
	}
	return out
}

func TestMetricsHaveTheirNamesAndCounts(t *testing.T) {
	m := NewMetrics()
	m.LegAccepted()
	m.LegAccepted()
	m.SessionStarted()
	m.SessionStarted()
	m.SessionEnded("client_closed")
	m.LegRefused("probe")
	m.Panicked()
	m.TokenState("absent", "creating")
	m.TokenState("creating", "live")
	m.TokenState("", "creating")
	m.TokenState("creating", "absent")
	m.TokenCreated("ok")
	m.TokenAdopted()
	m.TokenExpired("expired")
	m.TokenExpired("timeout")
	m.TokenFailed("create", "not_authorized", 65)
	m.TokenFailed("create", "not_authorized", 65)
	m.TokenFailed("describe", "timeout", 0)
	m.TokenKnown(2, 30*time.Millisecond)
	m.TokenKnown(2, time.Minute)
	m.TokenGauge("held", func() float64 { return 4 })
	m.TokenGauge("held", func() float64 { return 5 }) // a second one is ignored
	m.TokenGauge("most_per_owner", func() float64 { return 2 })
	m.TokenGauge("waiting", func() float64 { return 7 })
	m.TokenGauge("oldest_age", func() float64 { return 1.5 })
	m.TokenGauge("least_left", func() float64 { return 2.5 })
	m.TokenGauge("nonsense", func() float64 { return 1 })
	m.KeyDerived("SCRAM-SHA-512")
	m.AtRisk()
	m.Renewed("reauthenticate", "ok", time.Minute, time.Second, 7)
	m.Renewed("reauthenticate", "too_soon", time.Minute, time.Second, 7)
	m.ForcedClose("peer_closed")
	m.NodeState("", "up")
	m.StatusRead("ok")
	want := []string{
		"doorkeeper_brokers{state=up} 1",
		"doorkeeper_client_legs_accepted_total 2",
		"doorkeeper_connections_at_risk_total 1",
		"doorkeeper_forced_closes_total{reason=peer_closed} 1",
		"doorkeeper_panics_total 1",
		"doorkeeper_renewal_duration_seconds 1",
		"doorkeeper_renewal_left_seconds 1",
		"doorkeeper_renewal_unanswered_requests 1",
		"doorkeeper_renewals_total{kind=reauthenticate}{result=ok} 1",
		"doorkeeper_renewals_total{kind=reauthenticate}{result=too_soon} 1",
		"doorkeeper_scram_key_derivations_total{mechanism=SCRAM-SHA-512} 1",
		"doorkeeper_session_ends_total{reason=client_closed} 1",
		"doorkeeper_session_ends_total{reason=probe} 1",
		"doorkeeper_sessions 1",
		"doorkeeper_status_reads_total{result=ok} 1",
		"doorkeeper_token_adoptions_total 1",
		"doorkeeper_token_creations_total{result=ok} 1",
		"doorkeeper_token_creations_waiting 7",
		"doorkeeper_token_expiries_total{result=expired} 1",
		"doorkeeper_token_expiries_total{result=timeout} 1",
		"doorkeeper_token_least_left_seconds 2.5",
		"doorkeeper_token_oldest_age_seconds 1.5",
		"doorkeeper_token_propagation_seconds{node=2} 2",
		"doorkeeper_token_request_failures_total{code=0}{reason=timeout}{request=describe} 1",
		"doorkeeper_token_request_failures_total{code=65}{reason=not_authorized}{request=create} 2",
		"doorkeeper_tokens{state=creating} 0",
		"doorkeeper_tokens{state=live} 1",
		"doorkeeper_tokens_held 4",
		"doorkeeper_tokens_held_of_one_owner_max 2",
	}
	if got := series(t, m); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMetricsOfTwoGatewaysAreApart: each has its own registry, and none is the
// process's default.
func TestMetricsOfTwoGatewaysAreApart(t *testing.T) {
	a, b := NewMetrics(), NewMetrics()
	a.Panicked()
	if got := series(t, b); slices.Contains(got, "doorkeeper_panics_total 1") {
		t.Errorf("the other's panic shows here: %v", got)
	}
}

// TestLabelValuesAreBounded is S15 and design rule 20: whatever comes in as a
// reason, the number of series stays within a limit, and gauges still add up.
func TestLabelValuesAreBounded(t *testing.T) {
	m := NewMetrics()
	for i := range 10_000 {
		m.SessionStarted()
		m.SessionEnded(fmt.Sprint("reason ", i))
		m.TokenState("", fmt.Sprint("state ", i))
		m.TokenFailed(fmt.Sprint("request ", i), "x", int16(i))
		m.TokenKnown(int32(i), time.Second)
		m.TokenExpired(fmt.Sprint("result ", i))
	}
	got := series(t, m)
	if len(got) > 5*(maxLabelValues+1)+10 {
		t.Errorf("%d series", len(got))
	}
	for i := range 10_000 {
		m.TokenState(fmt.Sprint("state ", i), "")
	}
	for _, s := range series(t, m) {
		if strings.HasPrefix(s, "doorkeeper_tokens{") && !strings.HasSuffix(s, " 0") {
			t.Errorf("did not go back to zero: %s", s)
		}
	}
}
