package importer

import (
	"errors"
	"fmt"
	"io"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
)

// transit holds the money of a transfer between its debit and its credit.
const transit = "@transit"

// HouseholdColumns is the header of a file of commands.
var HouseholdColumns = []string{"command_id", "date", "op", "account", "counter_account", "amount", "currency"}

// ReadHousehold reads a file of commands, one per line: command_id, date ("2013-01-31", the effective time), op, account,
// counter_account ("" is @world), amount in major units ("12.50"), currency. op is one of
//
//	debit, credit   one command, with the command_id as it is
//	transfer        account to counter_account, both controlled: a debit <command_id>:out and a credit <command_id>:in,
//	                both through @transit. The credit is only sent once the debit is applied
//	open            amount is the floor, "0" or negative; "" leaves it to OpenAccounts, or 0
//
// r is read once, line by line.
func ReadHousehold(r io.Reader, options Options) Rows {
	return func(yield func(Row, error) bool) {
		t, err := newTable(r, HouseholdColumns...)
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
			var rows []Row
			if bad == nil {
				rows, bad = householdRows(t.record(fields), options)
			}
			if bad != nil {
				if !yield(Row{File: options.file(), Line: t.line}, bad.at(options.file(), t.line)) {
					return
				}
				continue
			}
			for _, row := range rows {
				row.File, row.Line = options.file(), t.line
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// householdRows makes one row of a line, or two of a transfer: all of them good, or none.
func householdRows(r record, options Options) ([]Row, *problem) {
	effective, bad := date(r["date"])
	if bad != nil {
		return nil, bad
	}
	unit, currency, err := options.unit(r["currency"])
	if err != nil {
		return nil, problemf(ledgerv1.Reason_REASON_INVALID_CURRENCY, "currency: %v", err)
	}
	cmd := &ledgerv1.Command{
		CommandId: r["command_id"], Account: r["account"], CounterAccount: r["counter_account"],
		Currency: currency, EffectiveTime: effective,
	}
	var rows []Row
	switch r["op"] {
	case "debit", "credit":
		cmd.Operation = ledgerv1.Operation_OPERATION_DEBIT
		if r["op"] == "credit" {
			cmd.Operation = ledgerv1.Operation_OPERATION_CREDIT
		}
		if cmd.Amount, bad = amount(r["amount"], unit); bad != nil {
			return nil, bad
		}
		rows = []Row{{Command: cmd}}
	case "transfer":
		if cmd.Amount, bad = amount(r["amount"], unit); bad != nil {
			return nil, bad
		}
		if rows, bad = transferRows(cmd); bad != nil {
			return nil, bad
		}
	case "open":
		cmd.Operation = ledgerv1.Operation_OPERATION_OPEN
		if r["amount"] != "" {
			floor, err := money.ParseMajor(r["amount"], unit)
			if err != nil {
				return nil, problemf(ledgerv1.Reason_REASON_INVALID_FLOOR, "floor: %v", err)
			}
			cmd.Open = &ledgerv1.OpenTerms{Floor: money.FormatMinor(floor)}
		}
		rows = []Row{{Command: cmd}}
	default:
		return nil, problemf(ledgerv1.Reason_REASON_INVALID_OPERATION, "op %.40q: want debit, credit, transfer or open", r["op"])
	}
	for _, row := range rows {
		if bad := check(row.Command); bad != nil {
			return nil, bad
		}
	}
	return rows, nil
}

// transferRows splits a transfer, until the ledger has a command for it.
func transferRows(cmd *ledgerv1.Command) ([]Row, *problem) {
	// Checked on the whole id: a short part of a long id must not pass.
	if err := limits.ValidID(cmd.GetCommandId()); err != nil {
		return nil, problemf(ledgerv1.Reason_REASON_INVALID_COMMAND_ID, "command id: %v", err)
	}
	from, to := cmd.GetAccount(), cmd.GetCounterAccount()
	if to == "" || limits.External(to) || to == from {
		return nil, problemf(ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT,
			"counter account %.40q: a transfer goes to another controlled account; from or to an external one it is a debit or a credit", to)
	}
	// The two legs lie on different shards, so nothing but the wait keeps their order.
	leg := func(suffix string, operation ledgerv1.Operation, account, reference string) *ledgerv1.Command {
		return &ledgerv1.Command{
			CommandId: cmd.GetCommandId() + suffix, Operation: operation, Account: account, CounterAccount: transit,
			Amount: cmd.GetAmount(), Currency: cmd.GetCurrency(), EffectiveTime: cmd.GetEffectiveTime(), Reference: reference,
		}
	}
	return []Row{
		{Command: leg(":out", ledgerv1.Operation_OPERATION_DEBIT, from, "to "+to)},
		{Command: leg(":in", ledgerv1.Operation_OPERATION_CREDIT, to, "from "+from), After: cmd.GetCommandId() + ":out"},
	}, nil
}

// amount reads major units and gives minor ones, above zero.
func amount(s string, unit money.Unit) (string, *problem) {
	minor, err := money.ParseMajor(s, unit)
	switch {
	case errors.Is(err, money.ErrTooLarge):
		return "", problemf(ledgerv1.Reason_REASON_LIMIT_EXCEEDED, "%v", err)
	case err != nil:
		return "", problemf(ledgerv1.Reason_REASON_INVALID_AMOUNT, "%v", err)
	case minor <= 0:
		return "", problemf(ledgerv1.Reason_REASON_INVALID_AMOUNT, "amount %q: want more than zero; the op says the direction", s)
	}
	return money.FormatMinor(minor), nil
}
