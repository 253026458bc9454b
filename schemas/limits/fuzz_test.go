package limits_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
)

// Whatever bytes are on the wire, they are answered: with a reason and what to do, or as a command that the script can work with.
func FuzzCommand(f *testing.F) {
	add := func(cmd *ledgerv1.Command) {
		if wire, err := proto.Marshal(cmd); err == nil { // what cannot be sent cannot be received
			f.Add(wire)
		}
	}
	for _, operation := range operations {
		add(good(operation))
		for _, m := range append(commonMistakes, mistakes...) {
			if m.spoil != nil && len(m.operations) > 0 {
				cmd := good(operation)
				if operation == m.operations[0] {
					m.spoil(cmd)
				}
				add(cmd)
			}
		}
	}
	for _, operation := range []int32{-1, 0, 16, 1 << 30} {
		for _, other := range operations {
			cmd := good(other)
			cmd.Operation = ledgerv1.Operation(operation)
			add(cmd)
		}
	}
	add(&ledgerv1.Command{CommandId: "c", Account: "a", Operation: debit, Amount: "1", Currency: "USD", Legs: []*ledgerv1.Leg{{}, nil}})
	f.Fuzz(func(t *testing.T, wire []byte) {
		cmd := &ledgerv1.Command{}
		if proto.Unmarshal(wire, cmd) != nil {
			return
		}
		why, err := limits.Command(cmd)
		recordable := limits.Recordable(cmd)
		switch {
		case (err == nil) != (why == ledgerv1.Reason_REASON_UNSPECIFIED):
			t.Fatalf("%s with the error %v", why, err)
		case err != nil && (err.Error() == "" || len(err.Error()) > 1000):
			t.Fatalf("%s: the error does not help: %.600v", why, err)
		case why == ledgerv1.Reason_REASON_INVALID_COMMAND_ID && recordable:
			t.Fatalf("recordable under the id %q: %v", cmd.GetCommandId(), err)
		case err != nil:
			return
		case !recordable:
			t.Fatalf("good, and no outcome could be recorded: %v", cmd)
		}
		checkUsable(t, cmd)
	})
}

// checkUsable holds a command that passed against what the script and the projector count on.
func checkUsable(t *testing.T, cmd *ledgerv1.Command) {
	t.Helper()
	var v int64
	if cmd.GetAmount() != "" {
		var err error
		if v, err = money.ParseMinor(cmd.GetAmount()); err != nil || v == 0 || v < 0 && cmd.GetOperation() != adjust {
			t.Fatalf("the amount %q of a %s", cmd.GetAmount(), cmd.GetOperation())
		}
	}
	if limits.External(cmd.GetAccount()) {
		t.Fatalf("the account %q is external", cmd.GetAccount())
	}
	if counter := cmd.GetCounterAccount(); counter != "" && !limits.External(counter) && (cmd.GetOperation() != transfer || counter == cmd.GetAccount()) {
		t.Fatalf("a %s of %q with %q", cmd.GetOperation(), cmd.GetAccount(), counter)
	}
	if len(cmd.GetLegs()) == 0 {
		return
	}
	for _, l := range cmd.GetLegs() {
		part, err := money.ParseMinor(l.GetAmount())
		if err != nil || part <= 0 || !limits.External(l.GetCounterAccount()) {
			t.Fatalf("the leg %v", l)
		}
		if v -= part; v < 0 {
			t.Fatalf("legs beyond the amount %q", cmd.GetAmount())
		}
	}
	if v != 0 {
		t.Fatalf("the legs leave %d of %q", v, cmd.GetAmount())
	}
}
