package reconciler

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// runMetrics is what runs show of themselves.
type runMetrics struct {
	lastSuccess prometheus.Gauge
	runs        *prometheus.CounterVec
	breaks      *prometheus.GaugeVec
	repairs     *prometheus.CounterVec
	accounts    prometheus.Gauge
	duration    prometheus.Gauge
	open        *prometheus.GaugeVec
	oldest      prometheus.Gauge
	held        prometheus.Gauge
	phases      *prometheus.GaugeVec
	leading     prometheus.Gauge
}

func newRunMetrics(reg prometheus.Registerer) (*runMetrics, error) {
	m := &runMetrics{
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ledger_recon_last_success_timestamp_seconds",
			Help: "When a run last compared the whole ledger, clean or with breaks, seconds since 1970. Alert when it is old: a run that could not tell leaves it.",
		}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledger_recon_runs_total", Help: "Runs by verdict: clean, breaks, could_not_tell.",
		}, []string{"verdict"}),
		breaks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ledger_recon_breaks", Help: "Breaks that the last run listed, by class; at most RECONCILER_BREAKS_MAX in all. Unchanged by a run that could not tell.",
		}, []string{"class"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledger_recon_repairs_total", Help: "Repairs by how far they came: applied, rejected, unknown, not_sent.",
		}, []string{"state"}),
		accounts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ledger_recon_accounts", Help: "Accounts that the last run compared. A fall is worth a look.",
		}),
		duration: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ledger_recon_duration_seconds", Help: "How long the last run took, whatever its verdict.",
		}),
	}
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ledger_recon_open_breaks", Help: "Breaks that the last run left to a person, by severity: not repaired, not accepted, not waiting to pass.",
	}, []string{"severity"})
	m.oldest = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ledger_recon_oldest_break_age_seconds", Help: "How long the oldest open break has been known; 0 with none.",
	})
	m.held = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ledger_recon_held", Help: "1 when the last run repaired nothing because a cap was exceeded: look for one cause.",
	})
	m.phases = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ledger_recon_phase_duration_seconds", Help: "Where the time of the last run went: read, log, compare, invariants, settle, write.",
	}, []string{"phase"})
	m.leading = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ledger_recon_leader", Help: "1 while this instance of `reconciler serve` leads. The sum over all instances is 1.",
	})
	for _, verdict := range []Verdict{Clean, Breaks, CouldNotTell} {
		m.runs.WithLabelValues(string(verdict))
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lastSuccess, m.runs, m.breaks, m.repairs, m.accounts, m.duration, m.open, m.oldest, m.held, m.phases, m.leading} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *runMetrics) observe(report *Report) {
	m.runs.WithLabelValues(string(report.Verdict)).Inc()
	m.duration.Set(report.Finished.Sub(report.Started).Seconds())
	for _, b := range report.Breaks {
		if c := b.Compensation; c != nil && c.State != WouldIssue {
			m.repairs.WithLabelValues(string(c.State)).Inc()
		}
	}
	for phase, took := range report.Phases {
		m.phases.WithLabelValues(phase).Set(took.Seconds())
	}
	m.held.Set(0)
	if report.Held != "" {
		m.held.Set(1)
	}
	if report.Verdict == CouldNotTell {
		return
	}
	bySeverity, oldest := map[Severity]int{}, 0.0
	for _, b := range report.Breaks {
		if b.open() {
			bySeverity[b.Severity]++
			oldest = max(oldest, report.Finished.Sub(b.FirstSeen).Seconds())
		}
	}
	for _, severity := range severities {
		m.open.WithLabelValues(string(severity)).Set(float64(bySeverity[severity]))
	}
	m.oldest.Set(oldest)
	m.lastSuccess.Set(float64(report.Finished.Unix()))
	m.accounts.Set(float64(report.AccountsCompared))
	byClass := report.ByClass()
	for _, class := range Classes() {
		m.breaks.WithLabelValues(string(class)).Set(float64(byClass[class]))
	}
}

// open says that somebody has to look at a break.
func (b *Break) open() bool {
	c := b.Compensation
	return b.Settled == "" && b.Action != Wait && (c == nil || c.State != Applied)
}

// leads notes whether this instance leads. One that does not has nothing to say of breaks: the leader says it.
func (m *runMetrics) leads(leads bool) {
	if leads {
		m.leading.Set(1)
		return
	}
	m.leading.Set(0)
	m.breaks.Reset()
	m.open.Reset()
	m.oldest.Set(0)
	m.held.Set(0)
}
