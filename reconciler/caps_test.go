package reconciler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/lua"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Above a cap nothing is applied, and one alarm is raised.
func TestAboveACapOfThePolicyNothingIsApplied(t *testing.T) {
	t.Parallel()
	const line = `{class: BALANCE_DIFFERS, currency: "*", count: 100}`
	for _, c := range []struct {
		name, allowance string
		within          bool
		why             string
	}{
		{"per break, at the cap", `{class: BALANCE_DIFFERS, currency: USD, per_break: "3.00", count: 100}`, true, ""},
		{"per break, above it", `{class: BALANCE_DIFFERS, currency: USD, per_break: "2.99", count: 100}`, false, "above the 2.99 per break"},
		{"per run, at the cap", `{class: BALANCE_DIFFERS, currency: USD, per_run: "6.00", count: 100}`, true, ""},
		{"per run, above it", `{class: BALANCE_DIFFERS, currency: USD, per_run: "5.99", count: 100}`, false, "above the 5.99 per run"},
		{"by count, at the cap", `{class: BALANCE_DIFFERS, currency: USD, count: 3}`, true, ""},
		{"by count, above it", `{class: BALANCE_DIFFERS, currency: USD, count: 2}`, false, "more BALANCE_DIFFERS than the 2"},
		{"a currency's own cap goes before that of any", line + "\n  - " + `{class: BALANCE_DIFFERS, currency: USD, count: 2}`, false, "more BALANCE_DIFFERS than the 2"},
		{"another currency's cap does not count", line + "\n  - " + `{class: BALANCE_DIFFERS, currency: EUR, per_break: "0.01", count: 1}`, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.smallLedger()
			w.serve()
			w.policy(line, c.allowance)
			for i := range 3 {
				w.tamper(fmt.Sprintf("a%d", i), func(a *lua.Account) { a.Balance += int64(i+1) * 100 })
			}
			w.forget("a4") // of a class that is within its cap: not applied either
			core, alarms := observer.New(zapcore.ErrorLevel)
			reg := prometheus.NewRegistry()
			r, err := New(w.cfg, zap.New(core), reg)
			w.must(err)
			defer func() { _ = r.Close() }()
			report, err := r.Run(w.ctx)
			w.must(err)
			if c.within {
				if report.Held != "" || report.Repairs() != 4 || alarms.Len() != 0 {
					t.Fatalf("want four repairs, got %s", dump(report))
				}
				return
			}
			if !strings.Contains(report.Held, c.why) || report.Repairs() != 0 || w.commandsSent() != 0 || alarms.Len() != 1 ||
				gathered(t, reg)["ledger_recon_held "] != 1 {
				t.Fatalf("want nothing repaired because of %q, and one alarm; got %d and %s", c.why, alarms.Len(), dump(report))
			}

			// A single break that two people let through is repaired all the same, and the others wait.
			id := report.Breaks[0].ID
			w.must(r.Propose(w.ctx, id, Proposal{By: "anna"}))
			w.must(r.Approve(w.ctx, id, "ben", ""))
			report, err = r.Run(w.ctx)
			w.must(err)
			for _, b := range report.Breaks {
				if applied := b.Compensation != nil && b.Compensation.State == Applied; report.Held != "" && applied != (b.ID == id) {
					t.Fatalf("want %s repaired alone, got %s", id, dump(report))
				}
			}
		})
	}
}

func TestAboveACapNoRowIsWrittenAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.policy(`{class: PROJECTION_MISSING, currency: "*", count: 100}`, `{class: PROJECTION_MISSING, currency: "*", count: 1}`)
	w.alter("ALTER TABLE events DELETE WHERE account IN ('a3', 'a8') AND sequence = 2")
	w.forget("a4")
	report := w.mustRun()
	if report.ByClass()[ProjectionMissing] != 2 || report.Held == "" || report.Repairs() != 0 || w.commandsSent() != 0 {
		t.Fatalf("want nothing repaired, got %s", dump(report))
	}
}

func TestAPolicyMayWantTwoPeopleForEverything(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.policy(`  - {class: BALANCE_DIFFERS, currency: "*", count: 100}`+"\n", "")
	w.tamper("a3", func(a *lua.Account) { a.Balance++ })
	w.has(w.say(ExitBreaks, "run"), "wants two people")
	id := breakID.FindString(w.say(0, "breaks", "list"))
	w.say(0, "breaks", "propose", id, "--by", "anna")
	w.say(0, "breaks", "approve", id, "--by", "ben")
	w.has(w.say(ExitBreaks, "run"), "1 repaired")
	w.has(w.say(0, "run"), "CLEAN")
}
