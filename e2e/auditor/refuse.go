package auditor

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// What can be told of a command without looking at its account.

const (
	world       = "@world"
	transit     = "@transit"
	adjustments = "@adjustments"
	creditID    = "@credit/"
	returnID    = "@return/"
	undoID      = "@undo/"
	expireID    = "@expire/"
)

// takes says which fields an operation may have, and which it must: c(urrency), a(mount), n(ame of the counter account); small where it may, capital
// where it must; and the words of those that belong to it alone.
var takes = map[ledgerv1.Operation]struct{ fields, own string }{
	ledgerv1.Operation_OPERATION_OPEN:       {"C", "open"},
	ledgerv1.Operation_OPERATION_DEBIT:      {"ACn", "legs"},
	ledgerv1.Operation_OPERATION_CREDIT:     {"ACn", "legs"},
	ledgerv1.Operation_OPERATION_HOLD:       {"ACn", "hold"},
	ledgerv1.Operation_OPERATION_CAPTURE:    {"acn", "hold_id legs"},
	ledgerv1.Operation_OPERATION_RELEASE:    {"ac", "hold_id"},
	ledgerv1.Operation_OPERATION_TRANSFER:   {"ACN", ""},
	ledgerv1.Operation_OPERATION_REVERSE:    {"ac", "reverse"},
	ledgerv1.Operation_OPERATION_SET_LIMITS: {"c", "limits"},
	ledgerv1.Operation_OPERATION_FREEZE:     {"c", "direction"},
	ledgerv1.Operation_OPERATION_UNFREEZE:   {"c", "direction"},
	ledgerv1.Operation_OPERATION_CLOSE:      {"c", ""},
	ledgerv1.Operation_OPERATION_ADJUST:     {"ACn", ""},
	ledgerv1.Operation_OPERATION_RETURN:     {"ACN", ""},
	ledgerv1.Operation_OPERATION_REPAIR:     {"c", "repair"},
}

// nameless tells whether nothing can be recorded for a command: it names no id or no account, or an id that is not its sender's to give.
func nameless(c *ledgerv1.Command) bool {
	id := c.GetCommandId()
	if !named(id) || !named(c.GetAccount()) {
		return true
	}
	if strings.HasPrefix(id, "@") {
		return !derived(c)
	}
	const longest = 105       // others are made of these
	switch c.GetOperation() { //nolint:exhaustive // of these alone
	case ledgerv1.Operation_OPERATION_HOLD, ledgerv1.Operation_OPERATION_TRANSFER, ledgerv1.Operation_OPERATION_REVERSE:
		return len(id) > longest
	}
	return false
}

func named(id string) bool {
	return len(id) >= 1 && len(id) <= 128 && utf8.ValidString(id) && strings.IndexFunc(id, unicode.IsControl) < 0
}

// derived tells whether a command goes by the id that the ledger makes for such a one.
func derived(c *ledgerv1.Command) bool {
	switch c.GetOperation() { //nolint:exhaustive // the others are never derived
	case ledgerv1.Operation_OPERATION_CREDIT:
		return c.GetCommandId() == creditID+c.GetOrigin().GetCommandId()
	case ledgerv1.Operation_OPERATION_RETURN:
		from := c.GetOrigin()
		return c.GetCommandId() == returnID+from.GetCommandId() || c.GetCommandId() == undoOf(from.GetAccount(), from.GetCommandId())
	case ledgerv1.Operation_OPERATION_RELEASE:
		return c.GetCommandId() == expireID+c.GetHoldId()
	}
	return false
}

// undoOf is the id of the return of a transfer's reversal on an account.
func undoOf(account, id string) string {
	hash := sha256.Sum256([]byte(account))
	return fmt.Sprintf("%s%x/%s", undoID, hash[:6], id)
}

func external(account string) bool { return strings.HasPrefix(account, "@") }

// refused is the first thing that is wrong with a command by itself, "" for a good one.
func refused(c *ledgerv1.Command) string {
	may, known := takes[c.GetOperation()]
	if !known || stray(c, may.own) {
		return "INVALID_OPERATION"
	}
	if !derived(c) && (c.GetOperation() == ledgerv1.Operation_OPERATION_RETURN || c.GetOrigin() != nil) {
		return "INVALID_OPERATION"
	}
	if external(c.GetAccount()) {
		return "INVALID_ACCOUNT"
	}
	if !counterFits(c, may.fields) {
		return "INVALID_COUNTER_ACCOUNT"
	}
	if reason := amountFits(c, may.fields); reason != "" {
		return reason
	}
	if unitOf(c.GetCurrency()) == "" && (c.GetCurrency() != "" || strings.Contains(may.fields, "C")) {
		return "INVALID_CURRENCY"
	}
	if !legsFit(c) {
		return "INVALID_LEGS"
	}
	return termsRefused(c)
}

// stray tells whether a command has a field that belongs to other operations.
func stray(c *ledgerv1.Command, own string) bool {
	for word, set := range map[string]bool{
		"open": c.GetOpen() != nil, "repair": c.GetRepair() != nil, "hold": c.GetHold() != nil, "hold_id": c.GetHoldId() != "", "reverse": c.GetReverse() != nil,
		"limits": c.GetLimits() != nil, "direction": c.GetDirection() != 0, "legs": len(c.GetLegs()) > 0,
	} {
		if set && !strings.Contains(" "+own+" ", " "+word+" ") {
			return true
		}
	}
	return false
}

