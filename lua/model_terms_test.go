package lua

import (
	"fmt"
	"math/big"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func (m *model) open(c *ledgerv1.Command) string {
	if m.accounts[c.GetAccount()] != nil {
		return "ACCOUNT_EXISTS"
	}
	a := &modelAccount{balance: new(big.Int), held: new(big.Int), floor: number(c.GetOpen().GetFloor()), unit: modelUnits[c.GetCurrency()]}
	if c.GetOpen().GetCeiling() != "" {
		a.ceiling = number(c.GetOpen().GetCeiling())
	}
	m.accounts[c.GetAccount()] = a
	return ""
}

// repair of an account that is right already, seen as it once was: nothing but the sequence changes.
func (m *model) repair(c *ledgerv1.Command) string {
	a, seen := m.accounts[c.GetAccount()], c.GetRepair().GetSeen()
	if c.GetRepair().GetGeneration() != m.generation || a == nil || seen == nil || int64(seen.GetSequence()) > a.sequence {
		return "SEQUENCE_MISMATCH"
	}
	return ""
}

// terms are the commands that change what the account allows.
func (a *modelAccount) terms(c *ledgerv1.Command) string {
	if a.closed {
		return "ACCOUNT_CLOSED"
	}
	down, up := c.GetDirection() != ledgerv1.Direction_DIRECTION_CREDIT, c.GetDirection() != ledgerv1.Direction_DIRECTION_DEBIT
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_FREEZE:
		a.noDebits, a.noCredits = a.noDebits || down, a.noCredits || up
		return ""
	case ledgerv1.Operation_OPERATION_UNFREEZE:
		a.noDebits, a.noCredits = a.noDebits && !down, a.noCredits && !up
		return ""
	case ledgerv1.Operation_OPERATION_CLOSE:
		if a.balance.Sign() != 0 || a.held.Sign() != 0 {
			return "ACCOUNT_NOT_EMPTY"
		}
		a.closed = true
		return ""
	default: // set_limits
	}
	floor, ceiling := a.floor, a.ceiling
	if c.GetLimits().Floor != nil {
		floor = number(c.GetLimits().GetFloor())
	}
	if c.GetLimits().Ceiling != nil {
		ceiling = nil
		if c.GetLimits().GetCeiling() != "none" {
			ceiling = number(c.GetLimits().GetCeiling())
		}
	}
	if less(a.balance, a.held).Cmp(floor) < 0 {
		return "INSUFFICIENT_FUNDS"
	}
	if ceiling != nil && a.balance.Cmp(ceiling) > 0 {
		return "LIMIT_EXCEEDED"
	}
	a.floor, a.ceiling = floor, ceiling
	return ""
}

func (m *model) hold(c *ledgerv1.Command, a *modelAccount, amount *big.Int, now int64) (word, tail string) {
	h := &modelHold{account: c.GetAccount(), counter: c.GetCounterAccount(), left: amount}
	if h.counter == "@world" {
		h.counter = ""
	}
	if c.GetHold().GetExpiresAt() != nil {
		h.ends = c.GetHold().GetExpiresAt().AsTime().UnixMilli()
	}
	switch refused := a.cannotGive(amount, false); {
	case refused != "" && refused != "INSUFFICIENT_FUNDS":
		return refused, ""
	case h.over(now):
		return "HOLD_EXPIRED", ""
	case refused != "":
		return refused, ""
	case sum(a.held, amount).Cmp(modelLimit) >= 0:
		return "LIMIT_EXCEEDED", ""
	}
	a.held = sum(a.held, amount)
	m.holds[c.GetCommandId()] = h
	return "", h.tail(c.GetCommandId())
}

func (h *modelHold) over(now int64) bool { return h.ends != 0 && h.ends <= now }

func (h *modelHold) expires() string {
	if h.ends == 0 {
		return "-"
	}
	return fmt.Sprint(h.ends)
}

func (h *modelHold) tail(id string) string {
	return fmt.Sprintf("\thold\t%s\t%s\t%s\t%s", id, h.left, h.expires(), h.counter)
}

