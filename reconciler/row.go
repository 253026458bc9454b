package reconciler

import (
	"context"
	"crypto/sha1" //nolint:gosec // its size alone
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
)

// A row of ledger.events is written a second time here on purpose, independent of the projector's code: what both spell alike is right.

// operationMax is the last operation that the table knows by name.
const operationMax = ledgerv1.Operation_OPERATION_RETURN

// noHead is in the column of an event that does not end a call.
var noHead = make([]byte, sha1.Size)

func headOf(e *ledgerv1.Event) []byte {
	if len(e.GetHead()) == 0 {
		return noHead
	}
	return e.GetHead()
}

// row is an event as a row of ledger.events; fields as in the table, amounts in minor units.
type row struct {
	*ledgerv1.Event
	at                                  time.Time // the broker's
	offset                              int64
	operation                           int8
	sequence                            uint64
	reason, counterAccount, unit        string
	transferTo                          string
	legs                                []leg
	delta, balance, held, floor         int64
	holdRemaining, reversedTotal, asked int64
	ceiling                             *int64
	holdExpires                         *time.Time
	decided, effective, businessDate    time.Time
	day                                 string // that businessDate was read from
}

type leg struct {
	account string
	amount  int64
}

// rowOf reads an event. An error says why there can be no row of it: the projector stands still at such an event.
func rowOf(l logged) (*row, error) {
	r := &row{}
	return r, r.read(l)
}

// read is rowOf for a row that is used again.
func (r *row) read(l logged) error {
	o, c, after := l.event.GetOutcome(), l.event.GetCommand(), l.event.GetOutcome().GetAfter()
	switch {
	case o == nil || c == nil:
		return errors.New("it has no outcome or no command")
	case int(o.GetShard()) != l.shard || o.GetAccount() != string(l.key):
		return fmt.Errorf("it is of account %q in shard %d, and stands under the key %q in shard %d", o.GetAccount(), o.GetShard(), l.key, l.shard)
	case o.GetStatus() != ledgerv1.Status_STATUS_APPLIED && o.GetStatus() != ledgerv1.Status_STATUS_REJECTED:
		return fmt.Errorf("it has status %d", o.GetStatus())
	case o.GetDecidedAt().CheckValid() != nil:
		return errors.New("it has no time of decision")
	}
	*r = row{
		Event: l.event, at: l.at, offset: l.offset, sequence: after.GetSequence(), unit: after.GetUnit(), decided: o.GetDecidedAt().AsTime(),
		legs: r.legs[:0], businessDate: r.businessDate, day: r.day,
	}
	r.effective = effectiveAt(o, c)
	var err error
	if day := o.GetBusinessDate(); day != r.day || day == "" {
		if r.businessDate, err = time.Parse(time.DateOnly, day); err != nil {
			return fmt.Errorf("its business date is none: %w", err)
		}
		r.day = strings.Clone(day)
	}
	if op := c.GetOperation(); op > 0 && op <= operationMax {
		r.operation = int8(op)
	}
	if after == nil {
		r.unit = unitOf(c.GetCurrency())
	}
	if expires := o.GetHold().GetExpiresAt(); expires != nil {
		at := expires.AsTime()
		r.holdExpires = &at
	}
	read := func(what, digits string) int64 {
		n, wrong := money.ParseMinor(digits)
		if wrong != nil && err == nil {
			err = fmt.Errorf("its %s is none: %w", what, wrong)
		}
		return n
	}
	r.delta = read("delta", o.GetDelta())
	if after != nil {
		r.balance, r.held, r.floor = read("balance", after.GetBalance()), read("held amount", after.GetHeld()), read("floor", after.GetFloor())
	}
	if after.GetCeiling() != "" {
		ceiling := read("ceiling", after.GetCeiling())
		r.ceiling = &ceiling
	}
	if hold := o.GetHold(); hold != nil {
		r.holdRemaining = read("rest of a hold", hold.GetRemaining())
	}
	if reversal := o.GetReversal(); reversal != nil {
		r.reversedTotal = read("reversed total", reversal.GetTotal())
	}
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		r.refused()
	} else if r.delta != 0 {
		for _, l := range o.GetLegs() {
			r.legs = append(r.legs, leg{l.GetCounterAccount(), read("leg", l.GetAmount())})
		}
		r.booked()
	}
	return err
}

