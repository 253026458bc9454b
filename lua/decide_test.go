package lua

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

const most = "999999999999999999" // 18 digits

func TestMoneyMovesBetweenFloorAndLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.expect(list(b.debit("a", "1"), b.open("a", ""), b.open("a", ""), b.debit("a", "1"), b.credit("a", "100"), b.debit("a", "101"), b.debit("a", "100")),
		"ACCOUNT_UNKNOWN 0 -",
		"applied 0 0@1",
		"ACCOUNT_EXISTS 0 0@1",
		"INSUFFICIENT_FUNDS 0 0@1",
		"applied 100 100@2",
		"INSUFFICIENT_FUNDS 0 100@2",
		"applied -100 0@3")
	b.expect(list(b.open("overdraft", "-50"), b.debit("overdraft", "51"), b.debit("overdraft", "50"), b.debit("overdraft", "1"), b.credit("overdraft", "20"), b.debit("overdraft", "20")),
		"applied 0 0@1", "INSUFFICIENT_FUNDS 0 0@1", "applied -50 -50@2", "INSUFFICIENT_FUNDS 0 -50@2", "applied 20 -30@3", "applied -20 -50@4")
	if got, want := b.record("overdraft"), "-50 4 USD/2 -50 active"; got != want {
		t.Errorf("record %q, not %q", got, want)
	}
	account, found, err := b.store.Account(t.Context(), b.shard, "overdraft")
	if want := (Account{ID: "overdraft", Balance: -50, Floor: -50, Sequence: 4, Unit: "USD/2", Status: "active"}); err != nil || !found || account != want {
		t.Errorf("read %+v %v %v, not %+v", account, found, err, want)
	}
	b.whole()
}

// Doubles are exact to 2^53 only: every figure here is one where they are not.
func TestAmountsAreExactTo18Digits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.expect(list(b.open("a", ""), b.credit("a", "9007199254740993"), b.debit("a", "9007199254740994"), b.debit("a", "1"), b.credit("a", "2")),
		"applied 0 0@1",
		"applied 9007199254740993 9007199254740993@2",
		"INSUFFICIENT_FUNDS 0 9007199254740993@2",
		"applied -1 9007199254740992@3",
		"applied 2 9007199254740994@4")
	b.expect(list(b.open("b", "-"+most), b.debit("b", most), b.debit("b", "1"), b.credit("b", most), b.credit("b", most), b.credit("b", "1"), b.debit("b", most), b.debit("b", most)),
		"applied 0 0@1",
		"applied -"+most+" -"+most+"@2",
		"INSUFFICIENT_FUNDS 0 -"+most+"@2",
		"applied "+most+" 0@3",
		"applied "+most+" "+most+"@4",
		"LIMIT_EXCEEDED 0 "+most+"@4",
		"applied -"+most+" 0@5",
		"applied -"+most+" -"+most+"@6")
	b.expect(list(b.open("c", "-9007199254740993"), b.debit("c", "9007199254740992"), b.debit("c", "2"), b.debit("c", "1")),
		"applied 0 0@1",
		"applied -9007199254740992 -9007199254740992@2",
		"INSUFFICIENT_FUNDS 0 -9007199254740992@2",
		"applied -1 -9007199254740993@3")
}

func TestCommandsOfOneAccountKeepTheirOrderInABatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.expect(list(b.open("a", ""), b.open("b", ""), b.credit("a", "100"), b.debit("a", "60"), b.debit("b", "1"), b.debit("a", "60"), b.credit("a", "10")),
		"applied 0 0@1", "applied 0 0@1", "applied 100 100@2", "applied -60 40@3", "INSUFFICIENT_FUNDS 0 0@1", "INSUFFICIENT_FUNDS 0 40@3", "applied 10 50@4")
	for i, event := range b.log() {
		if event.GetOutcome().GetPosition() != uint64(i+1) {
			t.Errorf("event %d has position %d", i, event.GetOutcome().GetPosition())
		}
	}
}

func TestConditionsAreJudgedAtTheWritersClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	deadline := func(after time.Duration) func(*ledgerv1.Command) {
		return func(c *ledgerv1.Command) { c.Deadline = timestamppb.New(b.now.Add(after)) }
	}
	sequence := func(n uint64) func(*ledgerv1.Command) {
		return func(c *ledgerv1.Command) { c.ExpectedSequence = &n }
	}
	b.expect(list(
		changed(b.open("late", ""), deadline(-time.Millisecond)),
		changed(b.open("a", ""), deadline(0)),
		changed(b.credit("a", "5"), deadline(time.Hour)),
		changed(b.credit("a", "5"), deadline(-time.Hour)),
		changed(b.credit("a", "5"), sequence(1)),
		changed(b.credit("a", "5"), sequence(2)),
		changed(b.credit("a", "5"), sequence(0)),
		changed(b.credit("a", "5"), sequence(1<<63)),
		changed(b.credit("nobody", "5"), sequence(1)),
		changed(changed(b.credit("a", "5"), sequence(7)), deadline(-1)),
		changed(b.credit("a", "5"), func(c *ledgerv1.Command) { c.Currency = "EUR" }),
		changed(b.credit("a", "5"), func(c *ledgerv1.Command) { c.Currency = "USD/2" }),
		changed(b.credit("a", "5"), func(c *ledgerv1.Command) { c.Deadline = timestamppb.New(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)) }),
		changed(b.credit("a", "5"), func(c *ledgerv1.Command) { c.Deadline = timestamppb.New(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)) }),
	),
		"DEADLINE_PASSED 0 -",
		"applied 0 0@1",
		"applied 5 5@2",
		"DEADLINE_PASSED 0 5@2",
		"SEQUENCE_MISMATCH 0 5@2",
		"applied 5 10@3",
		"SEQUENCE_MISMATCH 0 10@3",
		"SEQUENCE_MISMATCH 0 10@3",
		"ACCOUNT_UNKNOWN 0 -",
		"DEADLINE_PASSED 0 10@3",
		"CURRENCY_MISMATCH 0 10@3",
		"applied 5 15@4",
		"applied 5 20@5",
		"DEADLINE_PASSED 0 20@5")
}

