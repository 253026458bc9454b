package model

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/e2e/model/explore"
	"github.com/hotledger/hotledger/e2e/model/transfer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// statesMax keeps a run within seconds, also with the race detector.
const statesMax = 60_000

func visit(t *testing.T, commands, callCommands int, faults string, forgets bool, v Variant, statesMax int) explore.Result {
	t.Helper()
	m, err := New(commands, 2, callCommands, faults, forgets, v)
	if err != nil {
		t.Fatal(err)
	}
	return explore.Explore(t.Context(), m, explore.Options{StatesMax: statesMax, Liveness: true})
}

func TestTheProtocolHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		commands, callCommands int
		faults                 string
		forgets                bool
	}{
		{2, 1, "0", false},
		{1, 1, "crash=1", false},
		{2, 1, "rebalance=1", false},
		{2, 1, "rollback=2", false},
		{2, 1, "fork=2", false},
		{2, 1, "wipe=2", false},
		{2, 1, "key=2", false},
		{2, 1, "loss=3", false},
		{2, 1, "delay=2", false},
		{2, 1, "abort=2", false},
		{1, 2, "unknown=1", false},
		{2, 1, "late=3", false},
		{1, 1, "timeout=1", false},
		{2, 1, "rollback=1,clock=1,loss=1", false},
		{1, 1, "2:rollback=1,wipe=1,loss=1,delay=1,clock=1", false},
		{2, 2, "rollback=1,delay=1,clock=1", false},
		{2, 1, "wipe=1,delay=1", false},
		{4, 2, "1:rollback=1,fork=1,wipe=1,key=1,loss=1,delay=1,abort=1,late=1", false},
		{1, 1, "unknown=1,late=1", false},
		{2, 1, "clock=2,jump=1", true},
		{2, 1, "clock=1,skew=1,rollback=1", true},
		{1, 1, "clock=2,skew=1,wipe=1", true},
		{2, 1, "clock=2,fork=1", true},
		{1, 1, "clock=2,key=1", true},
		{2, 1, "clock=2,delay=1", true},
		{2, 2, "clock=2,loss=1", true},
		{2, 1, "clock=2,abort=1", true},
		{2, 2, "clock=2,late=1", true},
	} {
		t.Run(fmt.Sprint(c.commands, c.callCommands, " ", c.faults, " ", c.forgets), func(t *testing.T) {
			t.Parallel()
			r := visit(t, c.commands, c.callCommands, c.faults, c.forgets, Variant{}, statesMax)
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
			if control := visit(t, v.Commands, v.CallCommands, v.Faults, v.Forgets, Variant{}, 3000); control.Violation != "" {
				t.Fatalf("the right protocol breaks too: %s:\n%s", control.Violation, strings.Join(control.Trace, "\n"))
			}
			r := visit(t, v.Commands, v.CallCommands, v.Faults, v.Forgets, v, statesMax)
			t.Logf("%d states, %d steps: %s", r.States, len(r.Trace), r.Violation)
			if r.Violation == "" || len(r.Trace) == 0 {
				t.Errorf("no counterexample in %d states, cut: %v", r.States, r.Cut)
			}
		})
	}
	for rule := nothing + 1; rule <= OldBucketBelongs; rule++ {
		if !tried[rule] {
			t.Errorf("rule %d is never left out", rule)
		}
	}
}

// The tables of the READMEs are how a reader gets from a rule to the code: they name functions that exist, and all variants.
func TestTheReadmesNameTheCode(t *testing.T) {
	t.Parallel()
	var of, between []string
	for _, v := range Variants {
		of = append(of, v.Name)
	}
	for _, v := range transfer.Variants {
		between = append(between, v.Name)
	}
	checkReadme(t, ".", of, 20)
	checkReadme(t, "transfer", between, 15)
}

func checkReadme(t *testing.T, folder string, variants []string, namesMin int) {
	t.Helper()
	readme := read(t, filepath.Join(folder, "README.md"))
	for _, name := range variants {
		if !regexp.MustCompile(`[ (]` + name + `[,. |)]`).MatchString(readme) {
			t.Errorf("%s: variant %s is missing", folder, name)
		}
	}
	names := regexp.MustCompile("`([a-z/-]+\\.(?:go|lua))(?::(\\w+))?`").FindAllStringSubmatch(readme, -1)
	if len(names) < namesMin {
		t.Errorf("%s: %d names of code", folder, len(names))
	}
	for _, name := range names {
		file, function := name[1], name[2]
		path := filepath.Join("..", "..", "ledger-writer", file)
		if strings.HasPrefix(file, "lua/") {
			path = filepath.Join("..", "..", file)
		} else if function == "" {
			path = filepath.Join(folder, file)
		}
		if text := read(t, path); !regexp.MustCompile(`(?m)^(func (\(.*\) )?|type )`+function+`\b`).MatchString(text) && function != "" {
			t.Errorf("%s has no %s", path, function)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
