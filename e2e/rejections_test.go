package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/reason"
)

// refusal is a command that is rejected because of what the account is: the steps before it are applied, the last one is not. A step is an
// operation, an account and an amount (or -), in EUR, and whatever else in Protobuf's text form. Every refusal has its own accounts and ids.
type refusal struct {
	reason string
	steps  []string
}

func after(why string, steps ...string) refusal { return refusal{why, steps} }

const (
	full = "999999999999999999"
	past = ` hold:{expires_at:{seconds:1000000000}}`
	undo = ` reverse:{command_id:"c"}`
)

// shown are the last steps of each operation, for what every operation can be rejected for.
var shown = map[string]string{
	"open": "open a -", "set_limits": `set_limits a - limits:{floor:"-1"}`, "freeze": "freeze a - direction:DIRECTION_BOTH",
	"unfreeze": "unfreeze a - direction:DIRECTION_BOTH", "close": "close a -", "debit": "debit a 1", "credit": "credit a 1", "hold": "hold a 1",
	"capture": `capture a - hold_id:"h"`, "release": `release a - hold_id:"h"`, "transfer": `transfer a 1 counter_account:"b"`,
	"reverse": "reverse a -" + undo, "adjust": "adjust a 1",
}

// elsewhere is what takes a clock or another writer to meet; the tests of lua/ and ledger-writer/ do.
var elsewhere = map[string][]string{"capture": {"HOLD_EXPIRED"}, "repair": nil, "return": nil}

