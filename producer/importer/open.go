package importer

import (
	"errors"
	"fmt"
	"strings"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

// Overdraft gives accounts whose id begins with Prefix a floor below zero.
type Overdraft struct {
	Prefix string
	// Floor is the lowest balance allowed, in major units of each account's currency: "-1000000.00", or "0".
	Floor string
}

// ParseOverdraft reads "PREFIX=FLOOR". The floor is what follows the last "=".
func ParseOverdraft(s string) (Overdraft, error) {
	i := strings.LastIndex(s, "=")
	if i < 1 {
		return Overdraft{}, fmt.Errorf("overdraft %.80q: want PREFIX=FLOOR, as in \"Liabilities:=-1000000.00\"", s)
	}
	o := Overdraft{Prefix: s[:i], Floor: s[i+1:]}
	if _, err := money.ParseMajor(o.Floor, money.Unit{Code: "X", Exponent: money.ExponentMax}); err != nil && !errors.Is(err, money.ErrTooLarge) {
		return Overdraft{}, fmt.Errorf("overdraft %.80q: the floor is a number such as \"-1000000.00\"", s)
	}
	if !strings.HasPrefix(o.Floor, "-") && strings.Trim(o.Floor, "0.") != "" {
		return Overdraft{}, fmt.Errorf("overdraft %.80q: the floor is \"0\" or negative", s)
	}
	return o, nil
}

// OpenAccounts puts before the first command of each account, and the first transfer to it, the one that opens it, with
// the id "open:<account>" and the currency of that command. The longest prefix among overdrafts gives the floor; without one it is 0. An account
// that the file itself opens gets no second opening, and the floor only where the file says none.
// An account that cannot be opened is reported on the line that needs it; that line goes on, and is rejected.
func OpenAccounts(rows Rows, overdrafts []Overdraft) Rows {
	return func(yield func(Row, error) bool) {
		met := map[string]bool{}
		for row, err := range rows {
			if err != nil {
				if !yield(row, err) {
					return
				}
				continue
			}
			for _, account := range []string{row.Command.GetAccount(), farEnd(row.Command)} {
				if account == "" || met[account] {
					continue
				}
				met[account] = true
				opening, bad := open(row, account, overdrafts)
				if bad == nil && opening.Command == row.Command {
					continue // the row itself
				}
				if !yield(opening.or(bad)) {
					return
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// open makes the opening of an account that a row needs. A row that is one it gives back, with the floor filled in.
func open(row Row, account string, overdrafts []Overdraft) (Row, *problem) {
	cmd := row.Command
	if cmd.GetOperation() != ledgerv1.Operation_OPERATION_OPEN {
		cmd = &ledgerv1.Command{
			CommandId: "open:" + account, Operation: ledgerv1.Operation_OPERATION_OPEN, Account: account, Currency: cmd.GetCurrency(),
		}
	}
	opening := Row{File: row.File, Line: row.Line, Command: cmd}
	if o, ok := longest(account, overdrafts); ok && cmd.GetOpen().GetFloor() == "" {
		unit, err := money.ParseUnit(cmd.GetCurrency())
		if err != nil {
			return opening, problemf(ledgerv1.Reason_REASON_INVALID_CURRENCY, "open %s: currency: %v", account, err)
		}
		floor, err := money.ParseMajor(o.Floor, unit)
		if err != nil {
			return opening, problemf(ledgerv1.Reason_REASON_INVALID_FLOOR, "open %s: floor: %v", account, err)
		}
		cmd.Open = &ledgerv1.OpenTerms{Floor: money.FormatMinor(floor), Ceiling: cmd.GetOpen().GetCeiling()}
	}
	if bad := check(cmd); bad != nil {
		return opening, problemf(bad.reason, "open %s: %s", account, bad.text)
	}
	return opening, nil
}

func longest(account string, overdrafts []Overdraft) (Overdraft, bool) {
	var best Overdraft
	found := false
	for _, o := range overdrafts {
		if strings.HasPrefix(account, o.Prefix) && len(o.Prefix) >= len(best.Prefix) {
			best, found = o, true
		}
	}
	return best, found
}
