package reconciler

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/lua"
)

// say runs the command line and wants an exit status; it returns what it printed, with its error.
func (w *world) say(status int, args ...string) string {
	w.t.Helper()
	var out bytes.Buffer
	environ := w.environ()
	if w.cfg.PolicyFile != "" {
		environ = append(environ, "RECONCILER_POLICY_FILE="+w.cfg.PolicyFile)
	}
	cmd := Command(environ)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(w.ctx)
	text := out.String()
	if err != nil {
		text += err.Error()
	}
	if got := run.ExitCode(err); got != status {
		w.t.Fatalf("reconciler %s: status %d, want %d:\n%s", strings.Join(args, " "), got, status, text)
	}
	return text
}

func (w *world) has(text string, words ...string) {
	w.t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.t.Fatalf("want %q in:\n%s", word, text)
		}
	}
}

var breakID = regexp.MustCompile(`[0-9a-f]{32}`)

// overspend spends money on a3 that it does not have, and repairs Redis, so that the overspending alone is left. It returns the break.
func (w *world) overspend(by int64) string {
	w.t.Helper()
	w.tamper("a3", func(a *lua.Account) { a.Balance += 50_000 })
	w.submit(debit("a3", w.account("a3").Balance-50_000+by, "USD"))
	w.say(ExitBreaks, "run")
	w.has(w.say(ExitBreaks, "run"), "FLOOR_BROKEN")
	return breakID.FindString(w.say(0, "breaks", "list"))
}

func TestTwoPeopleSettleABreakOnTheCommandLine(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	id := w.overspend(10_997)
	w.has(w.say(0, "breaks", "list"), id, "critical", "FLOOR_BROKEN", "a3", "109.97 USD", "adjustment", "open")
	w.has(w.say(0, "breaks", "show", id), "spent money that it did not have", "@adjustments", "-109.97", "controlled accounts")
	w.has(w.say(ExitUsage, "breaks", "approve", id, "--by", "ben"), "no open proposal")
	w.has(w.say(ExitUsage, "breaks", "propose", id), "who decides?")
	w.has(w.say(ExitUsage, "breaks", "propose", "0000", "--by", "anna"), "did not find break")
	w.has(w.say(ExitUsage, "breaks", "propose", id, "--by", "anna", "--amount", "1.234"), "--amount")
	w.has(w.say(0, "breaks", "propose", id, "--by", "anna", "--note", "write it off"), "proposed by anna", "write it off", "109.97")
	w.has(w.say(ExitUsage, "breaks", "approve", id, "--by", "ANNA "), "another person has to approve")
	w.has(w.say(0, "breaks", "reject", id, "--by", "ben", "--note", "half is enough"), "rejected by ben")
	w.has(w.say(ExitUsage, "breaks", "approve", id, "--by", "ben"), "no open proposal")
	w.has(w.say(0, "breaks", "propose", id, "--by", "ben", "--amount", "59.97"), "59.97")
	w.has(w.say(0, "breaks", "approve", id, "--by", "anna", "--note", "agreed"), "approved by anna", "-59.97")
	w.has(w.say(ExitBreaks, "run"), "1 BREAK FOUND: 1 repaired")
	w.has(w.say(0, "breaks", "list"), "adjust applied")
	if a := w.account("a3"); a.Balance != -5000 {
		t.Errorf("59.97 of 109.97 were booked, the balance is %d", a.Balance)
	}
	w.has(w.say(0, "run"), "CLEAN")
	w.has(w.say(0, "report"), "its adjustment is booked")
	if n := w.commandsSent(); n != 2 { // the repair of Redis, and the adjustment
		t.Errorf("%d commands", n)
	}
	var account, reference, counter string
	w.query("SELECT account, reference, counter_account FROM events WHERE operation = 'adjust'", &account, &reference, &counter)
	if account != "a3" || reference != id || counter != "@adjustments" {
		t.Errorf("booked on %s, with %s, as %s", account, counter, reference)
	}
}