func TestKnownIdsGetTheOutcomeTheyHad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pay := b.debit("a", "100")
	b.expect(list(b.open("a", ""), b.credit("a", "50"), pay, pay, b.credit("a", "100"), pay),
		"applied 0 0@1", "applied 50 50@2",
		"INSUFFICIENT_FUNDS 0 50@2", "remembered INSUFFICIENT_FUNDS 0 50@2", "applied 100 150@3", "remembered INSUFFICIENT_FUNDS 0 50@2")
	b.now = b.now.Add(time.Hour)
	first := b.apply(pay)[0]
	b.said([]Decision{first}, "remembered INSUFFICIENT_FUNDS 0 50@2")
	if at := first.Outcome.GetDecidedAt().AsTime(); !at.Equal(b.now.Add(-time.Hour)) {
		t.Errorf("a remembered outcome was decided at %s, not when it first was", at)
	}
	again := b.debit("a", "100")
	b.expect(list(again, again), "applied -100 50@4", "remembered applied -100 50@4")
	requested := changed(again, func(c *ledgerv1.Command) {
		c.RequestedAt, c.Source, c.ReplyTo, c.Traceparent = timestamppb.Now(), "elsewhere", "somebody", "00-1"
	})
	b.expect(list(requested), "remembered applied -100 50@4")
	if n := len(b.log()); n != 5 {
		t.Errorf("%d events for 5 command ids", n)
	}
}

func TestAnIdWithAnotherPayloadIsReportedAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(b.open("a", ""), b.open("other", ""), b.credit("a", "1000"))
	pay := b.debit("a", "100")
	other := func(change func(*ledgerv1.Command)) *ledgerv1.Command { return changed(pay, change) }
	more := other(func(c *ledgerv1.Command) { c.Amount = "200" })
	b.expect(list(pay, more), "applied -100 900@3", "reused applied -100 900@3")
	before := b.record("a")
	b.untouched("reuse", func() {
		b.expect(list(
			more,
			other(func(c *ledgerv1.Command) { c.Operation = ledgerv1.Operation_OPERATION_CREDIT }),
			other(func(c *ledgerv1.Command) { c.Currency = "EUR" }),
			other(func(c *ledgerv1.Command) { c.Account = "other" }),
			other(func(c *ledgerv1.Command) { c.Metadata = map[string]string{"k": "v"} }),
			pay,
		), "reused applied -100 900@3", "reused applied -100 900@3", "reused applied -100 900@3", "reused applied -100 900@3", "reused applied -100 900@3",
			"remembered applied -100 900@3")
	})
	if after := b.record("a"); after != before {
		t.Errorf("record %q became %q", before, after)
	}
}

func TestRefusalsAreRecordedLikeAnyOutcome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(b.open("a", ""))
	bad := b.debit("a", "nan")
	refuse := func(c *ledgerv1.Command, reason ledgerv1.Reason) Call {
		call := b.call(c)
		call.Commands[0].Refusal = reason
		return call
	}
	const invalidAmount = ledgerv1.Reason_REASON_INVALID_AMOUNT
	b.said(b.run(refuse(bad, invalidAmount)), "INVALID_AMOUNT 0 0@1")
	b.said(b.run(refuse(bad, invalidAmount)), "remembered INVALID_AMOUNT 0 0@1")
	b.said(b.run(refuse(b.credit("nobody", "-1"), invalidAmount)), "INVALID_AMOUNT 0 -")
	b.expect(list(changed(bad, func(c *ledgerv1.Command) { c.Amount = "1" })), "reused INVALID_AMOUNT 0 0@1")
	b.expect(list(changed(b.credit("a", "1"), func(c *ledgerv1.Command) { c.Operation = 0 })), "INVALID_OPERATION 0 0@1")
	b.expect(list(changed(b.credit("a", "1"), func(c *ledgerv1.Command) { c.Operation = 99 })), "INVALID_OPERATION 0 0@1")
	b.rebuild("g2", b.log()...)
	b.whole()
	for value, name := range ledgerv1.Reason_name {
		if value == 0 {
			continue
		}
		call := refuse(b.credit("a", "1"), ledgerv1.Reason(value))
		if got := said(b.run(call)[0]); got != name[len(reasonPrefix):]+" 0 0@1" {
			t.Errorf("refusal %s was recorded as %q", name, got)
		}
	}
}

func TestACallThatDecidesNothingNewLeavesNoEntry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	opening := b.open("a", "")
	first := b.store.Apply(t.Context(), b.call(opening))
	b.ok(first.Err)
	b.head = first.Head
	if first.Entry != first.Head.outboxID() {
		t.Errorf("entry %q, not %q", first.Entry, first.Head.outboxID())
	}
	b.untouched("nothing new", func() {
		for _, commands := range [][]*ledgerv1.Command{nil, {opening}, {opening, opening}} {
			if r := b.store.Apply(t.Context(), b.call(commands...)); r.Err != nil || r.Entry != "" || r.Head != b.head {
				t.Errorf("a call of %d known commands: %+v", len(commands), r)
			}
		}
	})
}
