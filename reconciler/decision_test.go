package reconciler

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

func TestOverspentMoneyIsSettledByTwoPeopleOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.tamper("a3", func(a *lua.Account) { a.Balance += 50_000 })
	w.submit(debit("a3", 20_000, "USD")) // 90.03 were there
	report := w.mustRun()
	if report.ByClass()[FloorBroken] != 1 || report.ByClass()[BalanceDiffers] != 1 || report.BreaksFound != 2 {
		t.Fatalf("want a balance to repair and an overspent account, got %s", dump(report))
	}
	report = w.mustRun() // Redis is repaired; the money is gone all the same
	b := report.Breaks[0]
	if report.BreaksFound != 1 || b.Class != FloorBroken || b.Severity != Critical || b.Amount.Int64() != 20_000-9003 {
		t.Fatalf("want 109.97 overspent, got %s", dump(report))
	}
	r, err := New(w.cfg, nil, nil)
	w.must(err)
	defer func() { _ = r.Close() }()
	if err := r.Approve(w.ctx, b.ID, "ben", ""); !errors.Is(err, ErrDecision) {
		t.Errorf("approved without a proposal: %v", err)
	}
	w.must(r.Propose(w.ctx, b.ID, Proposal{By: "anna", Note: "write it off"}))
	if err := r.Approve(w.ctx, b.ID, " Anna", ""); !errors.Is(err, ErrDecision) {
		t.Errorf("the proposer approved: %v", err)
	}
	w.must(r.Approve(w.ctx, b.ID, "ben", "agreed"))
	lines, err := r.Preview(w.ctx, b.Class, b.Unit, b.Amount)
	w.must(err)
	before, after := new(big.Int), new(big.Int)
	for _, line := range lines {
		before.Add(before, line.Before)
		after.Add(after, line.After)
	}
	if len(lines) != 3 || before.Sign() != 0 || after.Sign() != 0 {
		t.Errorf("a trial balance that adds up to %s and %s: %+v", before, after, lines)
	}
	report = w.mustRun()
	if c := report.Breaks[0].Compensation; c == nil || c.State != Applied || c.Operation != "adjust" || w.account("a3").Balance != 0 {
		t.Fatalf("want the adjustment booked, got %s", dump(report))
	}
	report = w.mustRun()
	if report.Verdict != Clean || report.SettledBefore != 1 || w.account("a3").Balance != 0 {
		t.Fatalf("want clean, with one settled break, got %s", dump(report))
	}
}

func TestCommandThatTookEffectTwiceIsReversed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	twice := func() *ledgerv1.Command {
		c := debit("a3", 100, "USD")
		c.CommandId = "twice"
		return c
	}
	w.submit(twice())
	w.must(w.rdb.HDel(w.ctx, lua.OutcomesKey(topics.ShardOf("a3", testShards)), lua.OutcomeField("twice")).Err())
	w.submit(twice())
	report := w.mustRun()
	if b := report.Breaks[0]; report.BreaksFound != 1 || b.Class != DuplicateEffect || b.Action != Reversal || b.Amount.Int64() != 100 {
		t.Fatalf("want a double effect of 1.00, got %s", dump(report))
	}
	r, err := New(w.cfg, nil, nil)
	w.must(err)
	defer func() { _ = r.Close() }()
	id := report.Breaks[0].ID
	w.must(r.Propose(w.ctx, id, Proposal{By: "anna"}))
	w.must(r.Approve(w.ctx, id, "ben", ""))
	w.mustRun()
	if report := w.mustRun(); report.Verdict != Clean || w.account("a3").Balance != 9003-100 {
		t.Fatalf("want clean and one effect, got %d and %s", w.account("a3").Balance, dump(report))
	}
}

