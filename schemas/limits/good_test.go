package limits_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	open      = ledgerv1.Operation_OPERATION_OPEN
	debit     = ledgerv1.Operation_OPERATION_DEBIT
	credit    = ledgerv1.Operation_OPERATION_CREDIT
	repair    = ledgerv1.Operation_OPERATION_REPAIR
	hold      = ledgerv1.Operation_OPERATION_HOLD
	capture   = ledgerv1.Operation_OPERATION_CAPTURE
	release   = ledgerv1.Operation_OPERATION_RELEASE
	transfer  = ledgerv1.Operation_OPERATION_TRANSFER
	reverse   = ledgerv1.Operation_OPERATION_REVERSE
	setLimits = ledgerv1.Operation_OPERATION_SET_LIMITS
	freeze    = ledgerv1.Operation_OPERATION_FREEZE
	unfreeze  = ledgerv1.Operation_OPERATION_UNFREEZE
	closing   = ledgerv1.Operation_OPERATION_CLOSE
	adjust    = ledgerv1.Operation_OPERATION_ADJUST
	returning = ledgerv1.Operation_OPERATION_RETURN
)

// operations are all of them, in the order in which people read about them.
var operations = []ledgerv1.Operation{
	open, setLimits, freeze, unfreeze, closing, debit, credit, hold, capture, release, transfer, reverse, adjust, repair, returning,
}

// good returns a command that passes, for a test to spoil.
func good(operation ledgerv1.Operation) *ledgerv1.Command {
	cmd := &ledgerv1.Command{CommandId: "c-1", Operation: operation, Account: "alice"}
	switch operation {
	case open:
		cmd.Currency = "USD"
	case repair:
		cmd.Repair = &ledgerv1.RepairTerms{
			Log:        &ledgerv1.AccountSnapshot{Sequence: 3, Balance: "100", Held: "0", Floor: "0", Unit: "USD/2"},
			Generation: "3f2b8c1e-0000-4000-8000-000000000000", RunId: "run-1", BreakId: "break-1",
		}
	case debit, credit, hold, adjust:
		cmd.Currency, cmd.Amount = "USD", "1250"
	case transfer:
		cmd.Currency, cmd.Amount, cmd.CounterAccount = "USD", "1250", "bob"
	case capture, release:
		cmd.HoldId = "h-1"
	case reverse:
		cmd.Reverse = &ledgerv1.ReverseTerms{CommandId: "c-0"}
	case setLimits:
		cmd.Limits = &ledgerv1.LimitTerms{Floor: proto.String("-5000"), Ceiling: proto.String("100000")}
	case freeze, unfreeze:
		cmd.Direction = ledgerv1.Direction_DIRECTION_BOTH
	case returning:
		cmd.CommandId, cmd.Origin = limits.ReturnID("t-1"), &ledgerv1.Origin{CommandId: "t-1", Account: "bob", Reason: ledgerv1.Reason_REASON_ACCOUNT_CLOSED}
		cmd.Currency, cmd.Amount, cmd.CounterAccount = "USD", "1250", limits.Transit
	case closing, ledgerv1.Operation_OPERATION_UNSPECIFIED:
	}
	return cmd
}

func leg(counterAccount, amount string) *ledgerv1.Leg {
	return &ledgerv1.Leg{CounterAccount: counterAccount, Amount: amount}
}

func legsOf(n int) []*ledgerv1.Leg {
	legs := make([]*ledgerv1.Leg, n)
	for i := range legs {
		legs[i] = leg("@staff", "1")
	}
	return legs
}

// What each operation may look like beside the plain form.
func TestGoodCommandsOfEveryOperationPass(t *testing.T) {
	t.Parallel()
	later := timestamppb.New(time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC))
	for _, operation := range operations {
		checkGood(t, "plain", good(operation))
		withCurrency := good(operation)
		withCurrency.Currency = "USD"
		checkGood(t, "with currency", withCurrency)
	}
	for _, c := range []struct {
		name      string
		operation ledgerv1.Operation
		change    func(*ledgerv1.Command)
	}{
		{"floor and ceiling", open, func(c *ledgerv1.Command) { c.Open = &ledgerv1.OpenTerms{Floor: "-1", Ceiling: "0"} }},
		{"ceiling alone", setLimits, func(c *ledgerv1.Command) { c.Limits = &ledgerv1.LimitTerms{Ceiling: proto.String("0")} }},
		{"no ceiling any more", setLimits, func(c *ledgerv1.Command) { c.Limits = &ledgerv1.LimitTerms{Ceiling: proto.String("none")} }},
		{"a hundred legs", debit, func(c *ledgerv1.Command) { c.Amount, c.Legs = "100", legsOf(100) }},
		{"one leg", credit, func(c *ledgerv1.Command) { c.Legs = []*ledgerv1.Leg{leg("@shop", "1250")} }},
		{"the largest legs", debit, func(c *ledgerv1.Command) {
			c.Amount, c.Legs = "999999999999999999", []*ledgerv1.Leg{leg("@a", "999999999999999998"), leg("@b", "1")}
		}},
		{"capture in legs", capture, func(c *ledgerv1.Command) { c.Amount, c.Legs = "3", []*ledgerv1.Leg{leg("@a", "2"), leg("@world", "1")} }},
		{"part of a hold", capture, func(c *ledgerv1.Command) { c.Amount, c.CounterAccount = "3", "@shop" }},
		{"part of a hold", release, func(c *ledgerv1.Command) { c.Amount = "3" }},
		{"hold with an end", hold, func(c *ledgerv1.Command) { c.Hold, c.CounterAccount = &ledgerv1.HoldTerms{ExpiresAt: later}, "@shop" }},
		{"hold whose end is past for all we know", hold, func(c *ledgerv1.Command) {
			c.Hold = &ledgerv1.HoldTerms{ExpiresAt: &timestamppb.Timestamp{Nanos: 1e6}}
		}},
		{"transfer to an external account", transfer, func(c *ledgerv1.Command) { c.CounterAccount = "@world" }},
		{"longest id of a transfer", transfer, func(c *ledgerv1.Command) { c.CommandId = longID(105) }},
		{"part of a reversal", reverse, func(c *ledgerv1.Command) { c.Amount, c.Reverse.AllowOverdraft = "3", true }},
		{"downwards", adjust, func(c *ledgerv1.Command) { c.Amount = "-999999999999999999" }},
		{"what is stuck in transit", adjust, func(c *ledgerv1.Command) { c.CounterAccount = limits.Transit }},
		{"of a reversal", returning, func(c *ledgerv1.Command) { c.Origin.Reason = 0 }},
		{"far end of a transfer", credit, func(c *ledgerv1.Command) {
			c.CommandId, c.CounterAccount = limits.CreditID(longID(105)), limits.Transit
			c.Origin = &ledgerv1.Origin{CommandId: longID(105), Account: "bob"}
		}},
		{"end of a hold", release, func(c *ledgerv1.Command) { c.CommandId = limits.ExpireID("h-1") }},
	} {
		cmd := good(c.operation)
		c.change(cmd)
		checkGood(t, c.name, cmd)
	}
}

func checkGood(t *testing.T, name string, cmd *ledgerv1.Command) {
	t.Helper()
	if got, err := limits.Command(cmd); err != nil || got != ledgerv1.Reason_REASON_UNSPECIFIED {
		t.Errorf("%s, %s: %s: %v", limits.OperationName(cmd.GetOperation()), name, got, err)
	}
	if !limits.Recordable(cmd) {
		t.Errorf("%s, %s: no outcome could be recorded", limits.OperationName(cmd.GetOperation()), name)
	}
}
