package admin

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// maxLabelValues bounds the values of one label. The values come from small enums;
// a mistake there must not become an endless number of series.
const maxLabelValues = 64

// otherValue is the label value of everything beyond maxLabelValues.
const otherValue = "other"

// Metrics is the gateway's metrics, in a registry of their own. All methods are
// safe for concurrent use and do not block. No owner, client id or topic ever
// becomes a label.
type Metrics struct {
	registry *prometheus.Registry

	sessions        prometheus.Gauge
	sessionEnds     *prometheus.CounterVec
	tokens          *prometheus.GaugeVec
	tokenCreations  *prometheus.CounterVec
	keyDerivations  *prometheus.CounterVec
	atRisk          prometheus.Counter
	panics          prometheus.Counter
	legsAccepted    prometheus.Counter
	brokerStates    *prometheus.GaugeVec
	statusReads     *prometheus.CounterVec
	reasons, states labelBound
	results, mechs  labelBound
	brokers, reads  labelBound
}

// NewMetrics returns metrics that are all zero.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "doorkeeper_sessions", Help: "Sessions that are open now.",
		}),
		sessionEnds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_session_ends_total", Help: "Client legs that have ended, by reason; accepted ones less these are open.",
		}, []string{"reason"}),
		tokens: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "doorkeeper_tokens", Help: "Owners by the state of their delegation token.",
		}, []string{"state"}),
		tokenCreations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_token_creations_total", Help: "CreateDelegationToken requests, by result.",
		}, []string{"result"}),
		keyDerivations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_scram_key_derivations_total", Help: "SCRAM keys derived from token passwords, by mechanism.",
		}, []string{"mechanism"}),
		atRisk: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "doorkeeper_connections_at_risk_total", Help: "Broker legs that came near their session end.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "doorkeeper_panics_total", Help: "Panics, each of which ended one session.",
		}),
		legsAccepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "doorkeeper_client_legs_accepted_total", Help: "Client connections that were accepted.",
		}),
		brokerStates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "doorkeeper_brokers", Help: "Brokers by the state that the gateway sees.",
		}, []string{"state"}),
		statusReads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_status_reads_total", Help: "Readings of the list of brokers, by result.",
		}, []string{"result"}),
	}
	m.registry.MustRegister(
		m.sessions, m.sessionEnds, m.tokens, m.tokenCreations, m.keyDerivations,
		m.atRisk, m.panics, m.legsAccepted, m.brokerStates, m.statusReads,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return m
}

// LegAccepted counts an accepted client connection.
func (m *Metrics) LegAccepted() { m.legsAccepted.Inc() }

// LegRefused counts the end of a client connection that became no session.
func (m *Metrics) LegRefused(reason string) {
	m.sessionEnds.WithLabelValues(m.reasons.value(reason)).Inc()
}

// SessionStarted counts a session that is open from now on.
func (m *Metrics) SessionStarted() { m.sessions.Inc() }

// SessionEnded counts the end of a session that SessionStarted has counted.
func (m *Metrics) SessionEnded(reason string) {
	m.sessions.Dec()
	m.sessionEnds.WithLabelValues(m.reasons.value(reason)).Inc()
}

// Panicked counts a panic that ended a session.
func (m *Metrics) Panicked() { m.panics.Inc() }

// TokenState moves an owner from one state to another. "absent", or "", is outside:
// an owner that appears comes from there, one that is forgotten goes there.
func (m *Metrics) TokenState(from, to string) { move(m.tokens, &m.states, from, to) }

// TokenCreated counts a CreateDelegationToken request.
func (m *Metrics) TokenCreated(result string) {
	m.tokenCreations.WithLabelValues(m.results.value(result)).Inc()
}

// KeyDerived counts a derivation of SCRAM keys.
func (m *Metrics) KeyDerived(mechanism string) {
	m.keyDerivations.WithLabelValues(m.mechs.value(mechanism)).Inc()
}

// AtRisk counts a broker leg that came near its session end.
func (m *Metrics) AtRisk() { m.atRisk.Inc() }

// NodeState moves a broker from one state to another, as TokenState does.
func (m *Metrics) NodeState(from, to string) { move(m.brokerStates, &m.brokers, from, to) }

// StatusRead counts a reading of the list of brokers.
func (m *Metrics) StatusRead(result string) {
	m.statusReads.WithLabelValues(m.reads.value(result)).Inc()
}

// outside is the state of what is not held, and not counted.
const outside = "absent"

func move(gauge *prometheus.GaugeVec, bound *labelBound, from, to string) {
	if from != "" && from != outside {
		gauge.WithLabelValues(bound.value(from)).Dec()
	}
	if to != "" && to != outside {
		gauge.WithLabelValues(bound.value(to)).Inc()
	}
}

// labelBound admits the first maxLabelValues values of a label. What it has said
// of a value it says for ever, so that a gauge goes down where it went up. The
// zero value is ready.
type labelBound struct {
	mu     sync.Mutex
	values map[string]struct{}
}

func (b *labelBound) value(v string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.values[v]; known {
		return v
	}
	if len(b.values) == maxLabelValues {
		return otherValue
	}
	if b.values == nil {
		b.values = make(map[string]struct{})
	}
	b.values[v] = struct{}{}
	return v
}