// refused says what a rejected command asked for.
func (r *row) refused() {
	c := r.GetCommand()
	r.sequence, r.reason, r.counterAccount = 0, reason.Of(r.GetOutcome().GetReason()).Code, c.GetCounterAccount()
	if op := c.GetOperation(); c.GetCounterAccount() == "" && (op == ledgerv1.Operation_OPERATION_DEBIT || op == ledgerv1.Operation_OPERATION_CREDIT) {
		r.counterAccount = limits.World
	}
	if amount, err := money.ParseMinor(c.GetAmount()); err == nil {
		r.asked = amount
	}
}

// booked says where what moved went to, or came from.
func (r *row) booked() {
	switch len(r.legs) {
	case 0:
		r.counterAccount = limits.World
	case 1:
		r.counterAccount = r.legs[0].account
	}
	if c := r.GetCommand(); r.counterAccount == limits.Transit && c.GetOperation() == ledgerv1.Operation_OPERATION_TRANSFER {
		r.transferTo = c.GetCounterAccount()
	}
}

// appendText is a row of ledger.events as rowTextSQL spells it, made from the event alone, at the end of text. What the projector alone knows of an
// insert is left out.
func (r *row) appendText(text []byte) []byte {
	o, c, after := r.GetOutcome(), r.GetCommand(), r.GetOutcome().GetAfter()
	word := func(s string) { text = append(append(text, s...), '\n') }
	number := func(n int64) { text = append(strconv.AppendInt(text, n, 10), '\n') }
	optional := func(n int64, there bool) {
		if there {
			text = strconv.AppendInt(text, n, 10)
		}
		text = append(text, '\n')
	}
	number(int64(o.GetPosition()))
	word(o.GetAccount())
	number(int64(r.sequence))
	word(o.GetCommandId())
	number(int64(r.operation))
	number(int64(o.GetStatus()))
	word(r.reason)
	word(r.counterAccount)
	for _, l := range r.legs {
		text = append(strconv.AppendInt(append(append(text, l.account...), '='), l.amount, 10), ';')
	}
	word("")
	word(r.unit)
	for _, n := range [...]int64{r.delta, r.balance, r.held, r.floor} {
		number(n)
	}
	if r.ceiling != nil {
		optional(*r.ceiling, true)
	} else {
		optional(0, false)
	}
	number(int64(after.GetSequence()))
	word(after.GetStatus())
	word(o.GetHold().GetHoldId())
	number(r.holdRemaining)
	if r.holdExpires != nil {
		optional(r.holdExpires.UnixMilli(), true)
	} else {
		optional(0, false)
	}
	word(o.GetHold().GetCounterAccount())
	word(o.GetReversal().GetCommandId())
	number(r.reversedTotal)
	word(o.GetTransferAccount())
	word(r.transferTo)
	number(r.asked)
	word(o.GetBusinessDate())
	number(r.effective.UnixMilli())
	text = append(hex.AppendEncode(text, r.GetFingerprint()), '\n')
	text = append(hex.AppendEncode(text, r.GetChain()), '\n')
	text = append(hex.AppendEncode(text, headOf(r.Event)), '\n')
	number(r.offset)
	number(r.decided.UnixMilli())
	word(c.GetReference())
	word(c.GetDescription())
	word(c.GetSource())
	if len(c.GetMetadata()) > 0 {
		for _, key := range sortedKeys(c.GetMetadata()) {
			text = append(append(append(append(text, key...), '='), c.GetMetadata()[key]...), ';')
		}
	}
	word("")
	return text
}