var refusals = map[string][]refusal{
	"open": {
		after("ACCOUNT_EXISTS", "open a -", "open a -"),
		after("ACCOUNT_EXISTS", "open a -", "close a -", "open a -"),
		after("SEQUENCE_MISMATCH", "open a -", `open a - expected_sequence:7`),
	},
	"set_limits": {
		after("INSUFFICIENT_FUNDS", `open a - open:{floor:"-100"}`, "hold a 60", `set_limits a - limits:{floor:"-59"}`),
		after("LIMIT_EXCEEDED", "open a -", "credit a 10", `set_limits a - limits:{ceiling:"9"}`),
		after("ACCOUNT_CLOSED", "open a -", "close a -", `set_limits a - limits:{floor:"0"}`),
	},
	"freeze":   {after("ACCOUNT_CLOSED", "open a -", "close a -", "freeze a - direction:DIRECTION_BOTH")},
	"unfreeze": {after("ACCOUNT_CLOSED", "open a -", "close a -", "unfreeze a - direction:DIRECTION_BOTH")},
	"close": {
		after("ACCOUNT_NOT_EMPTY", "open a -", "credit a 1", "close a -"),
		after("ACCOUNT_NOT_EMPTY", `open a - open:{floor:"-1"}`, "hold a 1", "close a -"),
		after("ACCOUNT_CLOSED", "open a -", "close a -", "close a -"),
	},
	"debit": {
		after("INSUFFICIENT_FUNDS", "open a -", "credit a 10", "hold a 5", "debit a 6"),
		after("ACCOUNT_FROZEN", "open a -", "credit a 10", "freeze a - direction:DIRECTION_DEBIT", "debit a 1"),
		after("ACCOUNT_CLOSED", "open a -", "close a -", "debit a 1"),
	},
	"credit": {
		after("ACCOUNT_FROZEN", "open a -", "freeze a - direction:DIRECTION_CREDIT", "credit a 1"),
		after("LIMIT_EXCEEDED", `open a - open:{ceiling:"10"}`, "credit a 10", "credit a 1"),
		after("LIMIT_EXCEEDED", "open a -", "credit a "+full, "credit a 1"),
		after("ACCOUNT_CLOSED", "open a -", "close a -", "credit a 1"),
	},
	"hold": {
		after("HOLD_EXPIRED", "open a -", "credit a 1", "hold a 1"+past),
		after("INSUFFICIENT_FUNDS", "open a -", "credit a 10", "hold a 6", "hold a 5"),
		after("ACCOUNT_FROZEN", "open a -", "credit a 1", "freeze a - direction:DIRECTION_BOTH", "hold a 1"),
		after("LIMIT_EXCEEDED", `open a - open:{floor:"-`+full+`"}`, "credit a "+full, "hold a "+full, "hold a 1"),
		after("ACCOUNT_CLOSED", "open a -", "close a -", "hold a 1"),
	},
	"capture": {
		after("HOLD_UNKNOWN", "open a -", `capture a - hold_id:"h"`),
		after("HOLD_UNKNOWN", "open a -", "open b -", "credit b 1", `hold b 1 command_id:"h"`, `capture a - hold_id:"h"`),
		after("HOLD_UNKNOWN", "open a -", "credit a 1", `hold a 1 command_id:"h"`, `capture a - hold_id:"h"`, `capture a - hold_id:"h"`),
		after("HOLD_EXCEEDED", "open a -", "credit a 5", `hold a 3 command_id:"h"`, `capture a 2 hold_id:"h"`, `capture a 2 hold_id:"h"`),
		after("ACCOUNT_FROZEN", "open a -", "credit a 5", `hold a 3 command_id:"h"`, "freeze a - direction:DIRECTION_DEBIT", `capture a - hold_id:"h"`),
		after("LIMIT_EXCEEDED", `open a - open:{floor:"-`+full+`"}`, `hold a 1 command_id:"h"`, "adjust a -"+full, `capture a - hold_id:"h"`),
		after("ACCOUNT_CLOSED", "open a -", "close a -", `capture a - hold_id:"h"`),
	},
	"release": {
		after("HOLD_UNKNOWN", "open a -", "credit a 1", `hold a 1 command_id:"h"`, `release a - hold_id:"h"`, `release a - hold_id:"h"`),
		after("HOLD_EXCEEDED", "open a -", "credit a 5", `hold a 3 command_id:"h"`, `release a 4 hold_id:"h"`),
	},
	"transfer": {
		after("INSUFFICIENT_FUNDS", "open a -", "open b -", `transfer a 1 counter_account:"b"`),
		after("INSUFFICIENT_FUNDS", "open a -", `transfer a 1 counter_account:"@shop"`),
		after("ACCOUNT_FROZEN", "open a -", "open b -", "credit a 1", "freeze a - direction:DIRECTION_DEBIT", `transfer a 1 counter_account:"b"`),
		after("ACCOUNT_FROZEN", "open a -", "open b -", "credit a 1", "freeze b - direction:DIRECTION_CREDIT", `transfer a 1 counter_account:"b"`),
		after("ACCOUNT_UNKNOWN", "open a -", "credit a 1", `transfer a 1 counter_account:"b"`),
		after("ACCOUNT_CLOSED", "open a -", "open b -", "close b -", "credit a 1", `transfer a 1 counter_account:"b"`),
		after("ACCOUNT_CLOSED", "open a -", "open b -", "close a -", `transfer a 1 counter_account:"b"`),
		after("CURRENCY_MISMATCH", "open a -", `open b - currency:"USD"`, "credit a 1", `transfer a 1 counter_account:"b"`),
		after("LIMIT_EXCEEDED", "open a -", `open b - open:{ceiling:"0"}`, "credit a 1", `transfer a 1 counter_account:"b"`),
	},
	"reverse": {
		after("NOT_REVERSIBLE", "open a -", "reverse a -"+undo),
		after("NOT_REVERSIBLE", `open a - command_id:"c"`, "reverse a -"+undo),
		after("NOT_REVERSIBLE", "open a -", "open b -", `credit b 1 command_id:"c"`, "reverse a -"+undo),
		after("NOT_REVERSIBLE", "open a -", `credit a 2 command_id:"d"`, `reverse a 1 command_id:"c" reverse:{command_id:"d"}`, "reverse a -"+undo),
		after("NOT_REVERSIBLE", "open a -", "open b -", "credit a 1", `transfer a 1 counter_account:"b" command_id:"c"`, "reverse a -"+undo),
		after("NOT_REVERSIBLE", "open a -", `credit a 3 command_id:"c"`, "reverse a 2"+undo, "reverse a 2"+undo),
		after("NOT_REVERSIBLE", "open a -", `credit a 3 command_id:"c"`, "reverse a -"+undo, "reverse a -"+undo),
		after("NOT_REVERSIBLE", "open a -", `credit a 3 command_id:"c" legs:{counter_account:"@x" amount:"1"} legs:{counter_account:"@y" amount:"2"}`, "reverse a 1"+undo),
		after("INSUFFICIENT_FUNDS", "open a -", `credit a 3 command_id:"c"`, "debit a 1", "reverse a -"+undo),
		after("ACCOUNT_FROZEN", "open a -", `credit a 3 command_id:"c"`, "freeze a - direction:DIRECTION_DEBIT", "reverse a -"+undo),
		after("ACCOUNT_FROZEN", "open a -", "credit a 3", `debit a 3 command_id:"c"`, "freeze a - direction:DIRECTION_CREDIT", "reverse a -"+undo),
		after("LIMIT_EXCEEDED", `open a - open:{ceiling:"3"}`, "credit a 3", `debit a 3 command_id:"c"`, "credit a 1", "reverse a -"+undo),
		after("LIMIT_EXCEEDED", `open a - open:{floor:"-`+full+`"}`, `credit a 1 command_id:"c"`, "debit a "+full, "debit a 1",
			`reverse a - reverse:{command_id:"c" allow_overdraft:true}`),
		after("ACCOUNT_CLOSED", "open a -", "credit a 1", `debit a 1 command_id:"c"`, "close a -", "reverse a -"+undo),
	},
	"adjust": {
		after("LIMIT_EXCEEDED", "open a -", "credit a "+full, "adjust a 1"),
		after("LIMIT_EXCEEDED", "open a -", "adjust a -"+full, "adjust a -1"),
	},
}

