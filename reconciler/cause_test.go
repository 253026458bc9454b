package reconciler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// crowd opens accounts in one shard, with 100.00 each, and returns their names.
func (w *world) crowd(n int) []string {
	w.t.Helper()
	const shard = 1
	var names []string
	var commands []*ledgerv1.Command
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprintf("crowd-%04d", i); topics.ShardOf(name, testShards) == shard {
			names = append(names, name)
			commands = append(commands, open(name, "USD"), credit(name, 10_000, "USD"))
		}
	}
	w.submit(commands...)
	return names
}

func (w *world) pay(names []string, amount int64) {
	w.t.Helper()
	commands := make([]*ledgerv1.Command, len(names))
	for i, name := range names {
		commands[i] = credit(name, amount, "USD")
	}
	w.submit(commands...)
}

// losesLast sets accounts in Redis back by their last change, a credit.
func (w *world) losesLast(names []string, amount int64) {
	w.t.Helper()
	for _, name := range names {
		w.tamper(name, func(a *lua.Account) { a.Sequence--; a.Balance -= amount })
	}
}

// allow lets so many breaks of a class be repaired, and as many in all.
func (w *world) allow(class Class, n int) func(*Config) {
	w.policy(fmt.Sprintf("{class: %s, currency: \"*\", count: 100}", class), fmt.Sprintf("{class: %s, currency: \"*\", count: %d}", class, n))
	file := w.cfg.PolicyFile
	w.cfg.PolicyFile = ""
	return func(c *Config) { c.PolicyFile, c.RepairsMax, c.OutcomeTimeout = file, n, time.Minute }
}

// shownReport is a report as programs, tickets and browsers get it.
type shownReport struct {
	jsonReport
	markdown, page, table string
}

func (w *world) shown(report *Report) shownReport {
	w.t.Helper()
	r, err := New(w.cfg, nil, nil)
	w.must(err)
	defer func() { _ = r.Close() }()
	stored, err := r.ReadReport(w.ctx, report.RunID)
	w.must(err)
	var s shownReport
	w.must(json.Unmarshal([]byte(dump(report)), &s.jsonReport))
	var markdown, page, table strings.Builder
	w.must(stored.WriteMarkdown(&markdown))
	w.must(stored.WriteHTML(&page))
	w.must(report.WriteTable(&table))
	s.markdown, s.page, s.table = markdown.String(), page.String(), table.String()
	return s
}

func TestAPartOfRedisThatWasPutBackIsOneCauseAndManyBreaks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.serve()
	names := w.crowd(125)
	lost, later := names[:120], names[120:123]
	w.pay(lost, 500) // positions 251 to 370
	w.pay(later, 1)  // positions 371 to 373
	w.pay(later, 7)
	w.losesLast(lost, 500)
	w.losesLast(later, 7)
	report := w.mustRun()
	s := w.shown(report)
	if report.BreaksFound != 123 || report.Repairs() != 0 || len(s.Causes) != 2 {
		t.Fatalf("want 123 breaks of two causes, none repaired, got %d causes of %d breaks:\n%s", len(s.Causes), report.BreaksFound, s.table)
	}
	slices.SortFunc(s.Causes, func(a, b *cause) int { return b.Accounts - a.Accounts })
	c := s.Causes[0]
	if c.Class != RedisBehind || c.Shard != 1 || c.Accounts != 120 || c.From != 240 || c.To != 251 || c.Named[0] != slices.Min(lost) || len(c.Named) != accountsNamedMax ||
		len(c.Amounts) != 1 || c.Amounts[0] != (causeAmount{"USD/2", "60000", "-60000"}) {
		t.Errorf("the cause is %+v", *c)
	}
	if c := s.Causes[1]; c.Accounts != 3 || c.From != 373 || c.To != 374 {
		t.Errorf("the other cause is %+v", *c)
	}
	for form, text := range map[string]string{"markdown": s.markdown, "page": s.page, "table": s.table, "list": w.say(0, "breaks", "list")} {
		w.has(text, "120 accounts of shard 1, between positions 240 and 251", "3 accounts of shard 1, between positions 373 and 374", slices.Min(lost), "and 110 more", "600.00")
		if form != "page" && (strings.Contains(text, lost[50]) || len(strings.Split(text, "\n")) > 30) {
			t.Errorf("the %s has a line for each account:\n%s", form, text)
		}
	}
	w.has(s.page, lost[50], "breaks list --cause 1")
	one := w.say(0, "breaks", "list", "--cause", fmt.Sprint(c.Number))
	if ids := breakID.FindAllString(one, -1); len(ids) != 120 || !strings.Contains(one, lost[50]) || strings.Contains(one, later[0]) {
		t.Errorf("%d breaks of the cause:\n%s", len(ids), one)
	}
	w.has(w.say(ExitUsage, "breaks", "list", "--cause", "3"), "no cause 3")
	w.checkEvidence(report)

	// Each break keeps its own id and compensation, however they are shown.
	again := w.mustRun(w.allow(RedisBehind, 300))
	w.checkEvidence(again)
	before := map[string]string{}
	for _, b := range report.Breaks {
		before[b.Account] = b.ID
	}
	for _, b := range again.Breaks {
		if b.ID != before[b.Account] || b.Compensation == nil || b.Compensation.CommandID != "repair:"+b.ID || b.Compensation.State != Applied {
			t.Fatalf("want the break %s again, repaired, got %s", before[b.Account], dump(again))
		}
	}
	if n := w.commandsSent(); n != 123 || again.Repairs() != 123 {
		t.Errorf("%d commands, %d repairs", n, again.Repairs())
	}
	w.has(w.shown(again).markdown, "| repaired |")
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

