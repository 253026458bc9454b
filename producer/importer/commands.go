package importer

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
)

// The columns of a file of commands. What a file does not need it leaves out.
var (
	NeededColumns   = []string{"command_id", "op", "account"}
	OptionalColumns = []string{
		"date", "counter_account", "amount", "currency", "floor", "ceiling", "hold_id", "expires_at", "reverses", "allow_overdraft",
		"direction", "legs", "reference", "description", "deadline", "expected_sequence", "requested_at",
	}
)

// ReadCommands reads a CSV file of commands, one per line, with a header that names NeededColumns and any of OptionalColumns:
//
//	op                 open, debit, credit, hold, capture, release, transfer, reverse, set_limits, freeze, unfreeze, close
//	counter_account    "" is "@world"; of a transfer the account that gets the amount
//	amount, floor, ceiling, legs   in major units ("12.50"), read in the currency of the line; ceiling also "none"
//	legs               "@fees=0.30;@shop=12.20": the parts of the amount
//	hold_id, reverses  the command id of the hold, of what is to be undone
//	date               a day ("2013-01-31"): the effective time
//	expires_at, deadline, requested_at   "2013-01-31T12:00:00Z", or a day
//	direction          debit, credit, both
//	allow_overdraft    true, false
//
// An empty cell is a field that is not set. r is read once, line by line. Metadata and everything else: ReadNDJSON.
func ReadCommands(r io.Reader, options Options) Rows {
	return func(yield func(Row, error) bool) {
		t, err := newTable(r, NeededColumns, OptionalColumns)
		if err != nil {
			yield(Row{}, fmt.Errorf("read %s: %w", options.file(), err))
			return
		}
		for {
			fields, bad, err := t.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Row{}, fmt.Errorf("read %s: %w", options.file(), err))
				return
			}
			row := Row{File: options.file(), Line: t.line}
			if bad == nil {
				row.Command, bad = readCommand(t.record(fields), options)
			}
			if !yield(row.or(bad)) {
				return
			}
		}
	}
}

// line is a line of a file of commands while it is read: the first problem is the one that counts.
type line struct {
	record
	options Options
	unit    money.Unit
	bad     *problem
}

func readCommand(r record, options Options) (*ledgerv1.Command, *problem) {
	l := &line{record: r, options: options}
	op := ledgerv1.Operation(ledgerv1.Operation_value["OPERATION_"+strings.ToUpper(r["op"])])
	if op == ledgerv1.Operation_OPERATION_UNSPECIFIED || r["op"] != limits.OperationName(op) {
		return nil, problemf(ledgerv1.Reason_REASON_INVALID_OPERATION, "op %.40q: want one such as debit or set_limits", r["op"])
	}
	cmd := &ledgerv1.Command{
		CommandId: r["command_id"], Operation: op, Account: r["account"], CounterAccount: r["counter_account"],
		Reference: r["reference"], Description: r["description"], HoldId: r["hold_id"],
	}
	cmd.Currency = l.currency()
	cmd.Amount = l.minor("amount", ledgerv1.Reason_REASON_INVALID_AMOUNT)
	cmd.Legs = l.legs()
	cmd.EffectiveTime = l.day("date")
	cmd.Deadline = l.time("deadline")
	cmd.RequestedAt = l.time("requested_at")
	cmd.Direction = l.direction()
	l.limits(cmd)
	if at := l.time("expires_at"); at != nil {
		cmd.Hold = &ledgerv1.HoldTerms{ExpiresAt: at}
	}
	if r["reverses"] != "" || r["allow_overdraft"] != "" {
		cmd.Reverse = &ledgerv1.ReverseTerms{CommandId: r["reverses"], AllowOverdraft: l.truth("allow_overdraft")}
	}
	if text := r["expected_sequence"]; text != "" {
		sequence, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			l.wrong(ledgerv1.Reason_REASON_UNSPECIFIED, "expected_sequence %.40q: want a number", text)
		}
		cmd.ExpectedSequence = &sequence
	}
	if l.bad != nil {
		return nil, l.bad
	}
	return cmd, check(cmd)
}

func (l *line) wrong(why ledgerv1.Reason, format string, args ...any) {
	if l.bad == nil {
		l.bad = problemf(why, format, args...)
	}
}

