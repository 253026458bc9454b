package limits_test

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// mistake is a line of docs/commands.md: what can be wrong with a command, for which operations, and the reason that it is rejected with.
// spoil does it to a good command; without one it depends on the account, so that the script decides it, and the tests of lua/ show it.
type mistake struct {
	what       string
	want       ledgerv1.Reason
	operations []ledgerv1.Operation
	spoil      func(*ledgerv1.Command)
}

func longID(bytes int) string { return strings.Repeat("i", bytes) }

func of(operations ...ledgerv1.Operation) []ledgerv1.Operation { return operations }

func but(left ...ledgerv1.Operation) []ledgerv1.Operation {
	var rest []ledgerv1.Operation
	for _, operation := range operations {
		if !slices.Contains(left, operation) {
			rest = append(rest, operation)
		}
	}
	return rest
}

// commonMistakes can be made with every operation, or nearly.
var commonMistakes = []mistake{
	{"not a `ledger.v1.Command`, or more than 64 KiB: a dead letter, without an outcome", 0, operations, nil},
	{"no command id, one of more than 128 bytes, not UTF-8, with control characters", ledgerv1.Reason_REASON_INVALID_COMMAND_ID, operations,
		func(c *ledgerv1.Command) { c.CommandId = longID(129) }},
	{"a command id that starts with `@`, and is not the very one that the ledger derives", ledgerv1.Reason_REASON_INVALID_COMMAND_ID, operations,
		func(c *ledgerv1.Command) { c.CommandId = "@credit/c-1" }},
	{"a command id that is known with another payload", ledgerv1.Reason_REASON_COMMAND_ID_REUSED, operations, nil},
	{"no operation, or one that this ledger does not know", ledgerv1.Reason_REASON_INVALID_OPERATION, but(returning),
		func(c *ledgerv1.Command) { c.Operation = 99 }},
	{"terms of another operation", ledgerv1.Reason_REASON_INVALID_OPERATION, operations,
		func(c *ledgerv1.Command) { c.Open, c.Repair = &ledgerv1.OpenTerms{}, &ledgerv1.RepairTerms{} }},
	{"an origin, or a return, from anybody but the ledger", ledgerv1.Reason_REASON_INVALID_OPERATION, but(returning),
		func(c *ledgerv1.Command) { c.Origin = &ledgerv1.Origin{CommandId: "t-1", Account: "bob"} }},
	{"no account, a malformed or an external one", ledgerv1.Reason_REASON_INVALID_ACCOUNT, operations,
		func(c *ledgerv1.Command) { c.Account = limits.World }},
	{"an unknown currency, or one with a wrong exponent", ledgerv1.Reason_REASON_INVALID_CURRENCY, operations,
		func(c *ledgerv1.Command) { c.Currency = "JPY/2" }},
	{"a reference, description, source or metadata beyond its length, or not UTF-8", ledgerv1.Reason_REASON_INVALID_TEXT, operations,
		func(c *ledgerv1.Command) { c.Description = strings.Repeat("d", 1025) }},
	{"a time that is none, or an effective time before 1900 or after 2200", ledgerv1.Reason_REASON_INVALID_TIME, operations,
		func(c *ledgerv1.Command) { c.EffectiveTime = &timestamppb.Timestamp{Seconds: 1_800_000_000_000} }},
	{"decided after its deadline", ledgerv1.Reason_REASON_DEADLINE_PASSED, operations, nil},
	{"the account is not at the expected sequence", ledgerv1.Reason_REASON_SEQUENCE_MISMATCH, operations, nil},
	{"the account was never opened", ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN, but(open, repair), nil},
	{"the account is in another currency", ledgerv1.Reason_REASON_CURRENCY_MISMATCH, but(open, repair), nil},
	{"the account is closed", ledgerv1.Reason_REASON_ACCOUNT_CLOSED, but(open, adjust, repair, returning, release), nil},
}

