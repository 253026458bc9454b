package transfer

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/e2e/model/explore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// statesMax keeps a run within seconds, also with the race detector.
const statesMax = 300_000

func visit(t *testing.T, plan, faults string, v Variant, statesMax int) explore.Result {
	t.Helper()
	m, err := New(plan, faults, v)
	if err != nil {
		t.Fatal(err)
	}
	return explore.Explore(t.Context(), m, explore.Options{StatesMax: statesMax, Liveness: true})
}

func TestTheProtocolHolds(t *testing.T) {
	t.Parallel()
	for _, p := range Plans {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			r := visit(t, p.Name, "2", Variant{}, statesMax)
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

func TestTheProtocolHoldsWhateverIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		commands int
		reuse    bool
		faults   string
	}{{2, false, "1"}, {2, true, "1"}, {3, false, "0"}} {
		t.Run(fmt.Sprint(c.commands, " ", c.reuse, " ", c.faults), func(t *testing.T) {
			t.Parallel()
			sum := Sum{}
			for p := range Sequences(c.commands, c.reuse) {
				r, err := sum.add(t.Context(), p, c.faults, explore.Options{StatesMax: statesMax, Liveness: true})
				if err != nil || r.Violation != "" {
					t.Fatalf("%v %s:\n%s", err, r.Violation, strings.Join(r.Trace, "\n"))
				}
			}
			t.Logf("%d plans, %d states", sum.Plans, sum.States)
			if sum.Cut > 0 || sum.Quiet < sum.Plans {
				t.Errorf("%d plans were cut, %d quiet states of %d plans", sum.Cut, sum.Quiet, sum.Plans)
			}
		})
	}
}

// A plan is worth nothing if what it is about never happens.
func TestPlansReachWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	for plan, expected := range map[string][]string{
		"refused": {
			"@credit/S b 1 from a: LIMIT_EXCEEDED", "@credit/S b 1 from a: applied +1", "@return/S a 1 LIMIT_EXCEEDED: applied +1", "S transfer a 1 to b: DEADLINE_PASSED",
		},
		"crossing": {"@credit/T a 1 from b: LIMIT_EXCEEDED", "@credit/T a 1 from b: applied +1", "@credit/U c 1 from b: applied +1", "U transfer b 1 to c: INSUFFICIENT_FUNDS"},
		"reversed": {"T reverse b of S 1: applied -1", "U reverse b of S: applied -2", "U reverse b of S: applied -1", "V reverse a of S: NOT_REVERSIBLE", "@return/T a 1: applied +1", "@return/U a 2: applied +2"},
		"undone":   {"V reverse a of S 2: NOT_REVERSIBLE", "W reverse a of S: applied -1"},
		"held":     {"T capture a of S 1: applied -1", "V capture a of S: applied -1", "V capture a of S: HOLD_EXPIRED", "V capture a of S: HOLD_UNKNOWN", "@expire/S a: applied", "@expire/S a: HOLD_UNKNOWN", "U debit a 2: INSUFFICIENT_FUNDS", "U debit a 2: applied -2"},
		"released": {"T release a of S 1: applied", "V capture a of S 2: HOLD_EXCEEDED", "U transfer a 1 to b: applied -1"},
		"changed":  {"S transfer a 1 to b: applied -1"},
		"senders":  {"@return/S c 1 COMMAND_ID_REUSED: applied +1"},
		"returns":  {"@return/T a 1 LIMIT_EXCEEDED: applied +1", "@return/T a 1: applied +1"},
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			m, err := New(plan, "2:clock=1,retry=1,rebalance=1,wipe=1", Variant{})
			if err != nil {
				t.Fatal(err)
			}
			seen := witness{m, map[string]bool{}}
			explore.Explore(t.Context(), seen, explore.Options{StatesMax: statesMax})
			for _, event := range expected {
				if !seen.events[event] {
					t.Errorf("%s is never an event", event)
				}
			}
		})
	}
}

// witness notes all events.
type witness struct {
	*Model
	events map[string]bool
}

func (w witness) CheckQuiet(s *State) explore.Violation {
	for i := range s.shards {
		for _, e := range s.shards[i].past() {
			w.events[w.eventText(e)] = true
		}
	}
	return w.Model.CheckQuiet(s)
}

// What is remembered derives again for the sake of whoever retries: the money arrives without.
func TestOnlyWhoRetriesNeedsThatItIsDerivedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"refusal-returns-once", "transfer-credits-once"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _ := VariantNamed(name)
			for _, p := range Plans {
				m, err := New(p.Name, "2:retry=1,crash=1,unknown=1,wipe=1", v)
				if err != nil {
					t.Fatal(err)
				}
				if r := explore.Explore(t.Context(), patient{m}, explore.Options{StatesMax: statesMax}); r.Violation != "" || r.Cut {
					t.Errorf("plan %s: cut %v, %s:\n%s", p.Name, r.Cut, r.Violation, strings.Join(r.Trace, "\n"))
				}
			}
		})
	}
}

// patient callers need no answer.
type patient struct{ *Model }

func (p patient) CheckQuiet(s *State) explore.Violation {
	if v := p.Model.CheckQuiet(s); v != notTold {
		return v
	}
	return ""
}

func TestNoRuleCanBeLeftOut(t *testing.T) {
	t.Parallel()
	tried := map[Rule]bool{}
	for _, v := range Variants {
		tried[v.Rule] = true
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			if control := visit(t, v.Plan, v.Faults, Variant{}, 20000); control.Violation != "" {
				t.Fatalf("the right protocol breaks too: %s:\n%s", control.Violation, strings.Join(control.Trace, "\n"))
			}
			r := visit(t, v.Plan, v.Faults, v, statesMax)
			t.Logf("%d states, %d steps: %s", r.States, len(r.Trace), r.Violation)
			if r.Violation == "" || len(r.Trace) == 0 {
				t.Errorf("no counterexample in %d states, cut: %v", r.States, r.Cut)
			}
		})
	}
	for rule := DerivedNotBefore; rule <= HoldsReadFromRedis; rule <<= 1 {
		if !tried[rule] {
			t.Errorf("rule %d is never left out", rule)
		}
	}
}
