package reconciler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// mixedTraffic opens accounts and moves money on old and new ones, with rejections among it.
func mixedTraffic(i int) []*ledgerv1.Command {
	fresh := fmt.Sprintf("new%d", i)
	commands := append(make([]*ledgerv1.Command, 0, 82), open(fresh, "USD"), credit(fresh, 500, "USD"))
	for range 40 {
		account := fmt.Sprintf("a%d", rand.IntN(20))
		commands = append(commands, credit(account, 1+rand.Int64N(100), "USD"), debit(account, 1+rand.Int64N(100), "USD"))
	}
	return commands
}

func TestTrafficDuringTheRunIsNoBreak(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	many := make([]*ledgerv1.Command, 0, 3000) // more than a page, so that pages are read at different positions
	for i := range 3000 {
		many = append(many, open(fmt.Sprintf("old%d", i), "USD"))
	}
	w.submit(many...)
	stop := w.traffic(mixedTraffic)
	for range 3 {
		report := w.mustRun(func(c *Config) { c.PageSize = 10 })
		if report.Verdict != Clean || report.AccountsCompared < 3020 {
			t.Fatalf("want clean, got %s", dump(report))
		}
	}
	stop()
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

func TestRecoveryDuringTheRunIsNoBreak(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	stop := w.traffic(func(i int) []*ledgerv1.Command {
		if i%5 == 4 {
			w.rebuild(rand.IntN(testShards), fmt.Sprintf("g%d", i))
		}
		return mixedTraffic(i)
	})
	for range 5 {
		// Shards change hands while they are read. Such a reading is given up; what is never said is that something differs.
		if report, err := w.run(func(c *Config) { c.PageSize = 5 }); err == nil && report.Verdict != Clean {
			t.Fatalf("want clean or could not tell, got %s", dump(report))
		}
	}
	stop()
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

func TestReadingIsGivenUpWhenTheShardChangesHands(t *testing.T) {
	t.Parallel()
	at := func(position uint64, generation string) lua.ShardHead {
		return lua.ShardHead{Head: lua.Head{Position: position, Chain: fmt.Sprint(position)}, Generation: generation}
	}
	for _, next := range []struct {
		name    string
		head    lua.ShardHead
		givenUp bool
	}{
		{"another generation", at(8, "g2"), true},
		{"another generation at the same head", at(7, "g2"), true},
		{"back", at(6, "g1"), true},
		{"the same", at(7, "g1"), false},
		{"forward", at(9, "g1"), false},
	} {
		s := &scan{generation: "g1", end: at(7, "g1").Head}
		if err := s.moveTo(next.head); errors.Is(err, errChanged) != next.givenUp {
			t.Errorf("%s: given up is %v, want %v", next.name, err, next.givenUp)
		}
	}
}

func TestLaggingProjectorIsNoBreak(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.stopProjector()
	w.submit(mixedTraffic(0)...)
	report, err := w.run(func(c *Config) { c.BarrierTimeout = 1 })
	if err == nil || report.Verdict != CouldNotTell || report.BreaksFound != 0 {
		t.Fatalf("want could not tell, got %s", dump(report))
	}
	w.checkEvidence(report)

	var wg sync.WaitGroup
	wg.Go(w.startProjector)
	report = w.mustRun()
	wg.Wait()
	if report.Verdict != Clean {
		t.Fatalf("want clean once the projector has caught up, got %s", dump(report))
	}
}

func TestHotAccountIsRepairedOnceWhileTrafficGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	hot := func(int) []*ledgerv1.Command {
		commands := make([]*ledgerv1.Command, 0, 100)
		for range 50 {
			commands = append(commands, credit("a3", 1+rand.Int64N(100), "USD"), debit("a3", 1+rand.Int64N(50), "USD"))
		}
		return commands
	}
	stop := w.traffic(hot)
	w.tamper("a3", func(a *lua.Account) { a.Balance += 77_700 })

	// Several reconcilers see the account at different sequences; together they repair it once.
	const reconcilers = 3
	var wg sync.WaitGroup
	reports := make([]*Report, reconcilers)
	for i := range reports {
		wg.Go(func() {
			var err error
			if reports[i], err = w.run(); err != nil {
				t.Error(err)
			}
		})
		for w.commandsSent() <= i && !t.Failed() { // each reads before any repair is applied
			if w.ctx.Err() != nil {
				t.Fatal("a reconciler issued no repair")
			}
		}
		w.submit(hot(0)...) // the next one sees another sequence
	}
	w.serve()
	wg.Wait()
	stop()
	var id string
	for _, report := range reports {
		for _, b := range report.Breaks {
			if b.Compensation == nil || b.Compensation.State != Applied || (id != "" && b.Compensation.CommandID != id) {
				t.Errorf("want the one repair %s, applied, got %s", id, dump(report))
				continue
			}
			id = b.Compensation.CommandID
		}
	}
	var repairs uint64
	var balance int64
	w.query("SELECT countIf(operation = 'repair'), sum(delta) FROM events WHERE account = 'a3'", &repairs, &balance)
	if a := w.account("a3"); id == "" || repairs != 1 || a.Balance != balance {
		t.Errorf("want one repair and the balance %d, got %d repairs and %+v", balance, repairs, a)
	}
	if report := w.mustRun(); report.Verdict != Clean {
		t.Errorf("want clean, got %s", dump(report))
	}
}

func TestTwoRunsThatSeeOneFaultIssueOneCommand(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
	w.forget("a4")
	w.tamper("a5", func(a *lua.Account) { a.Sequence, a.Balance = 2, 10_005 })
	w.tamper("a6", func(a *lua.Account) { a.Sequence, a.Balance = 5, 1 })
	dry := func(c *Config) { c.DryRun = true }
	first := w.mustRun(dry)
	w.submit(credit("a3", 25, "USD"), debit("a3", 10_000_000, "USD"), debit("a3", 1, "USD")) // the next run sees it at another sequence
	second := w.mustRun(dry)
	if len(first.Breaks) != 4 || len(second.Breaks) != 4 || first.RunID == second.RunID {
		t.Fatalf("want four breaks twice, got %s and %s", dump(first), dump(second))
	}
	for i, b := range first.Breaks {
		c, d := b.Compensation, second.Breaks[i].Compensation
		if c.CommandID != d.CommandID || lua.FingerprintOf(c.command) != lua.FingerprintOf(d.command) || b.ID != second.Breaks[i].ID {
			t.Errorf("want one id and one payload, got %v and %v", c.command, d.command)
		}
	}
	if n := w.commandsSent(); n != 0 || first.Repairs() != 0 {
		t.Errorf("a dry run sent %d commands", n)
	}
}

func TestSameFaultAgainIsRepairedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	ids := map[string]bool{}
	for range 3 {
		w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
		w.forget("a4")
		report := w.mustRun()
		for _, b := range report.Breaks {
			if b.Compensation == nil || b.Compensation.State != Applied || ids[b.Compensation.CommandID] {
				t.Fatalf("want a new repair, applied, got %s", dump(report))
			}
			ids[b.Compensation.CommandID] = true
		}
	}
	if report := w.mustRun(); report.Verdict != Clean || len(ids) != 6 {
		t.Fatalf("want six repairs and clean, got %d and %s", len(ids), dump(report))
	}
}

func TestRejectedRepairIsFollowedByOneWithAnotherID(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	ahead := func(a *lua.Account) { a.Sequence, a.Balance = 5, 1 }
	w.tamper("a6", ahead)
	planned := w.mustRun(func(c *Config) { c.DryRun = true }).Breaks[0].Compensation
	w.tamper("a6", func(a *lua.Account) { a.Balance = 2 }) // not what was seen any more
	if outcome := w.submit(planned.command)[planned.CommandID]; outcome.GetReason() != ledgerv1.Reason_REASON_SEQUENCE_MISMATCH {
		t.Fatalf("want SEQUENCE_MISMATCH, got %v", outcome)
	}
	w.tamper("a6", ahead)
	w.serve()
	report := w.mustRun()
	if c := report.Breaks[0].Compensation; c == nil || c.State != Applied || c.CommandID != planned.CommandID+":2" {
		t.Fatalf("want %s:2 applied, got %s", planned.CommandID, dump(report))
	}
}
