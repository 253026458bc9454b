package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/producer/internal/answering"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// captured serves a desk that applies everything, and gives what it was sent.
func captured(t *testing.T) (*answering.Desk, chan *ledgerv1.Command) {
	t.Helper()
	desk := answering.Open(t)
	sent := make(chan *ledgerv1.Command, 100)
	desk.Serve([]uint64{0, 0, 0}, func(cmd *ledgerv1.Command, _ *ledgerv1.Outcome) { sent <- cmd })
	return desk, sent
}

func TestEveryOperationCanBeSubmitted(t *testing.T) {
	t.Parallel()
	desk, sent := captured(t)
	for args, want := range map[string]string{
		"open --account a --currency USD --floor -500.00 --ceiling 10": `operation:OPERATION_OPEN currency:"USD" open:{floor:"-50000" ceiling:"1000"}`,
		"open --account a --currency USD --ceiling none":               `operation:OPERATION_OPEN currency:"USD" open:{}`,
		"debit --account a --amount 3 --currency USD --leg @x=1.50 --leg @y=z=1.50": `operation:OPERATION_DEBIT amount:"300" currency:"USD"
			legs:{counter_account:"@x" amount:"150"} legs:{counter_account:"@y=z" amount:"150"}`,
		"credit --account a --amount 3 --currency POINTS/0 --counter-account @x --metadata k=v": `operation:OPERATION_CREDIT amount:"3"
			currency:"POINTS/0" counter_account:"@x" metadata:{key:"k" value:"v"}`,
		"hold --account a --amount 1 --currency USD": `operation:OPERATION_HOLD amount:"100" currency:"USD"`,
		"hold --account a --amount 1 --currency USD --expires 1h --requested-at 2026-01-01T00:00:00Z": `operation:OPERATION_HOLD amount:"100"
			currency:"USD" hold:{expires_at:{seconds:1767229200}}`,
		"capture --account a --hold h":                                         `operation:OPERATION_CAPTURE hold_id:"h"`,
		"capture --account a --hold h --amount 1 --currency JPY --leg @x=1":    `operation:OPERATION_CAPTURE hold_id:"h" amount:"1" currency:"JPY" legs:{counter_account:"@x" amount:"1"}`,
		"release --account a --hold h --amount 0.01 --currency USD":            `operation:OPERATION_RELEASE hold_id:"h" amount:"1" currency:"USD"`,
		"transfer --account a --to b --amount 1 --currency USD":                `operation:OPERATION_TRANSFER amount:"100" currency:"USD" counter_account:"b"`,
		"reverse --account a --command c --allow-overdraft":                    `operation:OPERATION_REVERSE reverse:{command_id:"c" allow_overdraft:true}`,
		"reverse --account a --command c --amount 1 --currency USD":            `operation:OPERATION_REVERSE reverse:{command_id:"c"} amount:"100" currency:"USD"`,
		"set-limits --account a --ceiling none":                                `operation:OPERATION_SET_LIMITS limits:{ceiling:"none"}`,
		"set_limits --account a --floor 0 --currency USD":                      `operation:OPERATION_SET_LIMITS limits:{floor:"0"} currency:"USD"`,
		"freeze --account a --direction credit":                                `operation:OPERATION_FREEZE direction:DIRECTION_CREDIT`,
		"unfreeze --account a --direction both --expected-sequence 0":          `operation:OPERATION_UNFREEZE direction:DIRECTION_BOTH expected_sequence:0`,
		"close --account a --effective 2026-01-31 --deadline 2099-01-01":       `operation:OPERATION_CLOSE effective_time:{seconds:1769817600} deadline:{seconds:4070908800}`,
		"debit --account a --amount 1 --currency USD --reference r --id order": `operation:OPERATION_DEBIT amount:"100" currency:"USD" reference:"r" command_id:"order"`,
	} {
		got := call(t.Context(), desk, append([]string{"submit"}, strings.Fields(args)...)...)
		if got.code != 0 {
			t.Errorf("%s: %+v", args, got)
			continue
		}
		cmd, expected := <-sent, &ledgerv1.Command{}
		if err := prototext.Unmarshal([]byte(`account:"a" `+want), expected); err != nil {
			t.Fatal(err)
		}
		if expected.GetCommandId() == "" {
			cmd.CommandId = ""
		}
		cmd.RequestedAt, cmd.Source, cmd.ReplyTo = nil, "", ""
		if !proto.Equal(cmd, expected) {
			t.Errorf("%s:\ngot  %v\nwant %v", args, cmd, expected)
		}
	}
}

