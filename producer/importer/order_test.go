package importer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/producer/internal/answering"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func debitOf(account string) *ledgerv1.Command {
	return &ledgerv1.Command{
		CommandId: producer.NewCommandID(), Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: account, Amount: "1", Currency: "USD",
	}
}

func transferOf(from, to string) *ledgerv1.Command {
	cmd := debitOf(from)
	cmd.Operation, cmd.CounterAccount = ledgerv1.Operation_OPERATION_TRANSFER, to
	return cmd
}

// A transfer arrives by way of another shard. Were its far end's next debit sent at once, it could be decided before the money is there.
func TestTheOrderOfTheFileHoldsAcrossTransfers(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	o := newOrder()
	send := func(cmd *ledgerv1.Command) *ledgerv1.Command {
		t.Helper()
		p, err := client.Send(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		o.sent(cmd, p)
		return desk.Next()
	}
	// waits tells whether the command has to wait: with a context that has ended, it cannot.
	waits := func(cmd *ledgerv1.Command) bool { return errors.Is(o.wait(ended, cmd), producer.ErrOutcomeUnknown) }
	answer := func(cmd *ledgerv1.Command) {
		t.Helper()
		desk.Reply(&ledgerv1.Reply{ReplyTo: cmd.GetReplyTo(), Outcome: answering.Applied(cmd)})
	}
	debit := send(debitOf("b"))
	if waits(debitOf("b")) || waits(transferOf("b", "c")) || waits(transferOf("b", "@b")) {
		t.Error("the ledger keeps the order of one account; nothing to wait for")
	}
	if !waits(transferOf("a", "b")) {
		t.Error("a transfer may arrive before what its far end was sent earlier")
	}
	answer(debit)
	if err := o.wait(t.Context(), transferOf("a", "b")); err != nil {
		t.Fatal(err)
	}
	first, second := send(transferOf("a", "b")), send(transferOf("c", "b"))
	if waits(debitOf("a")) || waits(debitOf("d")) || waits(transferOf("d", "b")) {
		t.Error("only what the far end is sent next has to wait")
	}
	if !waits(debitOf("b")) {
		t.Error("a debit may be decided before a transfer arrives")
	}
	o.arriving["b"] = []*producer.Pending{o.own["a"], o.own["c"]} // what the import, which ends here, takes off
	answer(first)
	answer(second)
	if err := o.wait(t.Context(), debitOf("b")); err != nil || waits(debitOf("b")) {
		t.Errorf("both are decided: %v", err)
	}
}

// What a reversed transfer gives back is on its way before the reversal is answered, but to whom, the file does not say.
func TestEverythingWaitsForAReversal(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	o := newOrder()
	reversal := debitOf("b")
	reversal.Operation, reversal.Amount, reversal.Currency = ledgerv1.Operation_OPERATION_REVERSE, "", ""
	reversal.Reverse = &ledgerv1.ReverseTerms{CommandId: "t-1"}
	p, err := desk.Client(nil).Send(t.Context(), reversal)
	if err != nil {
		t.Fatal(err)
	}
	o.sent(reversal, p)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.wait(ended, debitOf("a")); !errors.Is(err, producer.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if err := o.wait(ended, debitOf("a")); err != nil {
		t.Errorf("one wait is enough: %v", err)
	}
}

func TestAccountsWithNothingUnderWayAreForgotten(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	desk.Serve([]uint64{0, 0, 0}, func(*ledgerv1.Command, *ledgerv1.Outcome) {})
	o := newOrder()
	for i := range 3 {
		cmd := transferOf(fmt.Sprint("from-", i), fmt.Sprint("to-", i))
		p, err := client.Send(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.sent(cmd, p)
	}
	o.sweep()
	if len(o.own) > 0 || len(o.arriving) > 0 || o.sweepAt != accountsMin {
		t.Errorf("kept %v, %v, sweeps at %d", o.own, o.arriving, o.sweepAt)
	}
}
