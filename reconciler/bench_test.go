package reconciler

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// BenchmarkFullRun measures a full run, and where its time goes. RECONCILER_BENCH_ACCOUNTS is the number of accounts, with ten events each.
func BenchmarkFullRun(b *testing.B) { benchmarkRun(b, false) }

// BenchmarkIncrementalRun measures a run that goes on from the one before.
func BenchmarkIncrementalRun(b *testing.B) { benchmarkRun(b, true) }

func benchmarkRun(b *testing.B, incremental bool) {
	accounts := 10_000
	if n, err := strconv.Atoi(os.Getenv("RECONCILER_BENCH_ACCOUNTS")); err == nil {
		accounts = n
	}
	const events = 10
	w := setup(b)
	for i := range accounts {
		account := fmt.Sprintf("account-%d", i)
		commands := append(make([]*ledgerv1.Command, 0, events), open(account, "USD"))
		for len(commands) < events {
			commands = append(commands, credit(account, int64(len(commands)), "USD"))
		}
		w.waitingCommands = append(w.waitingCommands, commands...)
		if len(w.waitingCommands) > 50_000 {
			w.submit(w.waitingCommands...)
			w.waitingCommands = nil
		}
	}
	w.submit(w.waitingCommands...)
	if report := w.mustRun(); report.Verdict != Clean {
		b.Fatalf("want clean, got %s", dump(report))
	}
	phases := map[string]float64{}
	for b.Loop() {
		report := w.mustRun(func(c *Config) { c.Incremental = incremental })
		for phase, took := range report.Phases {
			phases[phase] += took.Seconds()
		}
	}
	for phase, seconds := range phases {
		b.ReportMetric(seconds/float64(b.N), phase+"-s/op")
	}
}
