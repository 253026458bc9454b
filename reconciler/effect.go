package reconciler

import (
	"fmt"
	"math/big"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// contradiction says in what an event's effect is not that of its command; "" where it is.
func contradiction(e *ledgerv1.Event) string {
	o, c := e.GetOutcome(), e.GetCommand()
	want, known := asked(o, c)
	switch {
	case known && o.GetDelta() != want:
		return fmt.Sprintf("command %q should move %s minor units, its event at position %d moved %s", o.GetCommandId(), want, o.GetPosition(), o.GetDelta())
	case c.GetOperation() == ledgerv1.Operation_OPERATION_HOLD && o.GetStatus() == ledgerv1.Status_STATUS_APPLIED && o.GetHold().GetRemaining() != c.GetAmount():
		return fmt.Sprintf("command %q should hold %s minor units, its event at position %d holds %q", o.GetCommandId(), c.GetAmount(), o.GetPosition(), o.GetHold().GetRemaining())
	}
	return unbalanced(o)
}

// asked is the delta that a command asks for; false where the command alone does not say.
func asked(o *ledgerv1.Outcome, c *ledgerv1.Command) (delta string, known bool) {
	if o.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
		return "0", true
	}
	amount := c.GetAmount()
	switch op := c.GetOperation(); op {
	case ledgerv1.Operation_OPERATION_DEBIT, ledgerv1.Operation_OPERATION_TRANSFER, ledgerv1.Operation_OPERATION_CAPTURE:
		return "-" + amount, amount != "" // empty: all that is left of the hold
	case ledgerv1.Operation_OPERATION_CREDIT, ledgerv1.Operation_OPERATION_ADJUST, ledgerv1.Operation_OPERATION_RETURN:
		return amount, true
	case ledgerv1.Operation_OPERATION_REVERSE:
		if delta = o.GetDelta(); amount != "" && delta != "-"+amount {
			delta = amount // either sign, by what is reversed
		}
		return delta, true
	case ledgerv1.Operation_OPERATION_OPEN, ledgerv1.Operation_OPERATION_REPAIR, ledgerv1.Operation_OPERATION_HOLD, ledgerv1.Operation_OPERATION_RELEASE,
		ledgerv1.Operation_OPERATION_SET_LIMITS, ledgerv1.Operation_OPERATION_FREEZE, ledgerv1.Operation_OPERATION_UNFREEZE, ledgerv1.Operation_OPERATION_CLOSE:
		return "0", true
	case ledgerv1.Operation_OPERATION_UNSPECIFIED:
	}
	return "", false // an operation that this reconciler does not know
}

// unbalanced says that the other sides of a posting do not add up to what moved.
func unbalanced(o *ledgerv1.Outcome) string {
	if len(o.GetLegs()) == 0 {
		return "" // all of it with @world
	}
	sum := new(big.Int)
	for _, leg := range o.GetLegs() {
		amount, ok := new(big.Int).SetString(leg.GetAmount(), 10)
		if !ok || amount.Sign() < 0 || !limits.External(leg.GetCounterAccount()) {
			return fmt.Sprintf("command %q: its event at position %d has a leg of %q with %q", o.GetCommandId(), o.GetPosition(), leg.GetAmount(), leg.GetCounterAccount())
		}
		sum.Add(sum, amount)
	}
	if delta, ok := new(big.Int).SetString(o.GetDelta(), 10); !ok || delta.CmpAbs(sum) != 0 {
		return fmt.Sprintf("command %q moved %s minor units at position %d, its other sides add up to %s", o.GetCommandId(), o.GetDelta(), o.GetPosition(), sum)
	}
	return ""
}
