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
	holdID, holdCounterAccount               string
	reversedCommandID                        string
	transferAccount, transferTo              string
	sequence, position, logOffset            uint64
	sequenceAfter                            uint64
	logTime, decidedAt, effectiveAt          time.Time
	businessDate                             time.Time
	holdExpiresAt                            *time.Time // nil: NULL
	operation, status                        int8
	delta, balance, held, floor              int64
	holdRemaining, reversedTotal, asked      int64
	ceiling                                  *int64 // nil: NULL
	legs                                     []leg
	metadata                                 map[string]string
	fingerprint, chain, head                 []byte
}

// leg is a tuple of the column legs, a counter account and its amount, in the form that the driver takes fastest.
type leg = []any

// The numbers of the enums in the table are those of the Protobuf enums; operationUnknown stands for whatever a rejected
// command asked for that this ledger does not know.
const (
	operationUnknown = 0
	operationMax     = int32(ledgerv1.Operation_OPERATION_RETURN)
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
	case len(event.GetHead()) != 0 && len(event.GetHead()) != chainBytes:
		return nil, fmt.Errorf("event has a head of %d bytes", len(event.GetHead()))
	case o.GetDecidedAt().CheckValid() != nil:
		return nil, fmt.Errorf("event has no time of decision")
	}
	return event, nil
}

// noHead is in the column of an event in the middle of a call.
var noHead = make([]byte, chainBytes)

func headOf(e *ledgerv1.Event) []byte {
	if len(e.GetHead()) == 0 {
		return noHead
	}
	return e.GetHead()
}

// rowOf turns an event into a row. What the outcome says is taken from it, never from the command. Errors are amounts and days that are none.
func rowOf(record *kgo.Record, event *ledgerv1.Event) (row, error) {
	o, c := event.GetOutcome(), event.GetCommand()
	r := row{
		account: o.GetAccount(), commandID: o.GetCommandId(), transferAccount: o.GetTransferAccount(),
		reference: c.GetReference(), description: c.GetDescription(), source: c.GetSource(), metadata: c.GetMetadata(),
		position: o.GetPosition(), logOffset: uint64(record.Offset), logTime: record.Timestamp,
		decidedAt: o.GetDecidedAt().AsTime(), operation: operationUnknown, status: int8(o.GetStatus()),
		fingerprint: event.GetFingerprint(), chain: event.GetChain(), head: headOf(event), unit: unitOf(o, c),
	}
	if op := c.GetOperation(); int32(op) > operationUnknown && int32(op) <= operationMax {
		r.operation = int8(op)
	}
	// A rejected command may carry any time; the table's column cannot.
	r.effectiveAt = r.decidedAt
	if at := c.GetEffectiveTime(); at.CheckValid() == nil && !at.AsTime().Before(limits.EffectiveTimeMin) && at.AsTime().Before(limits.EffectiveTimeMax) {
		r.effectiveAt = at.AsTime()
	}
	a := amounts{}
	r.delta = a.read("delta", o.GetDelta())
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		r.rejected(o, c)
	} else {
		r.sequence = o.GetAfter().GetSequence()
		r.booked(o, c, &a)
	}
	r.state(o.GetAfter(), &a)
	if hold := o.GetHold(); hold != nil {
		r.holdID, r.holdRemaining, r.holdCounterAccount = hold.GetHoldId(), a.read("remaining", hold.GetRemaining()), hold.GetCounterAccount()
		if expires := hold.GetExpiresAt(); expires != nil {
			at := expires.AsTime()
			r.holdExpiresAt = &at
		}
	}
	if reversal := o.GetReversal(); reversal != nil {
		r.reversedCommandID, r.reversedTotal = reversal.GetCommandId(), a.read("reversed total", reversal.GetTotal())
	}
	var err error
	if r.businessDate, err = time.Parse(time.DateOnly, o.GetBusinessDate()); err != nil { // the writer's to say, never computed again
		return row{}, fmt.Errorf("business date: %w", err)
	}
	return r, a.err
}

// amounts reads the amounts of one event and keeps the first error.
type amounts struct{ err error }

func (a *amounts) read(what, digits string) int64 {
	v, err := money.ParseMinor(digits)
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("%s: %w", what, err)
	}
	return v
}

// rejected says what was asked for, as far as it can be read.
func (r *row) rejected(o *ledgerv1.Outcome, c *ledgerv1.Command) {
	r.reason = reason.Of(o.GetReason()).Code
	r.counterAccount = c.GetCounterAccount()
	if op := c.GetOperation(); r.counterAccount == "" && (op == ledgerv1.Operation_OPERATION_DEBIT || op == ledgerv1.Operation_OPERATION_CREDIT) {
		r.counterAccount = limits.World
	}
	if asked, err := money.ParseMinor(c.GetAmount()); err == nil {
		r.asked = asked
	}
}

// booked says where the delta went, or came from.
func (r *row) booked(o *ledgerv1.Outcome, c *ledgerv1.Command, a *amounts) {
	legs := o.GetLegs()
	switch {
	case r.delta == 0:
		return
	case len(legs) == 0:
		r.counterAccount = limits.World
		return
	case len(legs) == 1:
		r.counterAccount = legs[0].GetCounterAccount()
	}
	r.legs = make([]leg, len(legs))
	for i, l := range legs {
		r.legs[i] = leg{l.GetCounterAccount(), a.read("leg", l.GetAmount())}
	}
	if c.GetOperation() == ledgerv1.Operation_OPERATION_TRANSFER && r.counterAccount == limits.Transit {
		r.transferTo = c.GetCounterAccount()
	}
}

// state is the account after the event; nil where there is none.
func (r *row) state(after *ledgerv1.AccountState, a *amounts) {
	if after == nil {
		return
	}
	r.sequenceAfter, r.accountStatus = after.GetSequence(), after.GetStatus()
	r.balance, r.held, r.floor = a.read("balance", after.GetBalance()), a.read("held", after.GetHeld()), a.read("floor", after.GetFloor())
	if after.GetCeiling() != "" {
		ceiling := a.read("ceiling", after.GetCeiling())
		r.ceiling = &ceiling
	}
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