func TestRowsThatAreWrongOverOneRangeAreOneCause(t *testing.T) {
	t.Parallel()
	w := setup(t)
	names := w.crowd(260)
	w.pay(names, 500) // positions 521 to 780
	var wrong []string
	for i := 0; i < len(names); i += 2 {
		wrong = append(wrong, "'"+names[i]+"'")
	}
	w.alter("ALTER TABLE events UPDATE delta = delta - 100 WHERE sequence = 3 AND account IN (" + strings.Join(wrong, ",") + ")")
	report := w.mustRun()
	s := w.shown(report)
	if report.BreaksFound != 130 || report.Repairs() != 0 || len(s.Causes) != 1 {
		t.Fatalf("want 130 breaks of one cause, none repaired, got %d causes of %d breaks:\n%s", len(s.Causes), report.BreaksFound, s.table)
	}
	if c := s.Causes[0]; c.Class != ProjectionMismatch || c.Accounts != 130 || c.From != 521 || c.To != 779 || c.Amounts[0] != (causeAmount{"USD/2", "13000", "-13000"}) {
		t.Errorf("the cause is %+v", *c)
	}
	for _, text := range []string{s.markdown, s.page, s.table, w.say(0, "breaks", "list")} {
		w.has(text, "130 accounts of shard 1, positions 521 to 779", names[0], "and 120 more", "130.00")
	}
	w.checkEvidence(report)
	again := w.mustRun(w.allow(ProjectionMismatch, 200))
	s = w.shown(again)
	if len(s.Causes) != 1 || s.Causes[0].Accounts != 130 || again.Repairs() != 130 {
		t.Fatalf("want one cause, settled, got %s", dump(again))
	}
	w.has(s.page, "What is settled", "written again from Kafka")
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
}

// A balance that is wrong since a place in the log is told apart from one that is wrong since another, where events came in between.
func TestBalancesThatWentWrongAtTwoPlacesAreTwoCauses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	names := w.crowd(9) // positions 1 to 18
	at := func(some []string, by int64) {
		for _, name := range some {
			w.tamper(name, func(a *lua.Account) { a.Balance += by })
		}
		w.pay(some, 1)
	}
	at(names[0:3], 300) // says so at 19 to 21
	w.pay(names[3:6], 1)
	at(names[3:6], -200)                                    // says so at 25 to 27
	w.tamper(names[6], func(a *lua.Account) { a.Held = 5 }) // at a place that nothing tells
	s := w.shown(w.mustRun(func(c *Config) { c.DryRun = true }))
	if len(s.Causes) != 2 {
		t.Fatalf("want two causes, got %+v\n%s", s.Causes, s.table)
	}
	for _, c := range s.Causes {
		want := cause{Accounts: 3, From: 6, To: 19, Amounts: []causeAmount{{"USD/2", "900", "900"}}}
		if c.Amounts[0].Net != "900" {
			want = cause{Accounts: 4, From: 24, To: 25, Amounts: []causeAmount{{"USD/2", "600", "-600"}}}
		}
		if c.Accounts != want.Accounts || c.From != want.From || c.To != want.To || !slices.Equal(c.Amounts, want.Amounts) {
			t.Errorf("want %+v, got %+v", want, *c)
		}
	}
	w.has(s.markdown, "7 differences found, which look like 2 causes", "9.00", "\u22126.00")
}