func TestAcceptedBreakDoesNotCountUntilItExpires(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.setRecord("ghost", "5 1 USD/2")
	report := w.mustRun()
	r, err := New(w.cfg, nil, nil)
	w.must(err)
	defer func() { _ = r.Close() }()
	id := report.Breaks[0].ID
	for _, bad := range []error{
		r.Accept(w.ctx, id, "anna", " ", time.Now().Add(time.Hour)), r.Accept(w.ctx, id, "anna", "known", time.Now().Add(-time.Hour)),
		r.Accept(w.ctx, "no such break", "anna", "known", time.Now().Add(time.Hour)), r.Propose(w.ctx, id, Proposal{By: "anna"}),
	} {
		if !errors.Is(bad, ErrDecision) {
			t.Errorf("want no decision, got %v", bad)
		}
	}
	w.must(r.Accept(w.ctx, id, "anna", "known", time.Now().Add(time.Hour)))
	if report := w.mustRun(); report.Verdict != Clean || len(report.Breaks) != 1 || !strings.Contains(report.Breaks[0].Settled, "known") {
		t.Fatalf("want clean with an accepted break, got %s", dump(report))
	}
	w.setRecord("ghost", "6 1 USD/2") // other evidence is another break
	if report := w.mustRun(); report.BreaksFound != 1 || report.Breaks[0].ID == id {
		t.Fatalf("want a new break, got %s", dump(report))
	}
}

func TestIncrementalRunFindsWhatAFullOneFinds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	incremental := func(c *Config) { c.Incremental = true }
	if full := w.mustRun(); full.Verdict != Clean || full.EventsRead != full.Events {
		t.Fatalf("want clean, got %s", dump(full))
	}
	w.submit(credit("a1", 5, "USD"), open("later", "USD"), credit("later", 7, "USD"))
	if report := w.mustRun(incremental); report.Verdict != Clean || report.EventsRead != 3 || report.AccountsCompared != 21 {
		t.Fatalf("want clean, three events read and 21 accounts compared, got %s", dump(report))
	}
	w.tamper("a5", func(a *lua.Account) { a.Balance++ })
	w.tamper("later", func(a *lua.Account) { a.Balance-- })
	w.forget("a6")
	if report := w.mustRun(incremental); report.BreaksFound != 3 || report.Repairs() != 3 {
		t.Fatalf("want three breaks repaired, got %s", dump(report))
	}
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

func TestADayIsClosedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	r, err := New(w.cfg, nil, nil)
	w.must(err)
	defer func() { _ = r.Close() }()
	first, before, err := r.RunFor(w.ctx, "2026-11-29")
	w.must(err)
	again, repeated, err := r.RunFor(w.ctx, "2026-11-29")
	w.must(err)
	if before || !repeated || again.RunID != first.RunID || again.Verdict != Clean {
		t.Errorf("closed %s by %s (%t), then by %s (%t)", first.BusinessDate, first.RunID, before, again.RunID, repeated)
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	w.must(err)
	at := 3*time.Hour + 10*time.Minute
	for moment, want := range map[string]bool{"2026-03-29T00:59:00Z": false, "2026-03-29T01:10:00Z": true, "2026-10-25T01:59:00Z": false, "2026-10-25T02:10:00Z": true} {
		now, err := time.Parse(time.RFC3339, moment)
		w.must(err)
		if _, due := dueDate(now.In(zone), at); due != want {
			t.Errorf("%s in Berlin: due is %t", moment, due)
		}
	}
}

// A run of a clock that was a day ahead must not hide what comes after it, and the last word counts though the clock was set back.
func TestAClockThatIsSetBackHidesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.mustRun()
	w.must(w.rows.Exec(w.ctx, `INSERT INTO reconciliation_runs SELECT * REPLACE ('tomorrow' AS run_id, started_at + INTERVAL 1 DAY AS started_at,
		finished_at + INTERVAL 1 DAY AS finished_at) FROM reconciliation_runs FINAL`))
	id := w.overspend(100)
	w.has(w.say(0, "report"), id)
	w.say(0, "breaks", "propose", id, "--by", "anna")
	w.say(0, "breaks", "approve", id, "--by", "ben")
	w.must(w.rows.Exec(w.ctx, `INSERT INTO break_decisions (break_id, decision, decided_by, action, account, amount, unit, expires_at, at)
		SELECT break_id, decision, decided_by, action, account, amount, unit, now64(3) + INTERVAL 2 DAY, at + INTERVAL 1 DAY FROM break_decisions WHERE decision = 'approved'`))
	w.say(0, "breaks", "accept", id, "--by", "carl", "--note", "no: it stays as it is", "--until", time.Now().AddDate(0, 0, 3).Format(time.DateOnly))
	sent := w.commandsSent()
	if report := w.mustRun(); report.Verdict != Clean || w.commandsSent() != sent || report.Finished.Before(report.Started) {
		t.Fatalf("want the acceptance to count, got %s", dump(report))
	}
}
