package admin

import (
	"strconv"
	"sync"
	"time"

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
	tokenAdoptions  prometheus.Counter
	tokenExpiries   *prometheus.CounterVec
	tokenFailures   *prometheus.CounterVec
	tokenKnown      *prometheus.HistogramVec
	keyDerivations  *prometheus.CounterVec
	atRisk          prometheus.Counter
	renewals        *prometheus.CounterVec
	renewalLeft     prometheus.Histogram
	renewalTook     prometheus.Histogram
	renewalQueue    prometheus.Histogram
	forcedCloses    *prometheus.CounterVec
	panics          prometheus.Counter
	legsAccepted    prometheus.Counter
	brokerStates    *prometheus.GaugeVec
	statusReads     *prometheus.CounterVec
	reasons, states labelBound
	results, mechs  labelBound
	brokers, reads  labelBound
	expiries, nodes labelBound
	failures        labelBound
	kinds, outcomes labelBound
	forced          labelBound
}

// tokenGauges are the gauges that tokens may hand over, by its names for them.
func tokenGauges(name string) (prometheus.GaugeOpts, bool) {
	switch name {
	case "held":
		return prometheus.GaugeOpts{Name: "doorkeeper_tokens_held", Help: "Delegation tokens that Kafka holds for this instance, as far as the gateway knows."}, true
	case "most_per_owner":
		return prometheus.GaugeOpts{Name: "doorkeeper_tokens_held_of_one_owner_max", Help: "The most delegation tokens held of one owner: 1, and 2 while one is being replaced."}, true
	case "waiting":
		return prometheus.GaugeOpts{Name: "doorkeeper_token_creations_waiting", Help: "Token creations that wait because of the bound on their rate."}, true
	case "oldest_age":
		return prometheus.GaugeOpts{Name: "doorkeeper_token_oldest_age_seconds", Help: "Age of the oldest delegation token in use."}, true
	case "least_left":
		return prometheus.GaugeOpts{Name: "doorkeeper_token_least_left_seconds", Help: "Life left of the delegation token in use that ends first; 0 without tokens."}, true
	default:
		return prometheus.GaugeOpts{}, false
	}
}

// NewMetrics returns metrics that are all zero.
func NewMetrics() *Metrics {
	// Metadata replication takes tens of milliseconds on an idle cluster, and after 5 s
	// a broker that does not know a token is given up for the moment.
	propagation := []float64{.005, .01, .025, .05, .1, .2, .3, .5, 1, 2, 5, 10}
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
		tokenAdoptions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "doorkeeper_token_adoptions_total", Help: "Delegation tokens made earlier that are used on: after a restart, or after an answer that was lost.",
		}),
		tokenExpiries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_token_expiries_total", Help: "ExpireDelegationToken requests, by result.",
		}, []string{"result"}),
		tokenFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_token_request_failures_total", Help: "Requests of the control connection that failed; code is Kafka's error code, 0 where no answer came.",
		}, []string{"request", "reason", "code"}),
		tokenKnown: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "doorkeeper_token_propagation_seconds", Help: "Time from the answer to a token's creation until a broker was seen to know the token.",
			Buckets: propagation,
		}, []string{"node"}),
		keyDerivations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_scram_key_derivations_total", Help: "SCRAM keys derived from token passwords, by mechanism.",
		}, []string{"mechanism"}),
		atRisk: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "doorkeeper_connections_at_risk_total", Help: "Times that a broker leg came near its session end, or was due for a newer token: a busy leg is renewed then, an idle one with its next request.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_renewals_total", Help: "Attempts to renew the session of a broker leg, by kind and result (ok, or what was wrong).",
		}, []string{"kind", "result"}),
		renewalLeft: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "doorkeeper_renewal_left_seconds", Help: "What was left of the old session when a leg was renewed; 0 and less: it was idle over its session end.",
			Buckets: []float64{0, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400, 43200},
		}),
		renewalTook: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "doorkeeper_renewal_duration_seconds", Help: "How long renewals took that worked, waits for the answers in front of them included.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		renewalQueue: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "doorkeeper_renewal_unanswered_requests", Help: "Requests that were unanswered when a renewal began that worked.",
			Buckets: []float64{0, 1, 2, 3, 5, 8, 16, 32, 64, 128, 256, 512, 1024},
		}),
		forcedCloses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorkeeper_forced_closes_total", Help: "Broker legs that had to end since their session could not be renewed, by reason.",
		}, []string{"reason"}),
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
		m.sessions, m.sessionEnds, m.tokens, m.tokenCreations, m.tokenAdoptions, m.tokenExpiries,
		m.tokenFailures, m.tokenKnown, m.keyDerivations,
		m.atRisk, m.renewals, m.renewalLeft, m.renewalTook, m.renewalQueue, m.forcedCloses, m.panics, m.legsAccepted, m.brokerStates, m.statusReads,
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

// TokenAdopted counts a token made earlier that is used on.
func (m *Metrics) TokenAdopted() { m.tokenAdoptions.Inc() }

// TokenExpired counts an ExpireDelegationToken request.
func (m *Metrics) TokenExpired(result string) {
	m.tokenExpiries.WithLabelValues(m.expiries.value(result)).Inc()
}

// TokenFailed counts a request of the control connection that failed. Request,
// reason and code are bounded together: what exceeds the bound counts as "other"
// in all three.
func (m *Metrics) TokenFailed(request, reason string, code int16) {
	c := strconv.Itoa(int(code))
	if m.failures.value(request+"/"+reason+"/"+c) == otherValue {
		request, reason, c = otherValue, otherValue, otherValue
	}
	m.tokenFailures.WithLabelValues(request, reason, c).Inc()
}

// TokenKnown counts how long a broker took to learn of a token. The first brokers
// have their own series, the others share one.
func (m *Metrics) TokenKnown(node int32, after time.Duration) {
	m.tokenKnown.WithLabelValues(m.nodes.value(strconv.Itoa(int(node)))).Observe(after.Seconds())
}

// TokenGauge takes over how to read a gauge: "held", "most_per_owner", "waiting",
// "oldest_age" or "least_left". Others, and a second of the same, are ignored. read
// is called for every scrape.
func (m *Metrics) TokenGauge(name string, read func() float64) {
	if opts, known := tokenGauges(name); known {
		_ = m.registry.Register(prometheus.NewGaugeFunc(opts, read)) // fails for a second one only
	}
}

// KeyDerived counts a derivation of SCRAM keys.
func (m *Metrics) KeyDerived(mechanism string) {
	m.keyDerivations.WithLabelValues(m.mechs.value(mechanism)).Inc()
}

// AtRisk counts a broker leg that came near its session end, or was due for a newer
// token.
func (m *Metrics) AtRisk() { m.atRisk.Inc() }

// Renewed counts an attempt to renew a leg's session. Of those that worked it keeps
// what was left of the old session, how long they took, and how many requests were
// unanswered when they began.
func (m *Metrics) Renewed(kind, result string, left, took time.Duration, unanswered int) {
	m.renewals.WithLabelValues(m.kinds.value(kind), m.outcomes.value(result)).Inc()
	if result == "ok" {
		m.renewalLeft.Observe(left.Seconds())
		m.renewalTook.Observe(took.Seconds())
		m.renewalQueue.Observe(float64(unanswered))
	}
}

// ForcedClose counts a broker leg that had to end since its session could not be
// renewed.
func (m *Metrics) ForcedClose(reason string) {
	m.forcedCloses.WithLabelValues(m.forced.value(reason)).Inc()
}

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
