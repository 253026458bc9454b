package projector

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
)

// row is one line of the table events, without what the batch knows (shard, batch_to).
type row struct {
	account, commandID, counterAccount, unit string
	reference, description, source, reason   string
	accountStatus                            string
	sequence, position, logOffset            uint64
	sequenceAfter                            uint64
	logTime, decidedAt, effectiveAt          time.Time
	operation, status                        int8
	delta, balance, held, floor              int64
	metadata                                 map[string]string
	fingerprint, chain                       []byte
}

// The numbers of the enums in the table are those of the Protobuf enums; operationUnknown stands for whatever a rejected
// command asked for that this ledger does not know.
const (
	operationUnknown = 0
	operationMax     = int32(ledgerv1.Operation_OPERATION_REPAIR)
)

const (
	fingerprintBytes = 16
	chainBytes       = 20
)

// decode reads an event and checks what the table cannot: an event that does not say what the ledger-writer always says is
// no event.
func decode(record *kgo.Record) (*ledgerv1.Event, error) {
	event := new(ledgerv1.Event)
	if err := proto.Unmarshal(record.Value, event); err != nil {
		return nil, err
	}
	o := event.GetOutcome()
	switch {
	case o == nil || event.GetCommand() == nil:
		return nil, fmt.Errorf("event has no outcome or no command")
	case int64(o.GetShard()) != int64(record.Partition):
		return nil, fmt.Errorf("event of shard %d in partition %d", o.GetShard(), record.Partition)
	case o.GetAccount() != string(record.Key):
		return nil, fmt.Errorf("event of account %q has the key %q", o.GetAccount(), record.Key)
	case o.GetAccount() != event.GetCommand().GetAccount() || o.GetCommandId() != event.GetCommand().GetCommandId():
		return nil, fmt.Errorf("event of command %q on account %q carries command %q on account %q", o.GetCommandId(), o.GetAccount(),
			event.GetCommand().GetCommandId(), event.GetCommand().GetAccount())
	case o.GetStatus() != ledgerv1.Status_STATUS_APPLIED && o.GetStatus() != ledgerv1.Status_STATUS_REJECTED:
		return nil, fmt.Errorf("event has status %d", o.GetStatus())
	case len(event.GetFingerprint()) != fingerprintBytes || len(event.GetChain()) != chainBytes:
		return nil, fmt.Errorf("event has a fingerprint of %d and a chain of %d bytes", len(event.GetFingerprint()), len(event.GetChain()))
	case o.GetDecidedAt().CheckValid() != nil:
		return nil, fmt.Errorf("event has no time of decision")
	}
	return event, nil
}

// rowOf turns an event into a row. Errors are amounts that are none.
func rowOf(record *kgo.Record, event *ledgerv1.Event) (row, error) {
	o, c := event.GetOutcome(), event.GetCommand()
	r := row{
		account: o.GetAccount(), commandID: o.GetCommandId(), counterAccount: c.GetCounterAccount(),
		reference: c.GetReference(), description: c.GetDescription(), source: c.GetSource(), metadata: c.GetMetadata(),
		position: o.GetPosition(), logOffset: uint64(record.Offset), logTime: record.Timestamp,
		decidedAt: o.GetDecidedAt().AsTime(), operation: operationUnknown, status: int8(o.GetStatus()),
		fingerprint: event.GetFingerprint(), chain: event.GetChain(),
	}
	if op := c.GetOperation(); int32(op) > operationUnknown && int32(op) <= operationMax {
		r.operation = int8(op)
	}
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		r.reason = reason.Of(o.GetReason()).Code
	} else {
		r.sequence = o.GetAfter().GetSequence()
	}
	moves := c.GetOperation() == ledgerv1.Operation_OPERATION_DEBIT || c.GetOperation() == ledgerv1.Operation_OPERATION_CREDIT
	if moves && r.counterAccount == "" {
		r.counterAccount = limits.World
	}
	// A rejected command may carry any time; the table's column cannot.
	r.effectiveAt = r.decidedAt
	if at := c.GetEffectiveTime(); at.CheckValid() == nil && !at.AsTime().Before(limits.EffectiveTimeMin) && at.AsTime().Before(limits.EffectiveTimeMax) {
		r.effectiveAt = at.AsTime()
	}
	r.unit = unitOf(o, c)
	var err error
	if r.delta, err = money.ParseMinor(o.GetDelta()); err != nil {
		return row{}, fmt.Errorf("delta: %w", err)
	}
	after := o.GetAfter()
	if after == nil {
		return r, nil
	}
	r.sequenceAfter, r.accountStatus = after.GetSequence(), after.GetStatus()
	if r.balance, err = money.ParseMinor(after.GetBalance()); err != nil {
		return row{}, fmt.Errorf("balance: %w", err)
	}
	if r.held, err = money.ParseMinor(after.GetHeld()); err != nil {
		return row{}, fmt.Errorf("held: %w", err)
	}
	if r.floor, err = money.ParseMinor(after.GetFloor()); err != nil {
		return row{}, fmt.Errorf("floor: %w", err)
	}
	return r, nil
}

// unitOf is the unit of the account, or else the one that the command asked for, or "" where that is none.
func unitOf(o *ledgerv1.Outcome, c *ledgerv1.Command) string {
	if after := o.GetAfter(); after != nil {
		return after.GetUnit()
	}
	unit, err := money.ParseUnit(c.GetCurrency())
	if err != nil {
		return ""
	}
	return unit.String()
}
