package reconciler

import (
	"context"
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

// headOf is the head of an event that ends a call; the column has zeros for the others.
func headOf(e *ledgerv1.Event) []byte {
	if len(e.GetHead()) == 0 {
		return make([]byte, len(e.GetChain()))
	}
	return e.GetHead()
}

// eventRow is an event as a row of ledger.events, by column.
func eventRow(shard int, l logged) (map[string]any, error) {
	o, c, after := l.event.GetOutcome(), l.event.GetCommand(), l.event.GetOutcome().GetAfter()
	if o.GetDecidedAt() == nil {
		return nil, errors.New("it has no time of decision")
	}
	decided := o.GetDecidedAt().AsTime()
	values := map[string]any{
		"account": o.GetAccount(), "sequence": after.GetSequence(), "shard": uint16(shard), "position": o.GetPosition(), "log_offset": uint64(l.offset),
		"log_time": l.at, "decided_at": decided, "effective_at": effectiveAt(o, c), "business_date": decided, "command_id": o.GetCommandId(),
		"operation": int8(0), "status": int8(o.GetStatus()), "reason": "", "counter_account": "", "legs": [][]any{}, "unit": unitOf(c.GetCurrency()),
		"sequence_after": after.GetSequence(), "account_status": after.GetStatus(), "ceiling_after": (*int64)(nil),
		"hold_id": o.GetHold().GetHoldId(), "hold_expires_at": (*time.Time)(nil), "hold_counter_account": o.GetHold().GetCounterAccount(),
		"reversed_command_id": o.GetReversal().GetCommandId(), "transfer_account": o.GetTransferAccount(), "transfer_to": "", "asked_amount": int64(0),
		"reference": c.GetReference(), "description": c.GetDescription(), "metadata": c.GetMetadata(), "source": c.GetSource(),
		"fingerprint": l.event.GetFingerprint(), "chain": l.event.GetChain(), "head": headOf(l.event), "batch_to": o.GetPosition(),
	}
	if op := c.GetOperation(); op > 0 && op <= operationMax {
		values["operation"] = int8(op)
	}
	if after != nil {
		values["unit"] = after.GetUnit()
	}
	if expires := o.GetHold().GetExpiresAt(); expires != nil {
		at := expires.AsTime()
		values["hold_expires_at"] = &at
	}
	if day, err := time.Parse(time.DateOnly, o.GetBusinessDate()); err == nil {
		values["business_date"] = day
	}
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		refused(values, o, c)
	} else if err := booked(values, o, c); err != nil {
		return nil, err
	}
	return values, amountsOf(values, o)
}

// amountsOf reads what is digits in the event.
func amountsOf(values map[string]any, o *ledgerv1.Outcome) error {
	after := o.GetAfter()
	for column, digits := range map[string]string{
		"delta": o.GetDelta(), "balance_after": after.GetBalance(), "held_after": after.GetHeld(), "floor_after": after.GetFloor(),
		"hold_remaining": o.GetHold().GetRemaining(), "reversed_total": o.GetReversal().GetTotal(), "ceiling_after": after.GetCeiling(),
	} {
		if digits == "" {
			if column != "ceiling_after" { // where there is none, none is said
				values[column] = int64(0)
			}
			continue
		}
		n, err := money.ParseMinor(digits)
		if err != nil {
			return fmt.Errorf("%s of position %d: %w", column, o.GetPosition(), err)
		}
		values[column] = n
		if column == "ceiling_after" {
			values[column] = &n
		}
	}
	return nil
}

// refused says what a rejected command asked for.
func refused(values map[string]any, o *ledgerv1.Outcome, c *ledgerv1.Command) {
	values["sequence"], values["reason"], values["counter_account"] = uint64(0), reason.Of(o.GetReason()).Code, c.GetCounterAccount()
	if op := c.GetOperation(); c.GetCounterAccount() == "" && (op == ledgerv1.Operation_OPERATION_DEBIT || op == ledgerv1.Operation_OPERATION_CREDIT) {
		values["counter_account"] = limits.World
	}
	if amount, err := money.ParseMinor(c.GetAmount()); err == nil {
		values["asked_amount"] = amount
	}
}