// record is the hold's in Redis.
func (h *modelHold) record() string {
	return fmt.Sprintf("%s\t%s\t%s\t%s", h.left, h.expires(), h.counter, h.account)
}

// part is the hold that a command names, and how much of it.
func (m *model) part(c *ledgerv1.Command, amount *big.Int) (*modelHold, *big.Int, string) {
	h := m.holds[c.GetHoldId()]
	if h == nil || h.account != c.GetAccount() {
		return nil, nil, "HOLD_UNKNOWN"
	}
	if c.GetAmount() == "" {
		amount = h.left
	}
	if amount.Cmp(h.left) > 0 {
		return nil, nil, "HOLD_EXCEEDED"
	}
	return h, amount, ""
}

func (m *model) take(a *modelAccount, id string, h *modelHold, amount *big.Int) string {
	a.held, h.left = less(a.held, amount), less(h.left, amount)
	if h.left.Sign() == 0 {
		delete(m.holds, id)
	}
	return h.tail(id)
}

func (m *model) capture(c *ledgerv1.Command, o *modelOutcome, a *modelAccount, amount *big.Int, now int64) (word, tail string) {
	if refused := a.cannotGive(new(big.Int), true); refused != "" {
		return refused, ""
	}
	h, amount, word := m.part(c, amount)
	switch {
	case word != "":
		return word, ""
	case h.over(now):
		return "HOLD_EXPIRED", ""
	case less(a.balance, amount).CmpAbs(modelLimit) >= 0:
		return "LIMIT_EXCEEDED", ""
	}
	o.delta = new(big.Int).Neg(amount)
	if o.legs = sides(c, o.delta); o.legs == nil && h.counter != "" {
		o.legs = []modelLeg{{h.counter, amount}}
	}
	a.balance = sum(a.balance, o.delta)
	return "", m.take(a, c.GetHoldId(), h, amount) + o.booking()
}

func (m *model) release(c *ledgerv1.Command, a *modelAccount, amount *big.Int) (word, tail string) {
	h, amount, word := m.part(c, amount)
	if word != "" {
		return word, ""
	}
	return "", m.take(a, c.GetHoldId(), h, amount)
}

// original is what a reversal names, on its own account.
func (m *model) original(c *ledgerv1.Command) (string, *modelOutcome) {
	for _, id := range []string{c.GetReverse().GetCommandId(), "@credit/" + c.GetReverse().GetCommandId()} {
		if o := m.outcomes[id]; o != nil && o.account == c.GetAccount() {
			return id, o
		}
	}
	return "", nil
}

func (m *model) reverse(c *ledgerv1.Command, o *modelOutcome, a *modelAccount, amount *big.Int) (word, tail string) {
	id, was := m.original(c)
	if was == nil || was.delta == nil || was.delta.Sign() == 0 || was.reversal || (was.from == "" && len(was.legs) == 1 && was.legs[0].account == "@transit") {
		return "NOT_REVERSIBLE", ""
	}
	whole := new(big.Int).Abs(was.delta)
	rest := less(whole, was.undone)
	if c.GetAmount() == "" {
		amount = rest
	}
	if amount.Sign() == 0 || amount.Cmp(rest) > 0 || (len(was.legs) > 1 && amount.Cmp(whole) != 0) {
		return "NOT_REVERSIBLE", ""
	}
	if was.delta.Sign() < 0 {
		word, o.delta = a.cannotTake(amount), amount
	} else {
		o.delta = new(big.Int).Neg(amount)
		if word = a.cannotGive(amount, true); word == "" && !c.GetReverse().GetAllowOverdraft() {
			word = a.cannotGive(amount, false)
		}
	}
	if word != "" {
		return word, ""
	}
	was.undone = sum(was.undone, amount)
	a.balance = sum(a.balance, o.delta)
	o.reversal, o.from, o.legs = true, was.from, was.legs
	return "", fmt.Sprintf("\treversed\t%s\t%s", id, was.undone) + o.booking()
}