// The help of each operation shows a line that works.
func TestEveryOperationOfCallersHasAnExampleThatWorks(t *testing.T) {
	t.Parallel()
	desk, sent := captured(t)
	for number := range ledgerv1.Operation_name {
		operation := ledgerv1.Operation(number)
		switch operation {
		case ledgerv1.Operation_OPERATION_UNSPECIFIED, ledgerv1.Operation_OPERATION_REPAIR, ledgerv1.Operation_OPERATION_ADJUST, ledgerv1.Operation_OPERATION_RETURN:
			continue // the reconciler's and the ledger-writer's
		default:
		}
		help := call(t.Context(), nil, "submit", limits.OperationName(operation), "--help")
		_, example, found := strings.Cut(help.stdout, "Examples:\n  producer ")
		if help.code != 0 || !found {
			t.Errorf("%s: %+v", operation, help)
			continue
		}
		example, _, _ = strings.Cut(example, "\n")
		if got := call(t.Context(), desk, strings.Fields(example)...); got.code != 0 {
			t.Errorf("%s: %+v", example, got)
			continue
		}
		if cmd := <-sent; cmd.GetOperation() != operation {
			t.Errorf("%s: sent %v", example, cmd)
		}
	}
}

// A retry in another process must be the same command: a duration must not count from the retry, nor the dedupe window.
func TestARetryWithTheSameFlagsIsTheSameCommand(t *testing.T) {
	t.Parallel()
	desk, sent := captured(t)
	args := []string{"submit", "hold", "--account", "a", "--amount", "1", "--currency", "USD", "--expires", "1h", "--deadline", "5m", "--id", "019c5a5e-6400-7000-8000-000000000001"}
	var commands [2]*ledgerv1.Command
	for i := range commands {
		if got := call(t.Context(), desk, args...); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		commands[i] = <-sent
		commands[i].ReplyTo = ""
	}
	if !proto.Equal(commands[0], commands[1]) {
		t.Errorf("first %v\nthen  %v", commands[0], commands[1])
	}
}

func TestTheOutcomeShowsWhatACommandDid(t *testing.T) {
	t.Parallel()
	day := timestamppb.New(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))
	desk := answering.Open(t)
	desk.Serve([]uint64{0, 0, 0}, func(cmd *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		outcome.After = &ledgerv1.AccountState{
			Balance: "6000", Held: "1000", Floor: "-500", Sequence: 7, Unit: "EUR/2", Status: "frozen_credit", Ceiling: "90000", Available: "5500",
		}
		outcome.DecidedAt, outcome.BusinessDate = day, "2026-12-01"
		switch cmd.GetOperation() {
		case ledgerv1.Operation_OPERATION_CAPTURE:
			outcome.Delta, outcome.Legs = "-4000", []*ledgerv1.Leg{{CounterAccount: "@hotel", Amount: "3900"}, {CounterAccount: "@fees", Amount: "100"}}
			outcome.Hold = &ledgerv1.HoldState{HoldId: cmd.GetHoldId(), Remaining: "1000", ExpiresAt: day, CounterAccount: "@hotel"}
		default:
			outcome.Delta, outcome.TransferAccount = "-250", "bob"
			outcome.Reversal = &ledgerv1.Reversal{CommandId: limits.CreditID("move-1"), Total: "750"}
		}
	})
	capture := []string{"submit", "capture", "--account", "a", "--hold", "h-1"}
	reverse := []string{"submit", "reverse", "--account", "a", "--command", "move-1"}
	for _, c := range []struct {
		args  []string
		lines []string
	}{
		{capture, []string{
			"change -40.00 EUR", "other side 39.00 EUR @hotel", "other side 1.00 EUR @fees", "hold 10.00 EUR left of h-1 until 2026-11-30T09:00:00Z",
			"balance 60.00 EUR", "held 10.00 EUR", "available 55.00 EUR", "floor -5.00 EUR", "ceiling 900.00 EUR", "account is frozen_credit", "business date 2026-12-01",
		}},
		{reverse, []string{"change -2.50 EUR", "reversed 7.50 EUR in all of move-1", "transfer from bob"}},
	} {
		got := call(t.Context(), desk, c.args...)
		shown := map[string]bool{}
		for line := range strings.Lines(got.stdout) {
			shown[strings.Join(strings.Fields(line), " ")] = true
		}
		for _, line := range c.lines {
			if !shown[line] {
				t.Errorf("%q lacks %q:\n%s", c.args, line, got.stdout)
			}
		}
	}
	got := call(t.Context(), desk, append(capture, "-o", "json")...)
	var out struct {
		Legs  []struct{ Amount string }
		Hold  struct{ Remaining string }
		After struct{ Available, Ceiling, Held string }
		Date  string `json:"business_date"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &out); err != nil || len(out.Legs) != 2 || out.Hold.Remaining != "1000" ||
		out.After.Available != "5500" || out.After.Ceiling != "90000" || out.Date != "2026-12-01" {
		t.Errorf("%v: %s", err, got.stdout)
	}
}