// booked says where what moved went to, or came from.
func booked(values map[string]any, o *ledgerv1.Outcome, c *ledgerv1.Command) error {
	if o.GetDelta() == "0" {
		return nil
	}
	legs := make([][]any, len(o.GetLegs()))
	for i, leg := range o.GetLegs() {
		amount, err := money.ParseMinor(leg.GetAmount())
		if err != nil {
			return fmt.Errorf("leg of position %d: %w", o.GetPosition(), err)
		}
		legs[i] = []any{leg.GetCounterAccount(), amount}
	}
	values["legs"] = legs
	switch len(legs) {
	case 0:
		values["counter_account"] = limits.World
	case 1:
		values["counter_account"] = o.GetLegs()[0].GetCounterAccount()
	}
	if c.GetOperation() == ledgerv1.Operation_OPERATION_TRANSFER && values["counter_account"] == limits.Transit {
		values["transfer_to"] = c.GetCounterAccount()
	}
	return nil
}

// textColumns are the columns that a checksum covers, in its order. What the projector alone knows of an insert is left out.
var textColumns = []string{
	"position", "account", "sequence", "command_id", "operation", "status", "reason", "counter_account", "legs", "unit", "delta", "balance_after", "held_after",
	"floor_after", "ceiling_after", "sequence_after", "account_status", "hold_id", "hold_remaining", "hold_expires_at", "hold_counter_account",
	"reversed_command_id", "reversed_total", "transfer_account", "transfer_to", "asked_amount", "business_date", "effective_at", "fingerprint", "chain", "head",
	"log_offset", "decided_at", "reference", "description", "source", "metadata",
}

// rowText is a row of ledger.events as rowTextSQL spells it, made from the event alone.
func rowText(l logged) ([]byte, error) {
	values, err := eventRow(0, l)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, 512)
	for _, column := range textColumns {
		text = append(appendValue(text, column, values[column]), '\n')
	}
	return text, nil
}

func appendValue(text []byte, column string, value any) []byte {
	switch v := value.(type) {
	case string:
		return append(text, v...)
	case int64:
		return strconv.AppendInt(text, v, 10)
	case int8:
		return strconv.AppendInt(text, int64(v), 10)
	case uint64:
		return strconv.AppendUint(text, v, 10)
	case []byte:
		return hex.AppendEncode(text, v)
	case time.Time:
		if column == "business_date" {
			return v.AppendFormat(text, time.DateOnly)
		}
		return strconv.AppendInt(text, v.UnixMilli(), 10)
	case *time.Time:
		if v != nil {
			return strconv.AppendInt(text, v.UnixMilli(), 10)
		}
	case *int64:
		if v != nil {
			return strconv.AppendInt(text, *v, 10)
		}
	case [][]any:
		for _, leg := range v {
			text = fmt.Appendf(text, "%s=%d;", leg...)
		}
	case map[string]string:
		for _, key := range sortedKeys(v) {
			text = fmt.Appendf(text, "%s=%s;", key, v[key])
		}
	}
	return text
}

// rowTextSQL is rowText in ClickHouse. Hashes as hexadecimal: toString of a FixedString drops zero bytes at its end.
var rowTextSQL = func() string {
	special := map[string]string{
		"operation": "toString(toInt8(operation))", "status": "toString(toInt8(status))", "ceiling_after": "ifNull(toString(ceiling_after), '')",
		"legs": "arrayStringConcat(arrayMap(l -> concat(l.1, '=', toString(l.2), ';'), legs))", "fingerprint": "lower(hex(fingerprint))", "chain": "lower(hex(chain))", "head": "lower(hex(head))",
		"hold_expires_at": "ifNull(toString(toUnixTimestamp64Milli(hold_expires_at)), '')", "decided_at": "toString(toUnixTimestamp64Milli(decided_at))",
		"effective_at": "toString(toUnixTimestamp64Milli(effective_at))",
		"metadata":     "arrayStringConcat(arrayMap(k -> concat(k, '=', metadata[k], ';'), arraySort(mapKeys(metadata))))",
	}
	parts := make([]string, len(textColumns))
	for i, column := range textColumns {
		if parts[i] = special[column]; parts[i] == "" {
			parts[i] = "toString(" + column + ")"
		}
	}
	return "concat(concatWithSeparator('\\n', " + strings.Join(parts, ", ") + "), '\\n')"
}()

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
