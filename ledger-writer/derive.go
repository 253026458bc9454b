package writer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/schemas/cloudevents"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Some outcomes ask for more: a transfer for a credit at its far end, a credit refused there and a reversed transfer for a return. Each is a
// command of its own, sent in the transaction of the outcome that asks for it, under an id made of the one that it comes from. So it is
// derived again whenever the outcome is told again (a retry, a redelivery), and has one effect: whoever retries a transfer hears
// from its far end, whatever became of the first answer.

// derive returns the command that an outcome asks for, or nil.
func derive(c *ledgerv1.Command, o *ledgerv1.Outcome) *ledgerv1.Command {
	applied := o.GetStatus() == ledgerv1.Status_STATUS_APPLIED
	switch op := c.GetOperation(); {
	case setsOut(c, o):
		next := follow(c, o, limits.CreditID(c.GetCommandId()), ledgerv1.Operation_OPERATION_CREDIT, c.GetCounterAccount(), c.GetAmount())
		next.Origin = &ledgerv1.Origin{CommandId: c.GetCommandId(), Account: c.GetAccount(), Outcome: o}
		return next
	case op == ledgerv1.Operation_OPERATION_CREDIT && c.GetOrigin() != nil && !applied:
		from := c.GetOrigin()
		next := follow(c, o, limits.ReturnID(from.GetCommandId()), ledgerv1.Operation_OPERATION_RETURN, from.GetAccount(), c.GetAmount())
		next.Origin = &ledgerv1.Origin{CommandId: from.GetCommandId(), Account: c.GetAccount(), Reason: o.GetReason(), Outcome: o}
		return next
	case op == ledgerv1.Operation_OPERATION_REVERSE && applied && o.GetTransferAccount() != "":
		next := follow(c, o, limits.UndoID(c.GetCommandId(), c.GetAccount()), ledgerv1.Operation_OPERATION_RETURN, o.GetTransferAccount(), o.GetDelta()[1:])
		next.Currency = o.GetAfter().GetUnit()
		next.Origin = &ledgerv1.Origin{CommandId: c.GetCommandId(), Account: c.GetAccount(), Outcome: o}
		next.ReplyTo = "" // the reversal's own outcome is final: a return is always applied
		return next
	}
	return nil
}

// setsOut tells whether an outcome sends money to another account of the ledger.
func setsOut(c *ledgerv1.Command, o *ledgerv1.Outcome) bool {
	return c.GetOperation() == ledgerv1.Operation_OPERATION_TRANSFER && o.GetStatus() == ledgerv1.Status_STATUS_APPLIED && !limits.External(c.GetCounterAccount())
}

// strayed tells whether a far end's id is known for another transfer: two shards took two transfers with one id. What is on its way must come back;
// only what was applied for the same account may be the same transfer, derived by another version.
func strayed(c *ledgerv1.Command, known *ledgerv1.Outcome) bool {
	arrived := known.GetStatus() == ledgerv1.Status_STATUS_APPLIED && known.GetTransferAccount() == c.GetOrigin().GetAccount()
	return c.GetOperation() == ledgerv1.Operation_OPERATION_CREDIT && c.GetOrigin() != nil && !arrived
}

// follow is a derived command with what it takes over from the one that it comes from. All of that is part of the fingerprint, or of no
// effect, so a retry derives the same.
func follow(c *ledgerv1.Command, o *ledgerv1.Outcome, id string, op ledgerv1.Operation, account, amount string) *ledgerv1.Command {
	return &ledgerv1.Command{
		CommandId: id, Operation: op, Account: account, Amount: amount, Currency: c.GetCurrency(), CounterAccount: limits.Transit,
		Reference: c.GetReference(), Description: c.GetDescription(), Metadata: c.GetMetadata(), EffectiveTime: c.GetEffectiveTime(),
		Source: c.GetSource(), ReplyTo: c.GetReplyTo(), Traceparent: c.GetTraceparent(), RequestedAt: firstAsked(c, o),
	}
}

// firstAsked is the same however often a command is derived: its parent's own time, or that of the decision.
func firstAsked(c *ledgerv1.Command, o *ledgerv1.Outcome) *timestamppb.Timestamp {
	if at := c.GetRequestedAt(); at.CheckValid() == nil && at.AsTime().Before(o.GetDecidedAt().AsTime()) {
		return at
	}
	return o.GetDecidedAt()
}

// told is what the caller of a command is told of an outcome; nil: not yet. A transfer's caller hears once, when its end is known: from the
// far end that applied it, or from the return that booked it back.
func told(c *ledgerv1.Command, o *ledgerv1.Outcome) *ledgerv1.Outcome {
	origin := c.GetOrigin()
	switch {
	case origin == nil:
		if setsOut(c, o) {
			return nil
		}
		return o
	case c.GetOperation() == ledgerv1.Operation_OPERATION_CREDIT && o.GetStatus() == ledgerv1.Status_STATUS_APPLIED:
		return origin.GetOutcome()
	case c.GetOperation() == ledgerv1.Operation_OPERATION_RETURN:
		refused := proto.CloneOf(o)
		refused.CommandId, refused.Status, refused.Reason, refused.Delta, refused.Legs = origin.GetCommandId(), ledgerv1.Status_STATUS_REJECTED, origin.GetReason(), "0", nil
		return refused
	}
	return nil
}

// command writes a command that the ledger asks for itself.
func (p *publisher) command(shards int, c *ledgerv1.Command) {
	value, err := proto.Marshal(c)
	if err != nil {
		p.fail(fmt.Errorf("encode command %q: %w", c.GetCommandId(), err))
		return
	}
	p.send(&kgo.Record{
		Topic: topics.Commands, Partition: int32(topics.ShardOf(c.GetAccount(), shards)), Key: []byte(c.GetAccount()), Value: value,
		Headers: cloudevents.Headers("command", c.GetCommandId()),
	})
}
