package limits_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/reason"
)

//go:generate go test -run TestTheDocumentOfCommandsIsCurrent . -write

const (
	document = "../../docs/commands.md"
	contract = "../proto/ledger/v1/command.proto"
)

var write = flag.Bool("write", false, "write "+document)

// docs/commands.md says what can be wrong with a command. It is made of what is tested here, of the catalogue and of the contract.
func TestTheDocumentOfCommandsIsCurrent(t *testing.T) {
	t.Parallel()
	want := render(t)
	if *write {
		if err := os.WriteFile(document, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; run `go generate ./limits`", document)
	}
}

func TestEveryMistakeIsAnsweredWithItsReason(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(commonMistakes, mistakes) {
		if m.spoil == nil {
			continue
		}
		for _, operation := range m.operations {
			checkSpoiled(t, []spoiled{{limits.OperationName(operation) + ": " + m.what, operation, m.spoil, m.want}})
		}
	}
}

// A reason that no command can meet, or that the document leaves out, helps nobody.
func TestEveryReasonIsInTheDocument(t *testing.T) {
	t.Parallel()
	met := map[ledgerv1.Reason]bool{}
	for _, m := range slices.Concat(commonMistakes, mistakes) {
		met[m.want] = true
	}
	for number := range ledgerv1.Reason_name {
		if r := ledgerv1.Reason(number); !met[r] {
			t.Errorf("%s: nothing is rejected with it", r)
		}
	}
}

func render(t *testing.T) []byte {
	t.Helper()
	purposes := readPurposes(t)
	var page bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	line("# Commands, and what can be wrong with them")
	line("")
	line("Made by `go generate ./limits` in `schemas/`, from `proto/`, the catalogue of reasons and the tests of `limits`. Do not edit.")
	line("")
	line("*Command* says that the command alone shows it: the producer refuses to send it, and the ledger-writer rejects it. *Account* says that it")
	line("depends on the account, so `apply.lua` decides it. A rejection is an outcome, recorded under its command id for ever; only a command whose id")
	line("or account is malformed is answered and not recorded. Of several mistakes one is reported, that of the command before that of the account.")
	line("")
	line("## Every command")
	line("")
	table(line, commonMistakes, exceptions)
	for _, operation := range operations {
		line("")
		line("## %s", limits.OperationName(operation))
		line("")
		line("%s", purposes[operation])
		line("%s", takes(operation))
		line("")
		var own []mistake
		for _, m := range mistakes {
			if slices.Contains(m.operations, operation) {
				own = append(own, m)
			}
		}
		table(line, own, func([]ledgerv1.Operation) string { return "" })
	}
	line("")
	line("## Reasons")
	line("")
	line("| reason | what it means | what the caller can do |")
	line("|---|---|---|")
	for number := range int32(len(ledgerv1.Reason_name)) {
		if entry := reason.Of(ledgerv1.Reason(number)); entry.Code != "" {
			line("| `%s` | %s | %s |", entry.Code, entry.Text, strings.TrimSuffix(entry.NextStep, reason.NewID))
		}
	}
	line("")
	line("Whatever is sent again after a rejection that was recorded takes a new command id.")
	return page.Bytes()
}

// table writes a line for each mistake. Those of one operation do not name the others that share them.
func table(line func(string, ...any), rows []mistake, named func([]ledgerv1.Operation) string) {
	line("| what is wrong | reason | shown by |")
	line("|---|---|---|")
	for _, m := range rows {
		code, by := "`"+reason.Of(m.want).Code+"`", "account"
		if m.want == ledgerv1.Reason_REASON_UNSPECIFIED {
			code = ""
		}
		if m.spoil != nil || code == "" {
			by = "command"
		}
		line("| %s%s | %s | %s |", m.what, named(m.operations), code, by)
	}
}

// exceptions names the operations that a common mistake is not made with.
func exceptions(with []ledgerv1.Operation) string {
	without := but(with...)
	if len(without) == 0 {
		return ""
	}
	names := make([]string, len(without))
	for i, operation := range without {
		names[i] = limits.OperationName(operation)
	}
	return " (not " + strings.Join(names, ", ") + ")"
}

// readPurposes takes what an operation is for from the contract: the comment above its value.
func readPurposes(t *testing.T) map[ledgerv1.Operation]string {
	t.Helper()
	text, err := os.ReadFile(contract)
	if err != nil {
		t.Fatal(err)
	}
	purposes := map[ledgerv1.Operation]string{}
	for _, value := range regexp.MustCompile(`((?:  // .*\n)+)  (OPERATION_\w+) =`).FindAllStringSubmatch(string(text), -1) {
		comment := strings.ReplaceAll(strings.TrimSpace(value[1]), "\n  // ", " ")
		purposes[ledgerv1.Operation(ledgerv1.Operation_value[value[2]])] = strings.TrimPrefix(comment, "// ")
	}
	for _, operation := range operations {
		if purposes[operation] == "" {
			t.Errorf("%s: %s does not say what it is for", operation, contract)
		}
	}
	return purposes
}

// fields are those that some operations take: how one is set, and how it is left out.
var fields = []struct {
	name       string
	set, clear func(*ledgerv1.Command)
}{
	{"amount", func(c *ledgerv1.Command) { c.Amount = "1250" }, func(c *ledgerv1.Command) { c.Amount = "" }},
	{"currency", func(c *ledgerv1.Command) { c.Currency = "USD" }, func(c *ledgerv1.Command) { c.Currency = "" }},
	{"counter_account", func(c *ledgerv1.Command) { c.CounterAccount = "@shop" }, func(c *ledgerv1.Command) { c.CounterAccount = "" }},
	{"legs", func(c *ledgerv1.Command) { c.Amount, c.Legs = "1250", []*ledgerv1.Leg{leg("@shop", "1250")} }, func(c *ledgerv1.Command) { c.Legs = nil }},
	{"open", func(c *ledgerv1.Command) { c.Open = &ledgerv1.OpenTerms{Floor: "-1", Ceiling: "1"} }, func(c *ledgerv1.Command) { c.Open = nil }},
	{"limits", func(c *ledgerv1.Command) { c.Limits = &ledgerv1.LimitTerms{Floor: proto.String("0")} }, func(c *ledgerv1.Command) { c.Limits = nil }},
	{"direction", func(c *ledgerv1.Command) { c.Direction = ledgerv1.Direction_DIRECTION_DEBIT }, func(c *ledgerv1.Command) { c.Direction = 0 }},
	{"hold", func(c *ledgerv1.Command) {
		c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(limits.EffectiveTimeMax.AddDate(-1, 0, 0))}
	}, func(c *ledgerv1.Command) { c.Hold = nil }},
	{"hold_id", func(c *ledgerv1.Command) { c.HoldId = "h-2" }, func(c *ledgerv1.Command) { c.HoldId = "" }},
	{"reverse", func(c *ledgerv1.Command) { c.Reverse = &ledgerv1.ReverseTerms{CommandId: "c-9"} }, func(c *ledgerv1.Command) { c.Reverse = nil }},
	{"repair", func(c *ledgerv1.Command) { c.Repair = good(repair).GetRepair() }, func(c *ledgerv1.Command) { c.Repair = nil }},
	{"origin", func(c *ledgerv1.Command) { c.Origin = good(returning).GetOrigin() }, func(c *ledgerv1.Command) { c.Origin = nil }},
}

// takes finds out which fields an operation needs and which it may have, by trying.
func takes(operation ledgerv1.Operation) string {
	passes := func(change func(*ledgerv1.Command)) bool {
		cmd := good(operation)
		change(cmd)
		_, err := limits.Command(cmd)
		return err == nil
	}
	var needs, may []string
	for _, f := range fields {
		switch {
		case !passes(f.clear):
			needs = append(needs, "`"+f.name+"`")
		case passes(f.set):
			may = append(may, "`"+f.name+"`")
		}
	}
	text := "It needs nothing but the account."
	if len(needs) > 0 {
		text = "It needs " + strings.Join(needs, ", ") + "."
	}
	if len(may) > 0 {
		text += " It may have " + strings.Join(may, ", ") + "."
	}
	return text
}