func counterFits(c *ledgerv1.Command, fields string) bool {
	counter := c.GetCounterAccount()
	switch {
	case counter == "":
		return !strings.Contains(fields, "N")
	case !strings.ContainsAny(fields, "nN"):
		return false
	case c.GetOperation() == ledgerv1.Operation_OPERATION_TRANSFER && !external(counter):
		return named(counter) && counter != c.GetAccount()
	}
	return otherSide(c, counter)
}

// otherSide tells whether an account may be the other side of what a command books.
func otherSide(c *ledgerv1.Command, counter string) bool {
	free := counter != transit || derived(c) || c.GetOperation() == ledgerv1.Operation_OPERATION_ADJUST
	return named(counter) && external(counter) && free
}

func amountFits(c *ledgerv1.Command, fields string) string {
	text := c.GetAmount()
	switch {
	case text == "" && !strings.Contains(fields, "A"):
		return ""
	case !strings.ContainsAny(fields, "aA"):
		return "INVALID_AMOUNT"
	}
	amount, reason := number(text, "INVALID_AMOUNT")
	if reason == "" && (amount.Sign() == 0 || amount.Sign() < 0 && c.GetOperation() != ledgerv1.Operation_OPERATION_ADJUST) {
		reason = "INVALID_AMOUNT"
	}
	return reason
}

// number reads minor units; invalid is the reason for what is none.
func number(text, invalid string) (*big.Int, string) {
	digits, negative := strings.CutPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || digits[0] == '0' && (len(digits) > 1 || negative) {
		return nil, invalid
	}
	n, _ := new(big.Int).SetString(text, 10)
	if n.CmpAbs(largest) > 0 {
		return nil, "LIMIT_EXCEEDED"
	}
	return n, ""
}

// unitOf is the unit of a currency with its exponent, of those that the workloads know; "" for any other.
func unitOf(currency string) string {
	code, _, _ := strings.Cut(currency, "/")
	unit := map[string]string{"EUR": "EUR/2", "USD": "USD/2", "JPY": "JPY/0", "CHF": "CHF/2", "PLN": "PLN/2", "HUF": "HUF/2"}[code]
	if currency == "DEM/2" || currency == "POINTS/0" || currency == "ETH/18" {
		return currency // ISO 4217 has no exponent for them
	}
	if currency != code && currency != unit {
		return ""
	}
	return unit
}

func legsFit(c *ledgerv1.Command) bool {
	if len(c.GetLegs()) == 0 {
		return true
	}
	if len(c.GetLegs()) > 100 || c.GetCounterAccount() != "" || c.GetAmount() == "" {
		return false
	}
	total := new(big.Int)
	for _, leg := range c.GetLegs() {
		amount, reason := number(leg.GetAmount(), "bad")
		if reason != "" || amount.Sign() <= 0 || !otherSide(c, leg.GetCounterAccount()) {
			return false
		}
		total.Add(total, amount)
	}
	return total.String() == c.GetAmount()
}

// termsRefused is what is wrong with the terms of one operation.
func termsRefused(c *ledgerv1.Command) string {
	floor, ceiling := c.GetOpen().GetFloor(), c.GetOpen().GetCeiling()
	if l := c.GetLimits(); l != nil {
		if floor, ceiling = l.GetFloor(), l.GetCeiling(); ceiling == "none" {
			ceiling = ""
		}
	}
	if c.GetOperation() == ledgerv1.Operation_OPERATION_SET_LIMITS && (c.GetLimits() == nil || c.GetLimits().Floor == nil && c.GetLimits().Ceiling == nil) {
		return "INVALID_OPERATION"
	}
	for _, limit := range []struct {
		text, invalid string
		sign          int // that it must not have
	}{{floor, "INVALID_FLOOR", 1}, {ceiling, "INVALID_CEILING", -1}} {
		if limit.text == "" {
			continue
		}
		if n, reason := number(limit.text, limit.invalid); reason != "" {
			return reason
		} else if n.Sign() == limit.sign {
			return limit.invalid
		}
	}
	switch c.GetOperation() { //nolint:exhaustive // the others have no terms
	case ledgerv1.Operation_OPERATION_CAPTURE, ledgerv1.Operation_OPERATION_RELEASE:
		if id := c.GetHoldId(); !named(id) || external(id) || len(id) > 119 {
			return "INVALID_HOLD"
		}
	case ledgerv1.Operation_OPERATION_REVERSE:
		if id := c.GetReverse().GetCommandId(); !named(id) || external(id) || id == c.GetCommandId() {
			return "INVALID_REVERSAL"
		}
	case ledgerv1.Operation_OPERATION_FREEZE, ledgerv1.Operation_OPERATION_UNFREEZE:
		if d := c.GetDirection(); d < ledgerv1.Direction_DIRECTION_DEBIT || d > ledgerv1.Direction_DIRECTION_BOTH {
			return "INVALID_DIRECTION"
		}
	}
	return ""
}
