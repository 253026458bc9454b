package reconciler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/prometheus/client_golang/prometheus"
)

func TestRunThatCannotCompareCouldNotTell(t *testing.T) {
	t.Parallel()
	nowhere := []string{"127.0.0.1:1"}
	shard := topics.ShardOf("a1", testShards)
	for _, trouble := range []struct {
		name string
		make func(*world)
		why  string
	}{
		{"Redis is away", func(w *world) { w.cfg.Redis.Addrs = nowhere }, "connection refused"},
		{"ClickHouse is away", func(w *world) { w.cfg.ClickHouse.Addrs = nowhere }, "connection refused"},
		{"ClickHouse has no tables", func(w *world) {
			w.must(w.rows.Exec(w.ctx, "DROP TABLE events"))
		}, "events"},
		{"Kafka is away", func(w *world) { w.cfg.Kafka.Brokers = nowhere }, "look up topic ledger.events"},
		{"fewer shards are configured than there are", func(w *world) { w.cfg.Kafka.Shards = testShards - 1 }, "LEDGER_SHARDS is 2"},
		{"a shard has no head", func(w *world) { w.must(w.rdb.Del(w.ctx, lua.HeadKey(shard)).Err()) }, "no head"},
		{"Redis is empty", func(w *world) { w.must(w.rdb.FlushAll(w.ctx).Err()) }, "no head"},
		{"a shard has lost its accounts", func(w *world) { w.must(w.rdb.Del(w.ctx, lua.AccountsKey(shard)).Err()) }, "do not belong together"},
		{"ClickHouse is empty", func(w *world) {
			w.must(w.rows.Exec(w.ctx, "TRUNCATE TABLE events"))
			w.cfg.BarrierTimeout = 300 * time.Millisecond
		}, "is the projector running?"},
		{"ClickHouse lost the last events", func(w *world) {
			w.alter(fmt.Sprintf("ALTER TABLE events DELETE WHERE shard = %d AND position > %d", shard, w.points[shard].Head.Position-5))
			w.cfg.BarrierTimeout = 300 * time.Millisecond
		}, "is the projector running?"},
		{"Redis has another history than the log", func(w *world) {
			w.stopProjector()
			w.submit(credit("a1", 5, "USD"))
			w.must(w.rows.Exec(w.ctx, fmt.Sprintf("INSERT INTO events SELECT * REPLACE (%d AS position, 4 AS sequence) FROM (SELECT * FROM events WHERE account = 'a1' AND sequence = 3)",
				w.points[shard].Head.Position)))
		}, "which is not in the log"},
		{"it is told to stop", func(w *world) {
			ctx, cancel := context.WithCancelCause(w.ctx)
			cancel(errors.New("told to stop"))
			w.ctx = ctx
		}, ""},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.smallLedger()
			trouble.make(w)
			report, err := w.run()
			if !errors.Is(err, ErrCouldNotTell) || report.Verdict != CouldNotTell || !strings.Contains(report.Why, trouble.why) || report.Why == "" {
				t.Fatalf("want could not tell because of %q, got %v and %s", trouble.why, err, dump(report))
			}
			if !strings.HasPrefix(report.Headline(), "COULD NOT TELL: ") {
				t.Errorf("headline %q", report.Headline())
			}
		})
	}
}

func TestLogThatLostItsEndIsOneBreak(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	shard := topics.ShardOf("a1", testShards)
	// ClickHouse has an event that Kafka does not have any more, and Redis neither.
	w.must(w.rows.Exec(w.ctx, fmt.Sprintf("INSERT INTO events SELECT * REPLACE (%d AS position, 4 AS sequence) FROM (SELECT * FROM events WHERE account = 'a1' AND sequence = 3)",
		w.points[shard].Head.Position+1)))
	report := w.mustRun()
	if report.BreaksFound != 1 || report.Breaks[0].Class != LogTruncated || report.Breaks[0].Account != "" || report.Breaks[0].Action != Stop {
		t.Fatalf("want one LOG_TRUNCATED of the shard, got %s", dump(report))
	}
}

func TestNothingIsRepairedWhileTheLogOfTheShardIsInDoubt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	mate := shardMate("a8")
	w.tamper(mate, func(a *lua.Account) { a.Balance++ })
	w.alter("ALTER TABLE events DELETE WHERE account = 'a8' AND sequence = 3")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	w.must(os.WriteFile(policy, []byte(strings.ReplaceAll(string(builtInPolicy), "class: PROJECTION_MISSING", "class: PROJECTION_DUPLICATE")), 0o600))
	report := w.mustRun(func(c *Config) { c.PolicyFile = policy })
	if report.ByClass()[BalanceDiffers] != 1 || report.ByClass()[ProjectionMissing] != 1 || report.BreaksFound != 2 || report.Repairs() != 0 || w.commandsSent() != 0 {
		t.Fatalf("want two breaks and no repair, got %s", dump(report))
	}
	for _, b := range report.Breaks {
		if b.Class == ProjectionMissing && !strings.Contains(b.Detail, `"a8"`) {
			t.Errorf("the gap does not name the account: %q", b.Detail)
		}
	}
}

func TestMoreRepairsThanAllowedMeansNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	for i := range 5 {
		w.forget(fmt.Sprintf("a%d", i))
	}
	report := w.mustRun(func(c *Config) { c.RepairsMax = 4 })
	if report.BreaksFound != 5 || report.Held == "" || report.Repairs() != 0 || w.commandsSent() != 0 || !strings.Contains(report.Headline(), "RECONCILER_REPAIRS_MAX") {
		t.Fatalf("want no repair, got %s", dump(report))
	}
	report = w.mustRun(func(c *Config) { c.BreaksMax = 3 })
	if report.BreaksFound != 5 || len(report.Breaks) != 3 || report.Held == "" || w.commandsSent() != 0 {
		t.Fatalf("want three listed of five, and no repair, got %s", dump(report))
	}
}

func TestRepairWithoutOutcomeIsReportedAsUnknown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.forget("a4")
	report := w.mustRun(func(c *Config) { c.OutcomeTimeout = time.Second }) // nobody serves
	if c := report.Breaks[0].Compensation; c == nil || c.State != Unknown || w.commandsSent() != 1 {
		t.Fatalf("want an unknown outcome, got %s", dump(report))
	}
	w.checkEvidence(report)
	w.serve() // the command still lies in Kafka
	if report := w.mustRun(); report.BreaksFound > 0 && report.Breaks[0].Compensation.State != Applied {
		t.Fatalf("want the same repair applied, got %s", dump(report))
	}
	if report := w.mustRun(); report.Verdict != Clean || w.account("a4").Sequence != 4 {
		t.Fatalf("want clean after one repair, got %s", dump(report))
	}
}

func TestSumsBeyond64BitsAreExact(t *testing.T) {
	t.Parallel()
	w := setup(t)
	commands := make([]*ledgerv1.Command, 0, 40)
	for i := range 20 {
		account := fmt.Sprintf("rich%d", i)
		commands = append(commands, open(account, "USD"), credit(account, 999_999_999_999_999_999, "USD"))
	}
	w.submit(commands...)
	report := w.mustRun()
	const sum = "19999999999999999980"
	if report.Verdict != Clean || report.Totals[0].Redis.String() != sum || report.Totals[0].Log.String() != sum {
		t.Fatalf("want clean and %s, got %s", sum, dump(report))
	}
	var table strings.Builder
	w.must(report.WriteTable(&table))
	if !strings.Contains(table.String(), "199999999999999999.80") {
		t.Errorf("table:\n%s", &table)
	}

	// A projection that adds up beyond 64 bits: seen, exactly, and written again from Kafka.
	w.alter("ALTER TABLE events UPDATE delta = 9223372036854775807 WHERE account = 'rich3'")
	report = w.mustRun()
	if b := report.Breaks[0]; report.BreaksFound != 1 || b.Class != ProjectionMismatch || b.Compensation.State != Applied || report.Totals[0].Log.String() != sum {
		t.Fatalf("want a mismatch, written again, got %s", dump(report))
	}
}

func TestEmptyLedgerWithAllItsShardsIsClean(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if report := w.mustRun(); report.Verdict != Clean || len(report.Shards) != testShards || report.AccountsCompared != 0 {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

func TestAccountsWithAwkwardNamesAreRepaired(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.serve()
	names := []string{`o'brien`, `back\slash`, `{0}`, `a ? b @run :x $1`, `"quoted"`, "émile 🐢", strings.Repeat("x", 128)}
	for _, name := range names {
		w.submit(open(name, "USD"), credit(name, 100, "USD"))
		w.tamper(name, func(a *lua.Account) { a.Balance = 1 })
	}
	report := w.mustRun()
	if report.Repairs() != len(names) {
		t.Fatalf("want %d repairs, got %s", len(names), dump(report))
	}
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

func TestOldReadingsAreDropped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.must(w.rows.Exec(w.ctx, "INSERT INTO account_snapshots (run_id, account, read_at) SELECT 'old', 'a1', now64(3) - INTERVAL 9 DAY"))
	report := w.mustRun()
	var old, current uint64
	w.query("SELECT countIf(run_id = 'old'), countIf(run_id = '"+report.RunID+"') FROM account_snapshots", &old, &current)
	if old != 0 || current != 20 {
		t.Errorf("%d old readings are left, and %d of this run", old, current)
	}
}

func TestMetricsSayWhatTheLastRunFound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
	reg := prometheus.NewRegistry()
	r, err := New(w.cfg, nil, reg)
	w.must(err)
	defer func() { _ = r.Close() }()
	_, err = r.Run(w.ctx)
	w.must(err)
	for metric, want := range map[string]float64{
		"ledger_recon_breaks BALANCE_DIFFERS": 1, "ledger_recon_breaks REDIS_AHEAD": 0, "ledger_recon_repairs_total applied": 1,
		"ledger_recon_runs_total breaks": 1, "ledger_recon_runs_total clean": 0, "ledger_recon_accounts ": 20,
	} {
		if got := gathered(t, reg)[metric]; got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	if gathered(t, reg)["ledger_recon_last_success_timestamp_seconds "] == 0 {
		t.Error("no last success")
	}
	if report, err := r.Run(w.ctx); err != nil || report.Verdict != Clean {
		t.Errorf("want a clean second run of the same reconciler, got %v and %s", err, dump(report))
	}
}

func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			label := ""
			if len(m.GetLabel()) > 0 {
				label = m.GetLabel()[0].GetValue()
			}
			values[family.GetName()+" "+label] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}
