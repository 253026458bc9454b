package e2e

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
)

// submit sends a step, and fails the test unless it becomes what is wanted: a reason, or "" for applied.
func submit(t *testing.T, client *producer.Client, text, want string) *ledgerv1.Outcome {
	t.Helper()
	cmd := step(t, text)
	if cmd.GetCommandId() == "" {
		cmd.CommandId = producer.NewCommandID()
	}
	outcome, err := client.Submit(t.Context(), cmd)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if got := reason.Of(outcome.GetReason()).Code; got != want {
		t.Fatalf("%q became %q, want %q", text, got, want)
	}
	return outcome
}

// decided is a ledger that decides and does not project.
func decided(t *testing.T) *whole {
	t.Helper()
	w := setup(t)
	if _, err := w.StartWriter(); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTheOutcomeOfAHoldSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := decided(t)
	check := func(outcome *ledgerv1.Outcome, delta, balance, held, available, remaining string, legs ...string) {
		t.Helper()
		after := outcome.GetAfter()
		if outcome.GetDelta() != delta || after.GetBalance() != balance || after.GetHeld() != held || after.GetAvailable() != available ||
			outcome.GetHold().GetRemaining() != remaining || outcome.GetHold().GetHoldId() != "h" || outcome.GetBusinessDate() == "" {
			t.Errorf("got %v", outcome)
		}
		if len(outcome.GetLegs()) != len(legs) {
			t.Errorf("legs %v, want %v", outcome.GetLegs(), legs)
			return
		}
		for i, leg := range outcome.GetLegs() {
			if leg.GetCounterAccount()+" "+leg.GetAmount() != legs[i] {
				t.Errorf("legs %v, want %v", outcome.GetLegs(), legs)
			}
		}
	}
	submit(t, w.client, `open a - open:{floor:"-10"}`, "")
	submit(t, w.client, "credit a 100", "")
	check(submit(t, w.client, `hold a 80 command_id:"h" counter_account:"@hotel"`, ""), "0", "100", "80", "30", "80")
	check(submit(t, w.client, `capture a 30 hold_id:"h"`, ""), "-30", "70", "50", "30", "50", "@hotel 30")
	check(submit(t, w.client, `release a 5 hold_id:"h"`, ""), "0", "70", "45", "35", "45")
	check(submit(t, w.client, `capture a 20 hold_id:"h" legs:{counter_account:"@x" amount:"19"} legs:{counter_account:"@y" amount:"1"}`, ""),
		"-20", "50", "25", "35", "25", "@x 19", "@y 1")
	check(submit(t, w.client, `capture a - hold_id:"h"`, ""), "-25", "25", "0", "35", "0", "@hotel 25")
}

// A transfer has one outcome, whoever asks for it again, and whatever has changed since.
func TestARetriedTransferIsToldItsOneOutcome(t *testing.T) {
	t.Parallel()
	w := decided(t)
	other, err := w.Producer(t.Context(), "another caller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	for _, text := range []string{"open a -", "open b -", "credit a 100"} {
		submit(t, w.client, text, "")
	}
	const move, refused = `transfer a 30 command_id:"move" counter_account:"b"`, `transfer a 50 command_id:"refused" counter_account:"b"`
	first := submit(t, w.client, move, "")
	if first.GetDelta() != "-30" || first.GetAfter().GetBalance() != "70" || first.GetAccount() != "a" {
		t.Errorf("got %v", first)
	}
	submit(t, w.client, "freeze b - direction:DIRECTION_CREDIT", "")
	back := submit(t, w.client, refused, "ACCOUNT_FROZEN")
	if back.GetDelta() != "0" || back.GetAfter().GetBalance() != "70" || back.GetCommandId() != "refused" {
		t.Errorf("got %v", back)
	}
	submit(t, w.client, "unfreeze b - direction:DIRECTION_BOTH", "")
	submit(t, w.client, "debit b 30", "")
	for _, client := range []*producer.Client{w.client, other} {
		if again := submit(t, client, move, ""); !proto.Equal(again, first) {
			t.Errorf("first %v\nagain %v", first, again)
		}
		if again := submit(t, client, refused, "ACCOUNT_FROZEN"); !proto.Equal(again, back) {
			t.Errorf("first %v\nagain %v", back, again)
		}
	}
	if left := submit(t, w.client, "credit a 1", ""); left.GetAfter().GetBalance() != "71" || left.GetAfter().GetSequence() != 6 {
		t.Errorf("a stands at %v", left.GetAfter())
	}
}

func TestATransferIsReversedOnTheAccountThatReceivedIt(t *testing.T) {
	t.Parallel()
	w := decided(t)
	for _, text := range []string{"open a -", "open b -", "credit a 100", `transfer a 30 command_id:"move" counter_account:"b"`} {
		submit(t, w.client, text, "")
	}
	part := submit(t, w.client, `reverse b 10 reverse:{command_id:"move"}`, "")
	if part.GetDelta() != "-10" || part.GetTransferAccount() != "a" || part.GetReversal().GetTotal() != "10" || part.GetReversal().GetCommandId() != "@credit/move" {
		t.Errorf("got %v", part)
	}
	if rest := submit(t, w.client, `reverse b - reverse:{command_id:"move"}`, ""); rest.GetDelta() != "-20" || rest.GetReversal().GetTotal() != "30" {
		t.Errorf("got %v", rest)
	}
	submit(t, w.client, `reverse b - reverse:{command_id:"move"}`, "NOT_REVERSIBLE")
	if back := submit(t, w.client, "credit a 1", ""); back.GetAfter().GetBalance() != "101" { // sent after the money was on its way back
		t.Errorf("a stands at %v", back.GetAfter())
	}
}
