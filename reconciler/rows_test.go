package reconciler

import (
	"strconv"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
)

// row is one row of ledger.events, as the projector writes it.
func row(e *ledgerv1.Event) []any {
	o := e.GetOutcome()
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0 // no account
		}
		return n
	}
	status, why := "applied", ""
	sequence := o.GetAfter().GetSequence()
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		status, why, sequence = "rejected", reason.Of(o.GetReason()).Code, 0
	}
	operation := map[ledgerv1.Operation]string{
		ledgerv1.Operation_OPERATION_OPEN: "open", ledgerv1.Operation_OPERATION_DEBIT: "debit",
		ledgerv1.Operation_OPERATION_CREDIT: "credit", ledgerv1.Operation_OPERATION_REPAIR: "repair",
	}[e.GetCommand().GetOperation()]
	return []any{
		o.GetAccount(), sequence, uint16(o.GetShard()), o.GetPosition(), o.GetPosition() - 1, time.Now(), o.GetDecidedAt().AsTime(), o.GetDecidedAt().AsTime(),
		o.GetCommandId(), operation, status, why, counter(e), unitOfEvent(e), number(o.GetDelta()), number(o.GetAfter().GetBalance()),
		number(o.GetAfter().GetHeld()), number(o.GetAfter().GetFloor()), string(e.GetFingerprint()), string(e.GetChain()), e.GetCommand().GetReference(), e.GetCommand().GetDescription(), e.GetCommand().GetMetadata(),
		e.GetCommand().GetSource(),
	}
}

func counter(e *ledgerv1.Event) string {
	c := e.GetCommand()
	if c.GetCounterAccount() == "" && c.GetAmount() != "" {
		return "@world"
	}
	return c.GetCounterAccount()
}

func unitOfEvent(e *ledgerv1.Event) string {
	if after := e.GetOutcome().GetAfter(); after != nil {
		return after.GetUnit()
	}
	return unitOf(e.GetCommand().GetCurrency())
}
