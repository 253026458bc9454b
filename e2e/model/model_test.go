package model

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// statesMax keeps a run within seconds, also with the race detector.
const statesMax = 60_000

func explore(t *testing.T, commands, callCommands int, faults string, v Variant) Result {
	t.Helper()
	budget, err := ParseFaults(faults)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(commands, 2, callCommands, budget, v)
	if err != nil {
		t.Fatal(err)
	}
	return m.Explore(t.Context(), statesMax, nil)
}

func TestTheProtocolHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		commands, callCommands int
		faults                 string
	}{
		{2, 1, "0"},
		{2, 1, "crash=1"},
		{2, 1, "rebalance=1"},
		{2, 1, "rollback=2"},
		{2, 1, "fork=2"},
		{2, 1, "wipe=2"},
		{2, 1, "key=2"},
		{2, 1, "loss=3"},
		{2, 1, "delay=2"},
		{2, 1, "abort=2"},
		{2, 1, "unknown=1"},
		{2, 1, "late=3"},
		{2, 1, "timeout=1"},
		{2, 1, "rollback=1,clock=1,loss=1"},
		{2, 1, "2:rollback=1,wipe=1,loss=1,delay=1,abort=1,clock=1"},
		{2, 2, "rollback=1,delay=1,clock=1"},
		{2, 1, "wipe=1,delay=1"},
		{4, 2, "1:rollback=1,fork=1,wipe=1,key=1,loss=1,delay=1,abort=1,late=1"},
		{1, 1, "1"},
		{1, 1, "unknown=1,late=1"},
	} {
		t.Run(fmt.Sprint(c.commands, c.callCommands, " ", c.faults), func(t *testing.T) {
			t.Parallel()
			r := explore(t, c.commands, c.callCommands, c.faults, Variant{})
			t.Logf("%d states, %d transitions, depth %d, %d quiet", r.States, r.Transitions, r.Depth, r.Quiet)
			if r.Violation != "" {
				t.Errorf("%s:\n%s", r.Violation, strings.Join(r.Trace, "\n"))
			}
			if r.Cut || r.Quiet == 0 {
				t.Errorf("cut: %v, %d quiet states: the bounds are not exhausted", r.Cut, r.Quiet)
			}
		})
	}
}

func TestNoRuleCanBeLeftOut(t *testing.T) {
	t.Parallel()
	tried := map[Rule]bool{}
	for _, v := range Variants {
		tried[v.Rule] = true
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			r := explore(t, v.Commands, v.CallCommands, v.Faults, v)
			t.Logf("%d states, %d steps: %s", r.States, len(r.Trace), r.Violation)
			if r.Violation == "" || len(r.Trace) == 0 {
				t.Errorf("no counterexample in %d states, cut: %v", r.States, r.Cut)
			}
		})
	}
	for rule := nothing + 1; rule <= IdleCheckSeesOutbox; rule++ {
		if !tried[rule] {
			t.Errorf("rule %d is never left out", rule)
		}
	}
}