// mistakes are those of some operations.
var mistakes = []mistake{
	{"an id of more than 119 bytes: the ledger derives others from it", ledgerv1.Reason_REASON_INVALID_COMMAND_ID, of(hold, transfer, reverse),
		func(c *ledgerv1.Command) { c.CommandId = longID(120) }},

	// Counter accounts.
	{"a counter account", ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, of(open, setLimits, freeze, unfreeze, closing, release, reverse, repair),
		func(c *ledgerv1.Command) { c.CounterAccount = "@shop" }},
	{"a counter account that is controlled, such as the account itself", ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, of(debit, credit, hold, capture, adjust),
		func(c *ledgerv1.Command) { c.CounterAccount = "alice" }},
	{"a malformed counter account", ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, of(debit, credit, hold, capture, transfer, adjust),
		func(c *ledgerv1.Command) { c.CounterAccount = "@a\n" }},
	{"the counter account `@transit`, which is for transfers under way", ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, of(debit, credit, hold, capture, transfer),
		func(c *ledgerv1.Command) { c.CounterAccount = limits.Transit }},
	{"no counter account to transfer to", ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, of(transfer),
		func(c *ledgerv1.Command) { c.CounterAccount = "" }},
	{"a transfer to the account itself", ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, of(transfer),
		func(c *ledgerv1.Command) { c.CounterAccount = c.Account }},

	// Amounts.
	{"no amount, zero, or not digits alone (`12.50`, `1e3`, `+5`, `05`)", ledgerv1.Reason_REASON_INVALID_AMOUNT, of(debit, credit, hold, transfer, adjust, returning),
		func(c *ledgerv1.Command) { c.Amount = "0" }},
	{"zero, or not digits alone (no amount means all that is left)", ledgerv1.Reason_REASON_INVALID_AMOUNT, of(capture, release, reverse),
		func(c *ledgerv1.Command) { c.Amount = "1.00" }},
	{"an amount with a sign", ledgerv1.Reason_REASON_INVALID_AMOUNT, of(debit, credit, hold, transfer, capture, release, reverse, returning),
		func(c *ledgerv1.Command) { c.Amount = "-1" }},
	{"an amount", ledgerv1.Reason_REASON_INVALID_AMOUNT, of(open, setLimits, freeze, unfreeze, closing, repair),
		func(c *ledgerv1.Command) { c.Amount = "1" }},
	{"an amount of more than 18 digits", ledgerv1.Reason_REASON_LIMIT_EXCEEDED, of(debit, credit, hold, transfer, capture, release, reverse, adjust, returning),
		func(c *ledgerv1.Command) { c.Amount = "1000000000000000000" }},
	{"no currency", ledgerv1.Reason_REASON_INVALID_CURRENCY, of(open, debit, credit, hold, transfer, adjust, returning),
		func(c *ledgerv1.Command) { c.Currency = "" }},

	// Legs.
	{"legs that add up to less than the amount", ledgerv1.Reason_REASON_INVALID_LEGS, of(debit, credit),
		func(c *ledgerv1.Command) { c.Legs = []*ledgerv1.Leg{leg("@a", "1000"), leg("@b", "249")} }},
	{"legs that add up to more than the amount, however large", ledgerv1.Reason_REASON_INVALID_LEGS, of(debit, credit),
		func(c *ledgerv1.Command) {
			c.Legs = []*ledgerv1.Leg{leg("@a", "1249"), leg("@b", "999999999999999999")}
		}},
	{"a leg of nothing, below zero, or not digits alone", ledgerv1.Reason_REASON_INVALID_LEGS, of(debit, credit),
		func(c *ledgerv1.Command) { c.Legs = []*ledgerv1.Leg{leg("@a", "1251"), leg("@b", "-1")} }},
	{"more than 100 legs (10,000 are more than 64 KiB: a dead letter)", ledgerv1.Reason_REASON_INVALID_LEGS, of(debit, credit, capture),
		func(c *ledgerv1.Command) { c.Amount, c.Legs = "10000", legsOf(10_000) }},
	{"a leg with no counter account, a controlled one or `@transit`", ledgerv1.Reason_REASON_INVALID_LEGS, of(debit, credit),
		func(c *ledgerv1.Command) { c.Legs = []*ledgerv1.Leg{leg("bob", "1250")} }},
	{"legs, and a counter account beside them", ledgerv1.Reason_REASON_INVALID_LEGS, of(debit, credit, capture),
		func(c *ledgerv1.Command) {
			c.Amount, c.Legs, c.CounterAccount = "1250", []*ledgerv1.Leg{leg("@a", "1250")}, "@shop"
		}},
	{"legs that do not add up to the amount, or no amount for them to add up to", ledgerv1.Reason_REASON_INVALID_LEGS, of(capture),
		func(c *ledgerv1.Command) { c.Legs = []*ledgerv1.Leg{leg("@a", "1250")} }},

	// Terms.
	{"a floor above zero, or no number", ledgerv1.Reason_REASON_INVALID_FLOOR, of(open, setLimits), withFloor("1")},
	{"a ceiling below zero, or no number", ledgerv1.Reason_REASON_INVALID_CEILING, of(open, setLimits), withCeiling("-1")},
	{"a floor or ceiling of more than 18 digits", ledgerv1.Reason_REASON_LIMIT_EXCEEDED, of(open, setLimits), withCeiling("1000000000000000000")},
	{"neither floor nor ceiling", ledgerv1.Reason_REASON_INVALID_OPERATION, of(setLimits),
		func(c *ledgerv1.Command) { c.Limits = &ledgerv1.LimitTerms{} }},
	{"the account is open already, or was closed", ledgerv1.Reason_REASON_ACCOUNT_EXISTS, of(open), nil},
	{"the floor is above balance less held", ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS, of(setLimits), nil},
	{"the balance is above the ceiling", ledgerv1.Reason_REASON_LIMIT_EXCEEDED, of(setLimits), nil},
	{"no direction, or an unknown one", ledgerv1.Reason_REASON_INVALID_DIRECTION, of(freeze, unfreeze),
		func(c *ledgerv1.Command) { c.Direction = 0 }},
	{"the account has a balance, or open holds", ledgerv1.Reason_REASON_ACCOUNT_NOT_EMPTY, of(closing), nil},

	// Holds.
	{"an end that is zero (1970) or nearly", ledgerv1.Reason_REASON_HOLD_EXPIRED, of(hold),
		func(c *ledgerv1.Command) { c.Hold = &ledgerv1.HoldTerms{ExpiresAt: &timestamppb.Timestamp{}} }},
	{"an end that is no time, or before 1900 or after 2200", ledgerv1.Reason_REASON_INVALID_TIME, of(hold),
		func(c *ledgerv1.Command) {
			c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(limits.EffectiveTimeMax.Add(time.Second))}
		}},
	{"an end that is past when the hold is decided", ledgerv1.Reason_REASON_HOLD_EXPIRED, of(hold), nil},
	{"no hold id, or one that no hold can have", ledgerv1.Reason_REASON_INVALID_HOLD, of(capture, release),
		func(c *ledgerv1.Command) { c.HoldId = "@expire/h-1" }},
	{"no such hold, another account's, or nothing is left of it", ledgerv1.Reason_REASON_HOLD_UNKNOWN, of(capture, release), nil},
	{"more than is left of the hold", ledgerv1.Reason_REASON_HOLD_EXCEEDED, of(capture, release), nil},
	{"the hold's time is over", ledgerv1.Reason_REASON_HOLD_EXPIRED, of(capture), nil},

	// Reversals.
	{"no command id to reverse, a malformed one or one that starts with `@`", ledgerv1.Reason_REASON_INVALID_REVERSAL, of(reverse),
		func(c *ledgerv1.Command) { c.Reverse.CommandId = "@credit/t-1" }},
	{"a reversal of itself", ledgerv1.Reason_REASON_INVALID_REVERSAL, of(reverse),
		func(c *ledgerv1.Command) { c.Reverse.CommandId = c.CommandId }},
	{"what was rejected, moved nothing, is another account's, unknown, or too old to be remembered", ledgerv1.Reason_REASON_NOT_REVERSIBLE, of(reverse), nil},
	{"a reversal, a return, or the near end of a transfer", ledgerv1.Reason_REASON_NOT_REVERSIBLE, of(reverse), nil},
	{"more than is left, or nothing is; a part of what went to several accounts", ledgerv1.Reason_REASON_NOT_REVERSIBLE, of(reverse), nil},

	// Money.
	{"more than is available", ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS, of(debit, hold, transfer), nil},
	{"takes back more than is available, without `allow_overdraft`", ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS, of(reverse), nil},
	{"the account is frozen for debits", ledgerv1.Reason_REASON_ACCOUNT_FROZEN, of(debit, hold, capture, transfer), nil},
	{"the account is frozen for credits", ledgerv1.Reason_REASON_ACCOUNT_FROZEN, of(credit), nil},
	{"the account is frozen in the direction in which the money goes back", ledgerv1.Reason_REASON_ACCOUNT_FROZEN, of(reverse), nil},
	{"the balance would be above the ceiling", ledgerv1.Reason_REASON_LIMIT_EXCEEDED, of(credit, reverse), nil},
	{"the balance, or what is held, would have more than 18 digits, above or below zero", ledgerv1.Reason_REASON_LIMIT_EXCEEDED,
		of(credit, hold, capture, reverse, adjust), nil},
	{"the far end was never opened: the money is back", ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN, of(transfer), nil},
	{"the far end is closed: the money is back", ledgerv1.Reason_REASON_ACCOUNT_CLOSED, of(transfer), nil},
	{"the far end is frozen for credits: the money is back", ledgerv1.Reason_REASON_ACCOUNT_FROZEN, of(transfer), nil},
	{"the far end is in another currency: the money is back", ledgerv1.Reason_REASON_CURRENCY_MISMATCH, of(transfer), nil},
	{"the far end's balance would be above its ceiling, or have more than 18 digits: the money is back", ledgerv1.Reason_REASON_LIMIT_EXCEEDED, of(transfer), nil},

	// The ledger's own.
	{"no snapshot of the log, or one that no account can have had", ledgerv1.Reason_REASON_INVALID_REPAIR, of(repair),
		func(c *ledgerv1.Command) { c.Repair.Log.Status = "gone" }},
	{"a snapshot of Redis that cannot be read", ledgerv1.Reason_REASON_INVALID_REPAIR, of(repair),
		func(c *ledgerv1.Command) { c.Repair.Seen = &ledgerv1.AccountSnapshot{Balance: "1|2"} }},
	{"no run, break or generation", ledgerv1.Reason_REASON_INVALID_REPAIR, of(repair),
		func(c *ledgerv1.Command) { c.Repair.RunId = "" }},
	{"Redis is not what was seen any more", ledgerv1.Reason_REASON_SEQUENCE_MISMATCH, of(repair), nil},
	{"no origin, or one that is no transfer's", ledgerv1.Reason_REASON_INVALID_OPERATION, of(returning),
		func(c *ledgerv1.Command) { c.Origin.Account = c.Account }},
	{"a counter account other than `@transit`", ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, of(returning),
		func(c *ledgerv1.Command) { c.CounterAccount = limits.World }},
}

func withFloor(floor string) func(*ledgerv1.Command) {
	return func(c *ledgerv1.Command) { withLimits(c, floor, "0") }
}

func withCeiling(ceiling string) func(*ledgerv1.Command) {
	return func(c *ledgerv1.Command) { withLimits(c, "0", ceiling) }
}

func withLimits(c *ledgerv1.Command, floor, ceiling string) {
	if c.GetOperation() == open {
		c.Open = &ledgerv1.OpenTerms{Floor: floor, Ceiling: ceiling}
		return
	}
	c.Limits = &ledgerv1.LimitTerms{Floor: proto.String(floor), Ceiling: proto.String(ceiling)}
}