// common are the refusals that every operation shares, or nearly.
func common(operation string) []refusal {
	last := shown[operation]
	all := []refusal{
		after("COMMAND_ID_REUSED", "open a -", `credit a 7 command_id:"x"`, last+` command_id:"x"`),
		after("DEADLINE_PASSED", "open a -", last+" deadline:{seconds:1}"),
		after("SEQUENCE_MISMATCH", "open a -", last+" expected_sequence:7"),
	}
	if operation != "open" {
		all = append(all, after("ACCOUNT_UNKNOWN", last), after("CURRENCY_MISMATCH", "open a -", last+` currency:"USD"`))
	}
	return all
}

// Every line of docs/commands.md that depends on the account is true of the whole ledger, as its caller sees it.
func TestEveryRejectionOfAnAccountReachesItsCaller(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.serve(t)
	met := map[string]int{} // operation and reason -> refusals
	n := 0
	for operation := range shown {
		for _, r := range slices.Concat(refusals[operation], common(operation)) {
			n++
			w.refuse(t, fmt.Sprint(n), operation, r)
			met[operation+" "+r.reason]++
		}
	}
	for row, lines := range documented(t) {
		if met[row] < lines {
			t.Errorf("docs/commands.md has %d lines of %s, and %d of them were met", lines, row, met[row])
		}
	}
	w.audit(t)
}

// refuse runs the steps on accounts and ids of its own.
func (w *whole) refuse(t *testing.T, name, operation string, r refusal) {
	t.Helper()
	for i, text := range r.steps {
		cmd := step(t, text)
		if cmd.GetCommandId() == "" {
			cmd.CommandId = fmt.Sprint("step ", i)
		}
		own := func(id *string) {
			if *id != "" && !limits.External(*id) {
				*id = name + "/" + *id
			}
		}
		for _, id := range []*string{&cmd.CommandId, &cmd.Account, &cmd.CounterAccount, &cmd.HoldId} {
			own(id)
		}
		if cmd.GetReverse() != nil {
			own(&cmd.Reverse.CommandId)
		}
		outcome, err := w.client.Submit(t.Context(), cmd)
		if err != nil {
			t.Fatalf("%s %s, %q: %v", operation, r.reason, text, err)
		}
		got, want := reason.Of(outcome.GetReason()).Code, ""
		if i == len(r.steps)-1 {
			want = r.reason
		}
		if got != want || outcome.GetCommandId() != cmd.GetCommandId() {
			t.Errorf("%s, %q: %q became %q, want %q", operation, r.steps, text, got, want)
		}
	}
}

// step reads "operation account amount" and Protobuf's text form.
func step(t *testing.T, text string) *ledgerv1.Command {
	t.Helper()
	word := strings.SplitN(text, " ", 4)
	operation := ledgerv1.Operation(ledgerv1.Operation_value["OPERATION_"+strings.ToUpper(word[0])])
	cmd := &ledgerv1.Command{}
	if len(word) == 4 {
		if err := prototext.Unmarshal([]byte(word[3]), cmd); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	cmd.Operation, cmd.Account = operation, word[1]
	if word[2] != "-" {
		cmd.Amount = word[2]
	}
	if cmd.GetCurrency() == "" {
		cmd.Currency = "EUR"
	}
	return cmd
}

// documented counts the lines of docs/commands.md that say "account", by operation and reason.
func documented(t *testing.T) map[string]int {
	t.Helper()
	rows := map[string]int{}
	section := ""
	heading, row := regexp.MustCompile(`^## (.*)$`), regexp.MustCompile("^\\| (.*) \\| `([A-Z_]+)` \\| account \\|$")
	for line := range strings.Lines(read(t, "docs/commands.md")) {
		line = strings.TrimSpace(line)
		if found := heading.FindStringSubmatch(line); found != nil {
			section = found[1]
		}
		found := row.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		if section != "Every command" {
			if _, other := elsewhere[section]; !other || (elsewhere[section] != nil && !slices.Contains(elsewhere[section], found[2])) {
				rows[section+" "+found[2]]++
			}
			continue
		}
		_, without, _ := strings.Cut(found[1], "(not ")
		without = strings.TrimSuffix(without, ")")
		for operation := range shown {
			if !slices.Contains(strings.Split(without, ", "), operation) {
				rows[operation+" "+found[2]]++
			}
		}
	}
	if len(rows) < 50 {
		t.Fatalf("docs/commands.md was not understood: %v", rows)
	}
	return rows
}
