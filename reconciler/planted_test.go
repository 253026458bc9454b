package reconciler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func countRecords(w *world, client *kgo.Client) int {
	w.t.Helper()
	ends, err := kadm.NewClient(client).ListEndOffsets(w.ctx, topics.Commands)
	w.must(err)
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return n
}

// smallLedger opens accounts in all shards and moves money: "a0" to "a19", three applied events each and a rejection.
func (w *world) smallLedger() {
	w.t.Helper()
	commands := make([]*ledgerv1.Command, 0, 80)
	for i := range 20 {
		account := fmt.Sprintf("a%d", i)
		commands = append(commands, open(account, "USD"), credit(account, 10_000+int64(i), "USD"), debit(account, 1000, "USD"), debit(account, 1_000_000, "USD"))
	}
	w.submit(commands...)
}

// shardMate is another account of the same shard.
func shardMate(account string) string {
	for i := range 20 {
		mate := fmt.Sprintf("a%d", i)
		if mate != account && topics.ShardOf(mate, testShards) == topics.ShardOf(account, testShards) {
			return mate
		}
	}
	return ""
}

// plantedFaults are one fault each, in the ledger of smallLedger.
var plantedFaults = []struct {
	name    string
	plant   func(*world)
	class   Class
	account string
	action  Action
	healed  bool // by the repair, so that the next run is clean
}{
	{"balance changed in Redis", func(w *world) { w.tamper("a3", func(a *lua.Account) { a.Balance += 500 }) }, BalanceDiffers, "a3", Repair, true},
	{"hold invented in Redis", func(w *world) { w.tamper("a3", func(a *lua.Account) { a.Held = 7 }) }, BalanceDiffers, "a3", Repair, true},
	{"floor lowered in Redis", func(w *world) { w.tamper("a3", func(a *lua.Account) { a.Floor = -100_000 }) }, TermsDiffer, "a3", Repair, true},
	{"unit changed in Redis", func(w *world) { w.tamper("a3", func(a *lua.Account) { a.Unit = "EUR/2" }) }, TermsDiffer, "a3", Repair, true},
	{"account deleted in Redis", func(w *world) { w.forget("a4") }, AccountMissingInRedis, "a4", Repair, true},
	{"account set back in Redis", func(w *world) {
		w.tamper("a5", func(a *lua.Account) { a.Sequence, a.Balance = 2, 10_005 })
	}, RedisBehind, "a5", Repair, true},
	{"account ahead in Redis", func(w *world) {
		w.tamper("a6", func(a *lua.Account) { a.Sequence, a.Balance = 5, 1 })
	}, RedisAhead, "a6", Repair, true},
	{"account invented in Redis", func(w *world) { w.setRecord("ghost", "5 1 USD/2") }, AccountUnknownToLog, "ghost", Stop, false},
	{"account in a foreign shard", func(w *world) {
		shard := (topics.ShardOf("a1", testShards) + 1) % testShards
		w.must(w.rdb.HSet(w.ctx, lua.AccountsKey(shard), "a1", "5 1 USD/2").Err())
	}, AccountUnknownToLog, "a1", Stop, false},
	{"record garbled in Redis", func(w *world) { w.setRecord("a7", "12,5 3 USD/2") }, AccountUnreadable, "a7", Stop, false},
	{"status nobody knows", func(w *world) { w.tamper("a7", func(a *lua.Account) { a.Status = "blessed" }) }, AccountUnreadable, "a7", Stop, false},
	{"event lost, in the middle of an account", func(w *world) { w.alter("ALTER TABLE events DELETE WHERE account = 'a8' AND sequence = 2") }, ProjectionMissing, "", Repair, true},
	{"event lost, the last of an account", func(w *world) { w.alter("ALTER TABLE events DELETE WHERE account = 'a8' AND sequence = 3") }, ProjectionMissing, "", Repair, true},
	{"event lost, a rejection", func(w *world) { w.alter("ALTER TABLE events DELETE WHERE account = 'a8' AND status = 'rejected'") }, ProjectionMissing, "", Repair, true},
	{"all events of an account lost", func(w *world) {
		w.alter("ALTER TABLE events DELETE WHERE account = 'a8'")
	}, ProjectionMissing, "", Repair, true},
	{"event there twice", func(w *world) {
		w.must(w.rows.Exec(w.ctx, "INSERT INTO events SELECT * FROM events WHERE account = 'a9' AND sequence = 2"))
	}, ProjectionDuplicate, "", Repair, true},
	{"two events at one position", func(w *world) {
		w.must(w.rows.Exec(w.ctx, "INSERT INTO events SELECT * REPLACE (delta + 1 AS delta) FROM (SELECT * FROM events WHERE account = 'a9' AND sequence = 2)"))
	}, ProjectionDuplicate, "", Repair, true},
	{"events of two accounts at one position", func(w *world) {
		w.must(w.rows.Exec(w.ctx, fmt.Sprintf("INSERT INTO events SELECT * REPLACE ('%s' AS account, 4 AS sequence) FROM (SELECT * FROM events WHERE account = 'a9' AND sequence = 2)", shardMate("a9"))))
	}, ProjectionDuplicate, "", Repair, true},
	{"one sequence at two positions", func(w *world) {
		// The ledger-writer met a record that was set back and used sequence 3 again.
		w.tamper("a10", func(a *lua.Account) { a.Sequence = 2 })
		w.submit(credit("a10", 1, "USD"))
	}, LogDuplicate, "a10", Stop, false},
	{"sequence jumped", func(w *world) {
		w.tamper("a10", func(a *lua.Account) { a.Sequence = 10 })
		w.submit(credit("a10", 1, "USD"))
	}, LogGap, "a10", Stop, false},
}

func TestEachPlantedFaultIsFoundOnceAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, fault := range plantedFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.smallLedger()
			w.serve()
			fault.plant(w)
			report := w.mustRun()
			if report.Verdict != Breaks || report.BreaksFound != 1 || len(report.Breaks) != 1 {
				t.Fatalf("want one break, got %s", dump(report))
			}
			b := report.Breaks[0]
			if b.Class != fault.class || b.Account != fault.account || b.Action != fault.action {
				t.Fatalf("want %s of %q, %s; got %s", fault.class, fault.account, fault.action, dump(report))
			}
			if fault.action == Repair && (b.Compensation == nil || b.Compensation.State != Applied) {
				t.Fatalf("want an applied repair, got %s", dump(report))
			}
			if fault.action == Stop && (b.Compensation != nil || w.commandsSent() != 0) {
				t.Fatalf("want no repair, got %s", dump(report))
			}
			after := w.mustRun()
			if fault.healed && after.Verdict != Clean {
				t.Fatalf("want a clean second run, got %s", dump(after))
			}
			if !fault.healed && (after.BreaksFound != 1 || after.Breaks[0].ID != b.ID) {
				t.Fatalf("want the same break again, with the id %s; got %s", b.ID, dump(after))
			}
			w.checkEvidence(report)
			w.checkEvidence(after)
		})
	}
}

// checkEvidence compares the rows in ClickHouse with the report.
func (w *world) checkEvidence(report *Report) {
	w.t.Helper()
	var verdict string
	var found, breaks, compensations, settled uint64
	w.query("SELECT toString(verdict), breaks FROM reconciliation_runs FINAL WHERE run_id = '"+report.RunID+"'", &verdict, &found)
	w.query("SELECT count() FROM breaks FINAL WHERE run_id = '"+report.RunID+"'", &breaks)
	w.query("SELECT count(), countIf(state = 'applied') FROM compensations FINAL WHERE run_id = '"+report.RunID+"'", &compensations, &settled)
	if verdict != string(report.Verdict) || found != report.BreaksFound || breaks != uint64(len(report.Breaks)) || int(compensations) != report.Repairs() {
		w.t.Errorf("evidence says %s, %d breaks, %d rows, %d compensations; the run says %s", verdict, found, breaks, compensations, dump(report))
	}
	if n := slices.IndexFunc(report.Breaks, func(b *Break) bool { return b.Compensation != nil && b.Compensation.State == Applied }); n >= 0 && settled == 0 {
		w.t.Error("the applied repair is not in the evidence")
	}
}

func TestEverythingPlantedAtOnceIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.tamper("a3", func(a *lua.Account) { a.Balance -= 500 })
	w.forget("a4")
	w.tamper("a5", func(a *lua.Account) { a.Sequence, a.Balance = 2, 10_005 })
	w.tamper("a6", func(a *lua.Account) { a.Sequence, a.Balance = 5, 1 })
	w.setRecord("ghost", "5 1 USD/2")
	report := w.mustRun()
	want := map[Class]int{BalanceDiffers: 1, AccountMissingInRedis: 1, RedisBehind: 1, RedisAhead: 1, AccountUnknownToLog: 1}
	if got := report.ByClass(); fmt.Sprint(got) != fmt.Sprint(want) || report.Repairs() != 4 {
		t.Fatalf("want %v and 4 repairs, got %s", want, dump(report))
	}
	for account, balance := range map[string]int64{"a3": 9003, "a4": 9004, "a5": 9005, "a6": 9006} {
		if a := w.account(account); a.Balance != balance || a.Sequence != 4 {
			t.Errorf("%s: want %d at sequence 4, got %+v", account, balance, a)
		}
	}
}

func TestSkewedRandomLedgerIsClean(t *testing.T) {
	t.Parallel()
	const accounts, movements = 20_000, 40_000
	w := setup(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	units := []string{"USD", "JPY", "POINTS/0", "BHD"}
	var commands []*ledgerv1.Command
	for i := range accounts {
		commands = append(commands, open(fmt.Sprintf("account {%d} é", i), units[i%len(units)]))
	}
	for range movements {
		i := int(float64(accounts) * random.Float64() * random.Float64() * random.Float64() * random.Float64())
		account, unit := fmt.Sprintf("account {%d} é", i), units[i%len(units)]
		if random.IntN(3) == 0 {
			commands = append(commands, debit(account, 1+random.Int64N(1000), unit))
		} else {
			commands = append(commands, credit(account, 1+random.Int64N(1_000_000), unit))
		}
	}
	w.submit(commands...)
	report := w.mustRun()
	if report.Verdict != Clean || report.AccountsCompared != accounts || report.AccountsRedis != accounts || report.AccountsLog != accounts ||
		report.Events != accounts+movements || len(report.Totals) != len(units) {
		t.Fatalf("want %d accounts, clean, got %s", accounts, dump(report))
	}
	for _, total := range report.Totals {
		if total.Redis.Cmp(total.Log) != 0 || total.Redis.Sign() <= 0 {
			t.Errorf("control total of %s: %s in Redis, %s in the log", total.Unit, total.Redis, total.Log)
		}
	}
	w.checkEvidence(report)
}

func dump(report *Report) string {
	var text writer
	_ = report.WriteJSON(&text)
	return string(text)
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }
