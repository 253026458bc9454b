package reconciler

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// policy is the built-in policy with words replaced.
func (w *world) policy(pairs ...string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "policy.yaml")
	text := strings.NewReplacer(pairs...).Replace(string(builtInPolicy))
	if text == string(builtInPolicy) {
		w.t.Fatalf("the built-in policy has none of %q", pairs)
	}
	w.must(os.WriteFile(file, []byte(text), 0o600))
	w.cfg.PolicyFile = file
}

// forgeNext forges the next event that is published.
func (w *world) forgeNext(change func(*ledgerv1.Event)) {
	w.forge = func(e *ledgerv1.Event) { change(e); w.forge = nil }
}

// logFaults are breaks that the log itself shows: what was forged, lost or left lying. Each is found once, and nothing is settled by itself.
var logFaults = []struct {
	name   string
	plant  func(*world)
	class  Class
	action Action
	detail string
}{
	{"an event with another change than the chain says", func(w *world) {
		w.forgeNext(func(e *ledgerv1.Event) { e.Outcome.Delta = "-101" })
		w.submit(debit("a3", 100, "USD"))
		w.submit(credit("a3", 1, "USD"))
	}, ChainBroken, Stop, "position"},
	{"an event whose command asked for less", func(w *world) {
		w.forgeNext(func(e *ledgerv1.Event) { e.Command = proto.CloneOf(e.GetCommand()); e.Command.Amount = "50" })
		w.submit(debit("a3", 100, "USD"))
	}, EventContradictsCommand, Stop, "should move -50 minor units"},
	{"an event for a command that asked for the opposite", func(w *world) {
		w.forgeNext(func(e *ledgerv1.Event) {
			e.Command = proto.CloneOf(e.GetCommand())
			e.Command.Operation = ledgerv1.Operation_OPERATION_CREDIT
		})
		w.submit(debit("a3", 100, "USD"))
	}, EventContradictsCommand, Stop, "should move 100 minor units"},
	{"a view that hides one side of the postings", func(w *world) {
		w.must(w.rows.Exec(w.ctx, "RENAME TABLE "+w.cfg.ClickHouse.FinanceDatabase+".postings TO "+w.cfg.ClickHouse.FinanceDatabase+".all_postings"))
		w.must(w.rows.Exec(w.ctx, "CREATE VIEW "+w.cfg.ClickHouse.FinanceDatabase+".postings AS SELECT * FROM "+w.cfg.ClickHouse.FinanceDatabase+
			".all_postings WHERE NOT (account = '@world' AND counter_account = 'a5')"))
	}, PostingsNotZero, Stop, "in USD add up to 9005 minor units"},
	{"money that left and did not arrive", func(w *world) {
		w.policy("transit_age: 24h", "transit_age: 1ms")
		w.submit(&ledgerv1.Command{CommandId: "t1", Operation: ledgerv1.Operation_OPERATION_TRANSFER, Account: "a3", CounterAccount: "a4", Amount: "200", Currency: "USD"})
	}, TransitStale, Adjustment, `of transfer "t1"`},
	{"a dead letter", func(w *world) { w.deadLetter("NOT_A_COMMAND") }, DeadLettersUnattended, Stop, "1 record"},
	{"a hold without an end", func(w *world) {
		w.policy("hold_age: 720h", "hold_age: 1ms")
		w.submit(holdOf("h1", "a3", 300))
	}, HoldStale, Release, `hold "h1"`},
	{"a hold that should have ended", func(w *world) {
		w.policy("hold_overdue: 1h", "hold_overdue: 1ns")
		c := holdOf("h1", "a3", 300)
		c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(time.Now().Add(300 * time.Millisecond))}
		w.submit(c)
		for time.Now().Before(c.GetHold().GetExpiresAt().AsTime()) { // the ledger-writer, which would release it, does not run
			w.submit(credit("a4", 1, "USD"))
		}
	}, HoldStale, Release, "should have ended"},
	{"a hold lost in Redis", func(w *world) {
		w.submit(holdOf("h1", "a3", 300))
		w.must(w.rdb.HDel(w.ctx, lua.HoldsKey(topics.ShardOf("a3", testShards)), "h1").Err())
	}, HoldDiffers, Stop, "Redis has nothing of it"},
	{"a hold changed in Redis", func(w *world) {
		w.submit(holdOf("h1", "a3", 300))
		w.must(w.rdb.HSet(w.ctx, lua.HoldsKey(topics.ShardOf("a3", testShards)), "h1", "299\t-\t\ta3").Err())
	}, HoldDiffers, Stop, "Redis has 2.99 of it"},
	{"a hold invented in Redis", func(w *world) {
		w.must(w.rdb.HSet(w.ctx, lua.HoldsKey(topics.ShardOf("a3", testShards)), "h9", "299\t-\t\ta3").Err())
	}, HoldDiffers, Stop, "by the log it is nothing"},
	{"a hold garbled in Redis", func(w *world) {
		w.submit(holdOf("h1", "a3", 300))
		w.must(w.rdb.HSet(w.ctx, lua.HoldsKey(topics.ShardOf("a3", testShards)), "h1", "much").Err())
	}, HoldDiffers, Stop, "cannot be read"},
	{"a hold's end moved in Redis", func(w *world) {
		w.submit(holdOf("h1", "a3", 300))
		w.must(w.rdb.HSet(w.ctx, lua.HoldsKey(topics.ShardOf("a3", testShards)), "h1", "300\t4102444800000\t\ta3").Err())
	}, HoldDiffers, Stop, `hold "h1"`},
}

func holdOf(id, account string, amount int64) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: id, Operation: ledgerv1.Operation_OPERATION_HOLD, Account: account, Amount: fmt.Sprint(amount), Currency: "USD"}
}

func (w *world) deadLetter(cause string) {
	w.t.Helper()
	value, err := proto.Marshal(&ledgerv1.DeadLetter{Topic: topics.Commands, Partition: 1, Offset: 7, Key: []byte("k"), Value: []byte(`{"amount":12.5}`), Cause: cause, Detail: "the record is not a command"})
	w.must(err)
	w.must(w.kafka.ProduceSync(w.ctx, &kgo.Record{Topic: topics.DeadLetters, Partition: 1, Value: value}).FirstErr())
}

func TestEachFaultOfTheLogIsFoundOnceAndLeftToPeople(t *testing.T) {
	t.Parallel()
	for _, fault := range logFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.smallLedger()
			fault.plant(w)
			report := w.mustRun()
			if len(report.Breaks) != 1 || report.BreaksFound != 1 {
				t.Fatalf("want one break, got %s", dump(report))
			}
			b := report.Breaks[0]
			if b.Class != fault.class || b.Action != fault.action || !strings.Contains(b.Detail, fault.detail) || b.Compensation != nil || w.commandsSent() != 0 {
				t.Fatalf("want %s, %s, %q; got %s", fault.class, fault.action, fault.detail, dump(report))
			}
			if again := w.mustRun(); len(again.Breaks) != 1 || again.Breaks[0].ID != b.ID {
				t.Fatalf("want the same break again, got %s", dump(again))
			}
			w.checkEvidence(report)
		})
	}
}

// The projector halts at such an event, so ClickHouse never gets there: the run cannot tell, and says at what.
func TestAnEventThatNoRowCanBeMadeOfStopsEverythingAndIsNamed(t *testing.T) {
	t.Parallel()
	for _, date := range []string{"", "2026-02-30"} {
		w := setup(t)
		w.smallLedger()
		w.serve()
		w.stopProjector()
		w.submit(credit("a4", 1, "USD"))
		w.forgeNext(func(e *ledgerv1.Event) { e.Outcome.BusinessDate = date })
		w.submit(debit("a3", 100, "USD"))
		w.submit(credit("a3", 1, "USD"))
		w.tamper("a5", func(a *lua.Account) { a.Balance++ })
		first, err := w.run(func(c *Config) { c.BarrierTimeout = 300 * time.Millisecond })
		if err == nil || first.Verdict != CouldNotTell || !strings.Contains(first.Why, "the log is broken: no row can be made of the event at position") || !strings.Contains(first.Why, "business date") {
			t.Fatalf("want could not tell, and why, got %s", dump(first))
		}
		if b := first.Breaks; len(b) != 1 || b[0].Class != EventUnreadable || b[0].Account != "a3" || b[0].Action != Stop || w.commandsSent() != 0 {
			t.Fatalf("want one %s and no command, got %s", EventUnreadable, dump(first))
		}
		if again, _ := w.run(func(c *Config) { c.BarrierTimeout = 300 * time.Millisecond }); len(again.Breaks) != 1 || again.Breaks[0].ID != first.Breaks[0].ID {
			t.Fatalf("want the same break again, got %s", dump(again))
		}
	}
}

func TestAProjectorThatWasLateAndCaughtUpIsNoted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.policy("projection_lag: 1m", "projection_lag: 1ns")
	w.stopProjector()
	w.submit(credit("a3", 5, "USD"))
	read := make(chan struct{})
	go func() { // ends with the run's reading of Redis, which comes after it saw how late ClickHouse is
		defer close(read)
		for accounts := uint64(0); accounts == 0 && w.ctx.Err() == nil; {
			_ = w.rows.QueryRow(w.ctx, "SELECT count() FROM account_snapshots WHERE account = 'a3'").Scan(&accounts)
		}
		w.startProjector()
	}()
	report := w.mustRun()
	<-read
	if b := report.Breaks; len(b) != 1 || b[0].Class != ProjectionLag || b[0].Action != Wait || b[0].open() || b[0].Severity != Info {
		t.Fatalf("want a note that ClickHouse was late, got %s", dump(report))
	}
}

// everyCommand uses the whole command set on a few accounts; the rest of a transfer is what a ledger-writer derives.
func everyCommand() []*ledgerv1.Command {
	amount := func(op ledgerv1.Operation, account string, n int64) *ledgerv1.Command {
		return &ledgerv1.Command{Operation: op, Account: account, Amount: fmt.Sprint(n), Currency: "USD"}
	}
	floor, ceiling := "-500", "900000"
	transfer := amount(ledgerv1.Operation_OPERATION_TRANSFER, "a1", 70)
	transfer.CommandId, transfer.CounterAccount = "t1", "a2"
	arrived := amount(ledgerv1.Operation_OPERATION_CREDIT, "a2", 70)
	arrived.CommandId, arrived.CounterAccount, arrived.Origin = limits.CreditID("t1"), limits.Transit, &ledgerv1.Origin{CommandId: "t1", Account: "a1"}
	split := amount(ledgerv1.Operation_OPERATION_DEBIT, "a3", 90)
	split.CommandId, split.Legs = "split", []*ledgerv1.Leg{{CounterAccount: "@fees", Amount: "40"}, {CounterAccount: "@tax", Amount: "50"}}
	adjusted := amount(ledgerv1.Operation_OPERATION_ADJUST, "a9", -20_000)
	return []*ledgerv1.Command{
		holdOf("h1", "a3", 300), holdOf("h2", "a3", 200), {Operation: ledgerv1.Operation_OPERATION_CAPTURE, Account: "a3", HoldId: "h1", Amount: "100"},
		{Operation: ledgerv1.Operation_OPERATION_RELEASE, Account: "a3", HoldId: "h2"}, holdOf("h3", "a4", 150),
		{Operation: ledgerv1.Operation_OPERATION_CAPTURE, Account: "a4", HoldId: "h3"}, transfer, arrived, split,
		{Operation: ledgerv1.Operation_OPERATION_REVERSE, Account: "a3", Reverse: &ledgerv1.ReverseTerms{CommandId: "split"}},
		{Operation: ledgerv1.Operation_OPERATION_SET_LIMITS, Account: "a5", Limits: &ledgerv1.LimitTerms{Floor: &floor, Ceiling: &ceiling}},
		{Operation: ledgerv1.Operation_OPERATION_FREEZE, Account: "a6", Direction: ledgerv1.Direction_DIRECTION_DEBIT},
		{Operation: ledgerv1.Operation_OPERATION_FREEZE, Account: "a6", Direction: ledgerv1.Direction_DIRECTION_CREDIT},
		{Operation: ledgerv1.Operation_OPERATION_UNFREEZE, Account: "a6", Direction: ledgerv1.Direction_DIRECTION_DEBIT},
		debit("a7", 9007, "USD"), {Operation: ledgerv1.Operation_OPERATION_CLOSE, Account: "a7"}, adjusted, debit("a9", 5, "USD"),
	}
}

func TestEveryCommandIsUnderstood(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	incremental := func(c *Config) { c.Incremental = true }
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
	for id, outcome := range w.submit(everyCommand()...) {
		if outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED && outcome.GetAccount() != "a9" {
			t.Fatalf("%s: %v", id, outcome)
		}
	}
	if report := w.mustRun(incremental); report.Verdict != Clean {
		t.Fatalf("want clean from a checkpoint, got %s", dump(report))
	}
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
	w.submit(credit("a3", 1, "USD"), holdOf("h4", "a3", 10))
	if report := w.mustRun(incremental); report.Verdict != Clean {
		t.Fatalf("want clean with a hold older than the checkpoint, got %s", dump(report))
	}

	// What commands have changed is what a repair restores.
	w.tamper("a3", func(a *lua.Account) { a.Held += 9; a.Balance -= 4 })
	w.tamper("a5", func(a *lua.Account) { a.Floor, a.Ceiling = -700, "" })
	w.tamper("a6", func(a *lua.Account) { a.Status = "active" })
	w.forget("a4")
	w.forget("a7")
	report := w.mustRun(incremental)
	if want := map[Class]int{BalanceDiffers: 1, TermsDiffer: 2, AccountMissingInRedis: 2}; fmt.Sprint(report.ByClass()) != fmt.Sprint(want) || report.Repairs() != 5 {
		t.Fatalf("want %v, repaired, got %s", want, dump(report))
	}
	if report := w.mustRun(); report.Verdict != Clean || w.account("a6").Status != "frozen_credit" || w.account("a5").Ceiling != "900000" || w.account("a7").Status != "closed" {
		t.Fatalf("want clean, got %+v, %+v, %+v and %s", w.account("a5"), w.account("a6"), w.account("a7"), dump(report))
	}
}

// Terms that change between two runs must not make two repairs of one wrong balance.
func TestACorrectionOfAnAmountDoesNotHangOnTheTerms(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
	dry := func(c *Config) { c.DryRun = true }
	first := w.mustRun(dry).Breaks[0]
	floor := "-100"
	w.submit(&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_SET_LIMITS, Account: "a3", Limits: &ledgerv1.LimitTerms{Floor: &floor}},
		&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_FREEZE, Account: "a3", Direction: ledgerv1.Direction_DIRECTION_BOTH})
	second := w.mustRun(dry).Breaks[0]
	if first.ID != second.ID || lua.FingerprintOf(first.Compensation.command) != lua.FingerprintOf(second.Compensation.command) {
		t.Errorf("want one repair, got %v and %v", first.Compensation.command, second.Compensation.command)
	}
	// Terms first, then amounts, where both are wrong.
	w.serve()
	w.tamper("a3", func(a *lua.Account) { a.Status = "active" })
	for _, class := range []Class{TermsDiffer, BalanceDiffers} {
		if report := w.mustRun(); report.ByClass()[class] != 1 || report.BreaksFound != 1 || report.Repairs() != 1 {
			t.Fatalf("want one %s, got %s", class, dump(report))
		}
	}
	if report := w.mustRun(); report.Verdict != Clean || w.account("a3").Balance != 9003 {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

// The theoretical side can be the wrong one: what was never projected is written again, and no money moves for it.
func TestEventsThatWereNotProjectedMoveNoMoney(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	for range 20 {
		w.submit(credit("a3", 10, "USD"))
	}
	w.alter("ALTER TABLE events DELETE WHERE account = 'a3' AND sequence BETWEEN 6 AND 15")
	report := w.mustRun()
	if b := report.Breaks; len(b) != 1 || b[0].Class != ProjectionMissing || b[0].To-b[0].From != 9 || b[0].Compensation.State != Applied || w.commandsSent() != 0 {
		t.Fatalf("want ten positions written again and no command, got %s", dump(report))
	}
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
	// Of the last ones no gap is left: Redis and Kafka know that they are missing.
	w.alter("ALTER TABLE events DELETE WHERE account = 'a3' AND sequence > 13")
	report, err := w.run(func(c *Config) { c.BarrierTimeout = 300 * time.Millisecond })
	if err == nil || report.Verdict != CouldNotTell || w.commandsSent() != 0 || !strings.Contains(report.Why, "is the projector running?") {
		t.Fatalf("want could not tell, got %s", dump(report))
	}
}