func TestAnApprovalCountsForTheEvidenceItWasGivenOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	id := w.overspend(100)
	w.say(0, "breaks", "propose", id, "--by", "anna")
	w.say(0, "breaks", "approve", id, "--by", "ben")
	w.has(w.say(ExitBreaks, "run"), "1 repaired")

	// The same account again, further below: another break, that nobody approved.
	other := w.overspend(500)
	if other == id {
		t.Fatal("other evidence has the same id")
	}
	sent := w.commandsSent()
	w.has(w.say(ExitBreaks, "run"), "1 for a person to look at")
	if w.commandsSent() != sent {
		t.Error("something was booked that nobody approved")
	}
	w.has(w.say(ExitUsage, "breaks", "approve", other, "--by", "ben"), "no open proposal")
	// A proposal on evidence that is gone cannot be approved.
	w.say(0, "breaks", "propose", other, "--by", "anna")
	w.must(w.rows.Exec(w.ctx, "ALTER TABLE events UPDATE floor_after = -100000 WHERE account = 'a3' SETTINGS mutations_sync = 2"))
	w.policy("class: PROJECTION_MISMATCH, currency: \"*\", count: 100", "class: PROJECTION_MISMATCH, currency: \"XXX\", count: 1")
	w.say(ExitBreaks, "run")
	w.has(w.say(ExitUsage, "breaks", "approve", other, "--by", "ben"), "did not find break")
}

func TestProposalsApprovalsAndAcceptancesExpire(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	id := w.overspend(100)
	sent := w.commandsSent()
	w.policy("approval_expiry: 24h", "approval_expiry: 1ms")
	w.say(0, "breaks", "propose", id, "--by", "anna")
	w.has(w.say(ExitUsage, "breaks", "approve", id, "--by", "ben"), "expired at")
	w.must(w.rows.Exec(w.ctx, `INSERT INTO break_decisions (break_id, decision, decided_by, action, account, amount, unit, expires_at, at)
		VALUES ('`+id+`', 'approved', 'ben', 'adjustment', 'a3', '100', 'USD/2', now64(3) - INTERVAL 1 SECOND, now64(3))`))
	w.has(w.say(ExitBreaks, "run"), "1 for a person to look at")
	if w.commandsSent() != sent {
		t.Error("an approval that had expired was booked")
	}

	tomorrow := time.Now().AddDate(0, 0, 2).Format(time.DateOnly)
	w.has(w.say(ExitUsage, "breaks", "accept", id, "--by", "anna", "--until", tomorrow), "needs a note")
	w.has(w.say(ExitUsage, "breaks", "accept", id, "--by", "anna", "--note", "known", "--until", "2020-01-01"), "is over already")
	w.has(w.say(ExitUsage, "breaks", "accept", id, "--by", "anna", "--note", "known", "--until", "soon"), "--until")
	w.has(w.say(0, "breaks", "accept", id, "--by", "anna", "--note", "a known loss", "--until", tomorrow), "accepted by anna until "+tomorrow)
	w.has(w.say(0, "run"), "CLEAN", "accepted by anna", "a known loss")
	w.must(w.rows.Exec(w.ctx, `INSERT INTO break_decisions (break_id, decision, decided_by, note, expires_at, at)
		VALUES ('`+id+`', 'accepted', 'anna', 'until yesterday', now64(3) - INTERVAL 1 DAY, now64(3))`))
	w.has(w.say(ExitBreaks, "run"), "1 for a person to look at")
}

func TestAHoldThatIsOpenForTooLongIsReleasedByTwoPeople(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.policy("hold_age: 720h", "hold_age: 1ms")
	w.submit(holdOf("h1", "a3", 300))
	w.has(w.say(ExitBreaks, "run"), "HOLD_STALE")
	id := breakID.FindString(w.say(0, "breaks", "list"))
	w.say(0, "breaks", "propose", id, "--by", "anna")
	w.say(0, "breaks", "approve", id, "--by", "ben")
	w.has(w.say(ExitBreaks, "run"), "1 repaired")
	if report := w.mustRun(); report.Verdict != Clean || w.account("a3").Held != 0 {
		t.Errorf("want clean and nothing held, got %+v and %s", w.account("a3"), dump(report))
	}
}

