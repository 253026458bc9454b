package writer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
)

// counters are the writer's metrics.
type counters struct {
	outcomes      *prometheus.CounterVec
	applied       prometheus.Counter // one of outcomes, the usual one
	repeats       prometheus.Counter
	deadLetters   *prometheus.CounterVec
	moved         prometheus.Counter
	givenUp       prometheus.Counter
	recoveries    *prometheus.CounterVec
	applySeconds  prometheus.Histogram
	commitSeconds prometheus.Histogram
	evicting      prometheus.Gauge
	lookedUp      *prometheus.CounterVec
}

func newCounters(reg prometheus.Registerer) *counters {
	m := &counters{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledger_commands_total", Help: "Commands decided, by outcome and reason. A growing share of rejections is a caller's problem, not the ledger's.",
		}, []string{"outcome", "reason"}),
		repeats: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledger_repeated_commands_total", Help: "Commands whose id was known with the same payload: redeliveries and callers' retries, answered with the first outcome.",
		}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledger_dead_letters_total", Help: "Records put aside in ledger.deadletters, by cause. Somebody should look at each.",
		}, []string{"cause"}),
		moved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledger_commands_moved_total", Help: "Commands that landed on another partition than their account's and were sent on: a producer uses another partitioner.",
		}),
		givenUp: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledger_batches_given_up_total", Help: "Batches abandoned and recovered: rebalances and engines in trouble.",
		}),
		recoveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledger_recoveries_total", Help: "Recoveries of a shard by what was found: clean, ahead, behind, rebuild. A rebuild for another reason than an empty Redis deserves a look.",
		}, []string{"found"}),
		applySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledger_apply_duration_seconds", Help: "One call to Redis, with its retries and look-ups.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledger_commit_duration_seconds", Help: "One commit of a Kafka transaction.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
	}
	m.evicting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ledger_redis_evicting", Help: "1: a Redis master has another maxmemory-policy than noeviction and may throw away balances. Set noeviction at once.",
	})
	m.lookedUp = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ledger_commands_looked_up_total", Help: "Commands of calls that were older than what Redis remembers, by what ClickHouse said: known (the outcome it had) or unknown (decided). Many: redeliveries come later than the dedupe window.",
	}, []string{"answer"})
	m.applied = m.outcomes.WithLabelValues("applied", "")
	reg.MustRegister(m.lookedUp, m.evicting, m.outcomes, m.repeats, m.deadLetters, m.moved, m.givenUp, m.recoveries, m.applySeconds, m.commitSeconds)
	return m
}

func (m *counters) decided(d lua.Decision) {
	switch {
	case d.Kind != lua.Decided:
		m.repeats.Inc()
	case d.Outcome.GetStatus() == ledgerv1.Status_STATUS_APPLIED:
		m.applied.Inc()
	default:
		m.outcomes.WithLabelValues("rejected", reason.Of(d.Outcome.GetReason()).Code).Inc()
	}
}