// rowTextSQL is appendText in ClickHouse. Hashes as hexadecimal: toString of a FixedString drops zero bytes at its end.
const rowTextSQL = `concat(concatWithSeparator('\n', toString(position), account, toString(sequence), command_id, toString(toInt8(operation)), toString(toInt8(status)),
	toString(reason), counter_account, arrayStringConcat(arrayMap(l -> concat(l.1, '=', toString(l.2), ';'), legs)), toString(unit),
	toString(delta), toString(balance_after), toString(held_after), toString(floor_after), ifNull(toString(ceiling_after), ''), toString(sequence_after),
	toString(account_status), hold_id, toString(hold_remaining), ifNull(toString(toUnixTimestamp64Milli(hold_expires_at)), ''), hold_counter_account,
	reversed_command_id, toString(reversed_total), transfer_account, transfer_to, toString(asked_amount), toString(business_date),
	toString(toUnixTimestamp64Milli(effective_at)), lower(hex(fingerprint)), lower(hex(chain)), lower(hex(head)), toString(log_offset),
	toString(toUnixTimestamp64Milli(decided_at)), reference, description, toString(source),
	arrayStringConcat(arrayMap(k -> concat(k, '=', metadata[k], ';'), arraySort(mapKeys(metadata))))), '\n')`

// columns are the values of a row, by name.
func (r *row) columns(shard int) map[string]any {
	o, c, after := r.GetOutcome(), r.GetCommand(), r.GetOutcome().GetAfter()
	legs := make([][]any, len(r.legs))
	for i, l := range r.legs {
		legs[i] = []any{l.account, l.amount}
	}
	return map[string]any{
		"account": o.GetAccount(), "sequence": r.sequence, "shard": uint16(shard), "position": o.GetPosition(), "log_offset": uint64(r.offset),
		"log_time": r.at, "decided_at": r.decided, "effective_at": r.effective, "business_date": r.businessDate, "command_id": o.GetCommandId(),
		"operation": r.operation, "status": int8(o.GetStatus()), "reason": r.reason, "counter_account": r.counterAccount, "legs": legs, "unit": r.unit,
		"delta": r.delta, "balance_after": r.balance, "held_after": r.held, "floor_after": r.floor, "ceiling_after": r.ceiling,
		"sequence_after": after.GetSequence(), "account_status": after.GetStatus(),
		"hold_id": o.GetHold().GetHoldId(), "hold_remaining": r.holdRemaining, "hold_expires_at": r.holdExpires, "hold_counter_account": o.GetHold().GetCounterAccount(),
		"reversed_command_id": o.GetReversal().GetCommandId(), "reversed_total": r.reversedTotal,
		"transfer_account": o.GetTransferAccount(), "transfer_to": r.transferTo, "asked_amount": r.asked,
		"reference": c.GetReference(), "description": c.GetDescription(), "metadata": c.GetMetadata(), "source": c.GetSource(),
		"fingerprint": r.GetFingerprint(), "chain": r.GetChain(), "head": headOf(r.Event), "batch_to": o.GetPosition(),
	}
}

// eventColumns are the columns of ledger.events that a row must give.
func (r *reconciliation) eventColumns(ctx context.Context) ([]string, error) {
	var names []string
	err := r.clickhouse.QueryRow(ctx, `SELECT groupArray(name) FROM (SELECT name FROM system.columns
		WHERE database = currentDatabase() AND table = 'events' AND default_kind = '' ORDER BY position)`).Scan(&names)
	if err != nil {
		return nil, fmt.Errorf("read the columns of events: %w", err)
	}
	return names, nil
}

// inOrder puts the values of a row in the order of columns. A column that this reconciler does not know is an error: a row without it
// would be another wrong one.
func inOrder(values map[string]any, columns []string) ([]any, error) {
	row := make([]any, len(columns))
	for i, name := range columns {
		value, known := values[name]
		if !known {
			return nil, fmt.Errorf("column %s of events is not known to this reconciler", name)
		}
		row[i] = value
	}
	return row, nil
}

// effectiveAt is the time that the command says, where the table's column can hold it, else the time of the decision.
func effectiveAt(o *ledgerv1.Outcome, c *ledgerv1.Command) time.Time {
	if at := c.GetEffectiveTime(); at.CheckValid() == nil && !at.AsTime().Before(limits.EffectiveTimeMin) && at.AsTime().Before(limits.EffectiveTimeMax) {
		return at.AsTime()
	}
	return o.GetDecidedAt().AsTime()
}

// unitOf is the unit that a command asked for, "" where that is none.
func unitOf(currency string) string {
	unit, err := money.ParseUnit(currency)
	if err != nil {
		return ""
	}
	return unit.String()
}
