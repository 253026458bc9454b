package projector

import (
	"fmt"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
)

// row is one line of the table events, without what the batch knows (shard, batch_to). Its texts are those of the record.
type row struct {
	account, commandID, counterAccount, unit string
	reference, description, source, reason   string
	accountStatus                            string
	holdID, holdCounterAccount               string
	reversedCommandID                        string
	transferAccount, transferTo              string
	sequence, position, logOffset            uint64
	sequenceAfter                            uint64
	logTime, decidedAt, effectiveAt          int64  // milliseconds
	businessDate                             uint16 // days
	holdExpiresAt                            optional
	operation, status                        uint8
	delta, balance, held, floor              int64
	holdRemaining, reversedTotal, asked      int64
	ceiling                                  optional
	legs                                     []leg
	metadata                                 map[string]string
	fingerprint, chain, head                 []byte
}

// leg is a counter account with its part of the amount.
type leg struct {
	account string
	amount  int64
}

// The numbers of the enums in the table are those of the Protobuf enums; operationUnknown stands for whatever a rejected
// command asked for that this ledger does not know.
const (
	operationUnknown = 0
	operationMax     = int32(ledgerv1.Operation_OPERATION_RETURN)
)

// read fills an empty row, valid as long as the event is. What the outcome says is taken from it, never from the command. Errors are amounts and days
// that are none, and texts that nobody can read.
func (d *decoder) read(r *row, record *kgo.Record, event *ledgerv1.Event) error {
	o, c := event.GetOutcome(), event.GetCommand()
	// Field by field: a literal would be made beside r and copied, for there are many.
	r.account, r.commandID, r.transferAccount = o.GetAccount(), o.GetCommandId(), o.GetTransferAccount()
	r.reference, r.description, r.source, r.metadata = c.GetReference(), c.GetDescription(), c.GetSource(), c.GetMetadata()
	r.position, r.logOffset, r.logTime = o.GetPosition(), uint64(record.Offset), record.Timestamp.UnixMilli()
	r.decidedAt, r.operation, r.status = millis(o.GetDecidedAt()), operationUnknown, uint8(o.GetStatus())
	r.fingerprint, r.chain, r.head, r.unit, r.legs = event.GetFingerprint(), event.GetChain(), headOf(event), unitOf(o, c), d.legs[:0]
	if op := c.GetOperation(); int32(op) > operationUnknown && int32(op) <= operationMax {
		r.operation = uint8(op)
	}
	// A rejected command may carry any time; the table's column cannot.
	r.effectiveAt = r.decidedAt
	if at := c.GetEffectiveTime(); at != nil && at.CheckValid() == nil && !at.AsTime().Before(limits.EffectiveTimeMin) && at.AsTime().Before(limits.EffectiveTimeMax) {
		r.effectiveAt = millis(at)
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
			r.holdExpiresAt = optional{millis(expires), true}
		}
	}
	if reversal := o.GetReversal(); reversal != nil {
		r.reversedCommandID, r.reversedTotal = reversal.GetCommandId(), a.read("reversed total", reversal.GetTotal())
	}
	var err error
	if r.businessDate, err = d.dates.day(o.GetBusinessDate()); err != nil { // the writer's to say, never computed again
		return fmt.Errorf("business date: %w", err)
	}
	d.legs = r.legs
	if a.err != nil {
		return a.err
	}
	return r.readable()
}

// readable checks what Protobuf demands of texts, for the generated decoder does not: readers of the table rely on it.
func (r *row) readable() error {
	for _, text := range [...]*string{
		&r.account, &r.commandID, &r.counterAccount, &r.unit, &r.reference, &r.description, &r.source, &r.accountStatus, &r.holdID, &r.holdCounterAccount,
		&r.reversedCommandID, &r.transferAccount, &r.transferTo,
	} {
		if *text != "" && !utf8.ValidString(*text) {
			return fmt.Errorf("%q is not UTF-8", *text)
		}
	}
	for _, leg := range r.legs {
		if !utf8.ValidString(leg.account) {
			return fmt.Errorf("counter account %q is not UTF-8", leg.account)
		}
	}
	if len(r.metadata) == 0 { // as in rows.append
		return nil
	}
	for key, value := range r.metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return fmt.Errorf("metadata %q: %q is not UTF-8", key, value)
		}
	}
	return nil
}

func millis(t *timestamppb.Timestamp) int64 { return t.AsTime().UnixMilli() }

// noHead is in the column of an event in the middle of a call.
var noHead = make([]byte, chainBytes)

func headOf(e *ledgerv1.Event) []byte {
	if len(e.GetHead()) == 0 {
		return noHead
	}
	return e.GetHead()
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
	for _, l := range legs {
		r.legs = append(r.legs, leg{l.GetCounterAccount(), a.read("leg", l.GetAmount())})
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
		r.ceiling = optional{a.read("ceiling", after.GetCeiling()), true}
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