func (l *line) currency() string {
	if l.record["currency"] == "" {
		return ""
	}
	unit, currency, err := l.options.unit(l.record["currency"])
	if err != nil {
		l.wrong(ledgerv1.Reason_REASON_INVALID_CURRENCY, "currency: %v", err)
	}
	l.unit = unit
	return currency
}

// minor reads a column in major units and gives minor ones; "" is left as it is.
func (l *line) minor(column string, why ledgerv1.Reason) string {
	return l.major(column, l.record[column], why)
}

func (l *line) major(column, text string, why ledgerv1.Reason) string {
	if text == "" {
		return ""
	}
	if l.unit.Code == "" {
		l.wrong(ledgerv1.Reason_REASON_INVALID_CURRENCY, "currency: missing; %s cannot be read without it", column)
		return ""
	}
	v, err := money.ParseMajor(text, l.unit)
	switch {
	case errors.Is(err, money.ErrTooLarge):
		l.wrong(ledgerv1.Reason_REASON_LIMIT_EXCEEDED, "%s: %v", column, err)
	case err != nil:
		l.wrong(why, "%s: %v", column, err)
	}
	return money.FormatMinor(v)
}

func (l *line) legs() []*ledgerv1.Leg {
	if l.record["legs"] == "" {
		return nil
	}
	var legs []*ledgerv1.Leg
	for part := range strings.SplitSeq(l.record["legs"], ";") {
		i := strings.LastIndex(part, "=")
		if i < 0 {
			l.wrong(ledgerv1.Reason_REASON_INVALID_LEGS, "legs %.80q: want parts such as @fees=0.30 with \";\" between them", part)
			return nil
		}
		legs = append(legs, &ledgerv1.Leg{CounterAccount: part[:i], Amount: l.major("legs", part[i+1:], ledgerv1.Reason_REASON_INVALID_LEGS)})
	}
	return legs
}

// limits sets floor and ceiling, of an account that is opened or of one that is open.
func (l *line) limits(cmd *ledgerv1.Command) {
	if l.record["floor"] == "" && l.record["ceiling"] == "" {
		return
	}
	floor := l.minor("floor", ledgerv1.Reason_REASON_INVALID_FLOOR)
	ceiling := limits.NoCeiling
	if l.record["ceiling"] != limits.NoCeiling {
		ceiling = l.minor("ceiling", ledgerv1.Reason_REASON_INVALID_CEILING)
	}
	if cmd.GetOperation() == ledgerv1.Operation_OPERATION_OPEN {
		cmd.Open = &ledgerv1.OpenTerms{Floor: floor, Ceiling: strings.TrimPrefix(ceiling, limits.NoCeiling)}
		return
	}
	cmd.Limits = &ledgerv1.LimitTerms{}
	if floor != "" {
		cmd.Limits.Floor = proto.String(floor)
	}
	if ceiling != "" {
		cmd.Limits.Ceiling = proto.String(ceiling)
	}
}

func (l *line) direction() ledgerv1.Direction {
	text := l.record["direction"]
	direction := ledgerv1.Direction(ledgerv1.Direction_value["DIRECTION_"+strings.ToUpper(text)])
	if text != "" && direction == ledgerv1.Direction_DIRECTION_UNSPECIFIED {
		l.wrong(ledgerv1.Reason_REASON_INVALID_DIRECTION, "direction %.40q: want debit, credit or both", text)
	}
	return direction
}

func (l *line) truth(column string) bool {
	text := l.record[column]
	if text != "" && text != "true" && text != "false" {
		l.wrong(ledgerv1.Reason_REASON_UNSPECIFIED, "%s %.40q: want true or false", column, text)
	}
	return text == "true"
}

func (l *line) day(column string) *timestamppb.Timestamp {
	if l.record[column] == "" {
		return nil
	}
	day, bad := date(l.record[column])
	if bad != nil {
		l.wrong(bad.reason, "%s", bad.text)
	}
	return day
}

func (l *line) time(column string) *timestamppb.Timestamp {
	text := l.record[column]
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse(time.DateOnly, text)
	}
	if err != nil {
		l.wrong(ledgerv1.Reason_REASON_INVALID_TIME, "%s %.40q: write a time as in \"2013-01-31T12:00:00Z\"", column, text)
	}
	return timestamppb.New(at)
}