func TestMoneyThatDidNotArriveIsPutBackByTwoPeople(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.policy("transit_age: 24h", "transit_age: 1ms")
	logFaults[4].plant(w)
	w.has(w.say(ExitBreaks, "run"), "TRANSIT_STALE")
	id := breakID.FindString(w.say(0, "breaks", "list"))
	w.has(w.say(0, "breaks", "show", id), "@transit")
	w.say(0, "breaks", "propose", id, "--by", "anna")
	w.say(0, "breaks", "approve", id, "--by", "ben")
	w.has(w.say(ExitBreaks, "run"), "1 repaired")
	w.has(w.say(0, "run"), "CLEAN")
	var left string
	w.query("SELECT toString(sum(amount_minor)) FROM "+w.cfg.ClickHouse.FinanceDatabase+".postings WHERE account = '@transit'", &left)
	if w.account("a3").Balance != 9003 || left != "0" {
		t.Errorf("the balance is %d, and %s are in transit", w.account("a3").Balance, left)
	}
}

func TestDeadLettersAreListedAndAttendedTo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.has(w.say(0, "deadletters"), "0 dead letters")
	w.has(w.say(0, "deadletters", "list"), "No dead letter")
	w.deadLetter("NOT_A_COMMAND")
	w.deadLetter("TOO_LARGE")
	w.has(w.say(0, "deadletters"), "2 dead letters nobody has attended to")
	w.has(w.say(0, "deadletters", "list"), "NOT_A_COMMAND", "TOO_LARGE", "ledger.commands/1 at 7", `{\"amount\":12.5}`, "the record is not a command")
	w.has(w.say(ExitBreaks, "run"), "DEAD_LETTERS_UNATTENDED")
	w.has(w.say(ExitUsage, "deadletters", "attend"), "who attended")
	w.say(0, "deadletters", "attend", "--by", "anna")
	w.has(w.say(0, "deadletters"), "0 dead letters")
	w.has(w.say(0, "run"), "CLEAN")
	w.deadLetter("NOT_A_COMMAND")
	w.has(w.say(0, "deadletters"), "1 dead letter nobody")
}

func TestAnAccountIsExplainedStepByStep(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.has(w.say(0, "explain", "a3"), "open", "100.03", "-10.00", "90.03", "debit INSUFFICIENT_FUNDS", "Redis and the log agree at sequence 3")
	w.has(w.say(0, "explain", "a3", "--most", "1"), "3 events before these", "Redis and the log agree")
	w.submit(holdOf("h1", "a3", 300))
	w.has(w.say(0, "explain", "a3"), "held 3.00", "hold")
	w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
	w.has(w.say(0, "explain", "a3"), "Redis has 5.00 more than the log")
	w.forget("a3")
	w.has(w.say(0, "explain", "a3"), "has no such account")
	w.has(w.say(0, "explain", "nobody"), "has no event of it")
}

func TestAPolicyIsCheckedAndTriedOnThePast(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	w.must(os.WriteFile(file, []byte(w.say(0, "policy", "show")), 0o600))
	w.cfg.PolicyFile = file
	w.has(w.say(0, "policy", "check"), "policy built-in-1 is well-formed", "SHA-256")
	w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
	w.forget("a4")
	w.say(ExitBreaks, "run")
	w.say(0, "run")
	w.has(w.say(0, "policy", "backtest"), "built-in-1", "│      2 │                 2 │")
	w.policy("version: built-in-1", "version: strict", "class: BALANCE_DIFFERS, currency: \"*\", count: 100", "class: BALANCE_DIFFERS, currency: USD, per_break: \"4.99\", count: 100")
	w.has(w.say(0, "policy", "backtest", "--last", "5"), "above the 4.99 per break of policy strict", "│      2 │                 0 │")
	for _, wrong := range []struct{ from, to, says string }{
		{"version: built-in-1", "version: \"\"", "version: is missing"}, {"class: REDIS_AHEAD", "class: CHAIN_BROKEN", "never repaired automatically"},
		{"count: 100", "count: 0", "a count above 0"}, {"approval_expiry: 24h", "approval_expire: 24h", "approval_expire"},
		{"currency: \"*\"", "currency: \"*\", per_run: \"5\"", "needs a currency of its own"}, {"transit_age: 24h", "transit_age: -1h", "transit_age"},
	} {
		w.policy(wrong.from, wrong.to)
		w.has(w.say(ExitUsage, "policy", "check"), wrong.says)
		w.has(w.say(ExitUsage, "run"), wrong.says)
	}
}
