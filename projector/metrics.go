package projector

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// instruments are the metrics of a projector. A shard that moves away takes its gauges along.
type instruments struct {
	rows, batches, failures, takeovers *prometheus.CounterVec
	insertSeconds                      prometheus.Histogram
	positions, lag, through, halts     *prometheus.GaugeVec
}

func newInstruments(reg prometheus.Registerer) *instruments {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "projector_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "projector_" + name, Help: help}, labels)
	}
	m := &instruments{
		rows:      counter("rows_inserted_total", "Rows that ClickHouse acknowledged. Its rate is the speed of the projection; a range that is sent again counts again.", "shard"),
		batches:   counter("batches_inserted_total", "Inserts that ClickHouse acknowledged. More than one per second and shard makes too many parts.", "shard"),
		failures:  counter("insert_failures_total", "Inserts that ended in an error, their outcome unknown; each is tried again. Rises while ClickHouse is away.", "shard"),
		takeovers: counter("takeovers_total", "Shards taken over, by what ClickHouse said: behind means that ClickHouse lost rows, which are inserted again; ahead that offsets were set back.", "shard", "verdict"),
		insertSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "projector_insert_seconds", Help: "Time of one insert, good or not. Near PROJECTOR_INSERT_TIMEOUT the batches are too large for this ClickHouse.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14), // 5 ms to 41 s
		}),
		positions: gauge("position", "Position up to which the shard is in ClickHouse.", "shard"),
		lag:       gauge("lag_offsets", "Kafka offsets between the rows in ClickHouse and the end of the log. At rest it is the marker of the last transaction (1); a number that stays without new rows means that a transaction hangs open.", "shard"),
		through:   gauge("complete_through_timestamp_seconds", "Broker time of the last event in ClickHouse: finance sees everything up to it. Only with a lag is an old time a late one.", "shard"),
		halts:     gauge("halted", "1 for a shard that stopped for good: page somebody. The log line of the halt says what to do.", "shard", "reason"),
	}
	reg.MustRegister(m.rows, m.batches, m.failures, m.takeovers, m.insertSeconds, m.positions, m.lag, m.through, m.halts)
	return m
}

func label(shard int32) string { return strconv.Itoa(int(shard)) }

func (m *instruments) inserted(shard int32, b *batch, took time.Duration, err error) {
	m.insertSeconds.Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(label(shard)).Inc()
		return
	}
	m.rows.WithLabelValues(label(shard)).Add(float64(b.len()))
	m.batches.WithLabelValues(label(shard)).Inc()
}

func (m *instruments) takenOver(shard int32, v verdict) {
	m.takeovers.WithLabelValues(label(shard), string(v)).Inc()
}

// reached says how far the shard is in ClickHouse. A shard without rows has no time.
func (m *instruments) reached(shard int32, position uint64, logTime time.Time) {
	m.positions.WithLabelValues(label(shard)).Set(float64(position))
	if position > 0 {
		m.through.WithLabelValues(label(shard)).Set(float64(logTime.UnixMilli()) / 1000)
	}
}

func (m *instruments) behind(shard int32, offsets int64) {
	m.lag.WithLabelValues(label(shard)).Set(float64(max(offsets, 0)))
}

func (m *instruments) halted(shard int32, reason string) {
	m.halts.WithLabelValues(label(shard), reason).Set(1)
}

// released drops what would otherwise be shown for ever for a shard that somebody else has.
func (m *instruments) released(shard int32) {
	own := prometheus.Labels{"shard": label(shard)}
	m.positions.DeletePartialMatch(own)
	m.lag.DeletePartialMatch(own)
	m.through.DeletePartialMatch(own)
	m.halts.DeletePartialMatch(own)
}
