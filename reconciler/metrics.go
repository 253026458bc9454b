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
	for _, verdict := range []Verdict{Clean, Breaks, CouldNotTell} {
		m.runs.WithLabelValues(string(verdict))
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lastSuccess, m.runs, m.breaks, m.repairs, m.accounts, m.duration} {
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
	if report.Verdict == CouldNotTell {
		return
	}
	m.lastSuccess.Set(float64(report.Finished.Unix()))
	m.accounts.Set(float64(report.AccountsCompared))
	byClass := report.ByClass()
	for _, class := range Classes() {
		m.breaks.WithLabelValues(string(class)).Set(float64(byClass[class]))
	}
}
