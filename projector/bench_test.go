package projector

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkProject is the whole path of one shard: read a backlog from Kafka, check the chain, insert with fsync, commit.
func BenchmarkProject(b *testing.B) {
	bench := setup(b)
	for _, size := range []int{100_000, 100_000, 100_000} {
		records := bench.ledger.records(b, size, 0)
		for part := range size / 10_000 {
			bench.produce(kgo.TryCommit, records[part*10_000:(part+1)*10_000]...)
		}
	}
	b.ResetTimer()
	for range b.N {
		bench.exec("TRUNCATE TABLE events")
		r := bench.start(func(c *Config) { c.BatchRows, c.BatchWait = 100_000, time.Second })
		bench.awaitRows(0)
		bench.must(r.stop())
	}
	b.ReportMetric(float64(b.N)*300_000/b.Elapsed().Seconds(), "rows/s")
}
