package projector

import (
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
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

// BenchmarkRow makes rows of events, checks and all, and a block of the rows: what the projector itself does.
func BenchmarkRow(b *testing.B) {
	for name, change := range map[string]func(*ledgerv1.Command){
		"full": func(*ledgerv1.Command) {},
		"hot": func(c *ledgerv1.Command) {
			c.Reference, c.Metadata = "", nil
		},
	} {
		b.Run(name, func(b *testing.B) { benchmarkRow(b, change) })
	}
}

func benchmarkRow(b *testing.B, change func(*ledgerv1.Command)) {
	b.Helper()
	const events = 10_000
	ledger, records := newLedger(), make([]*kgo.Record, events)
	for i := range records {
		records[i] = recordOf(b, 0, ledger.event(0, change))
	}
	b.ReportAllocs()
	for b.Loop() {
		w := &worker{head: lua.FirstLink}
		block := &batch{rows: newRows(), head: w.head, from: 1}
		for _, record := range records {
			if err := w.project(block, record); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := io.Copy(io.Discard, newBody(block.closed().rows.native())); err != nil {
			b.Fatal(err)
		}
		block.rows.free()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}
