package lua

import (
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
)

// The verbs that move an amount, which stands in their row, and do nothing else.
const (
	debit  = "debit"
	credit = "credit"
)

// whatIsLeft stands for the amount of a command that names none.
const whatIsLeft = "-"

// units remembers what the currency of the last command means: most commands have the same.
type units struct{ currency, unit string }

// of is "" for a currency that is no unit.
func (u *units) of(currency string) string {
	if u.currency != currency {
		u.currency, u.unit = currency, ""
		if unit, err := money.ParseUnit(currency); err == nil {
			u.unit = unit.String()
		}
	}
	return u.unit
}

// verb is a function of include/ with its terms and the unit that it checks.
func (c *Command) verb(units *units) (operation, terms, unit string) {
	if c.Refusal != ledgerv1.Reason_REASON_UNSPECIFIED {
		return refuse(c.Refusal)
	}
	unit = units.of(c.GetCurrency())
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_DEBIT, ledgerv1.Operation_OPERATION_TRANSFER: // the far end is a command of its own
		return debit, booking(c.Command), unit
	case ledgerv1.Operation_OPERATION_CREDIT:
		return credit, booking(c.Command), unit
	case ledgerv1.Operation_OPERATION_OPEN:
		return "open", openTerms(c.GetOpen()), unit
	case ledgerv1.Operation_OPERATION_HOLD:
		return "hold", c.GetCommandId() + "\t" + c.GetAmount() + "\t" + millis(c.GetHold().GetExpiresAt()) + "\t" + counterAccount(c.Command), unit
	case ledgerv1.Operation_OPERATION_CAPTURE:
		return "capture", c.GetHoldId() + "\t" + orElse(c.GetAmount(), whatIsLeft) + booking(c.Command), unit
	case ledgerv1.Operation_OPERATION_RELEASE:
		return "release", c.GetHoldId() + "\t" + orElse(c.GetAmount(), whatIsLeft), unit
	case ledgerv1.Operation_OPERATION_REVERSE:
		return "reverse", reverseTerms(c.Command), unit
	case ledgerv1.Operation_OPERATION_SET_LIMITS:
		return "set_limits", limitTerms(c.GetLimits()), unit
	case ledgerv1.Operation_OPERATION_FREEZE:
		return "freeze", directionWord(c.GetDirection()), unit
	case ledgerv1.Operation_OPERATION_UNFREEZE:
		return "unfreeze", directionWord(c.GetDirection()), unit
	case ledgerv1.Operation_OPERATION_CLOSE:
		return "close", "", unit
	case ledgerv1.Operation_OPERATION_ADJUST, ledgerv1.Operation_OPERATION_RETURN:
		return "adjust", c.GetAmount() + booking(c.Command), unit
	case ledgerv1.Operation_OPERATION_REPAIR:
		return repairTerms(c.GetRepair())
	case ledgerv1.Operation_OPERATION_UNSPECIFIED:
	}
	return refuse(ledgerv1.Reason_REASON_INVALID_OPERATION)
}

// moved is an amount in minor units; 0, which the script refuses, where the text is none.
func moved(amount string) uint64 {
	v, err := money.ParseMinor(amount)
	if err != nil {
		return 0
	}
	return uint64(max(0, v))
}

func refuse(r ledgerv1.Reason) (operation, terms, unit string) { return "refuse", reasonWord(r), "" }

func openTerms(t *ledgerv1.OpenTerms) string {
	terms := orElse(t.GetFloor(), "0")
	if t.GetCeiling() != "" {
		terms += ":" + t.GetCeiling()
	}
	return terms
}

// reverses is the id of the command that this one asks to reverse; "" where it asks for something else.
func (c *Command) reverses() string {
	if c.Refusal != ledgerv1.Reason_REASON_UNSPECIFIED || c.GetOperation() != ledgerv1.Operation_OPERATION_REVERSE {
		return ""
	}
	return c.GetReverse().GetCommandId()
}

func reverseTerms(c *ledgerv1.Command) string {
	forced := "0"
	if c.GetReverse().GetAllowOverdraft() {
		forced = "1"
	}
	return c.GetReverse().GetCommandId() + "\t" + orElse(c.GetAmount(), whatIsLeft) + "\t" + forced
}

func limitTerms(t *ledgerv1.LimitTerms) string {
	floor, ceiling := "-", "-" // as they are
	if t != nil && t.Floor != nil {
		floor = t.GetFloor()
	}
	if t != nil && t.Ceiling != nil {
		ceiling = t.GetCeiling()
	}
	return floor + "\t" + ceiling
}

func directionWord(d ledgerv1.Direction) string {
	switch d {
	case ledgerv1.Direction_DIRECTION_DEBIT:
		return "debit"
	case ledgerv1.Direction_DIRECTION_CREDIT:
		return "credit"
	case ledgerv1.Direction_DIRECTION_BOTH, ledgerv1.Direction_DIRECTION_UNSPECIFIED:
	}
	return "both"
}

func repairTerms(r *ledgerv1.RepairTerms) (operation, terms, unit string) {
	if r.GetLog().GetSequence() > limits.SequenceMax {
		return refuse(ledgerv1.Reason_REASON_INVALID_REPAIR)
	}
	return "repair", snapshotRecord(r.GetLog()) + "|" + snapshotRecord(r.GetSeen()) + "|" + r.GetGeneration(), r.GetLog().GetUnit()
}

func snapshotRecord(s *ledgerv1.AccountSnapshot) string {
	if s == nil {
		return noAccount
	}
	return stateRecord(&ledgerv1.AccountState{
		Balance: s.GetBalance(), Held: s.GetHeld(), Sequence: s.GetSequence(), Floor: s.GetFloor(), Ceiling: s.GetCeiling(),
		Unit: s.GetUnit(), Status: orElse(s.GetStatus(), active),
	})
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
