package auditor

import (
	"fmt"
	"math/big"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// decide works out what becomes of a well-formed command, and writes it into the books and into e. It returns the reason of a rejection.
func (b *Books) decide(c *ledgerv1.Command, e *Expectation) string {
	a, op := b.Accounts[c.GetAccount()], c.GetOperation()
	if d := c.GetDeadline(); d != nil && b.decided(c).UnixMilli() > d.AsTime().UnixMilli() {
		return "DEADLINE_PASSED"
	}
	if a != nil && c.ExpectedSequence != nil && a.Sequence != c.GetExpectedSequence() {
		return "SEQUENCE_MISMATCH"
	}
	if op == ledgerv1.Operation_OPERATION_OPEN {
		return b.open(c, a)
	}
	switch {
	case a == nil:
		return "ACCOUNT_UNKNOWN"
	case c.GetCurrency() != "" && unitOf(c.GetCurrency()) != a.Unit:
		return "CURRENCY_MISMATCH"
	}
	reason := b.change(c, a, e)
	if reason == "" {
		a.Sequence++
	}
	return reason
}

func (b *Books) open(c *ledgerv1.Command, a *Account) string {
	if a != nil {
		return "ACCOUNT_EXISTS"
	}
	a = &Account{Balance: new(big.Int), Held: new(big.Int), Floor: new(big.Int), Sequence: 1, Unit: unitOf(c.GetCurrency())}
	if text := c.GetOpen().GetFloor(); text != "" {
		a.Floor, _ = number(text, "")
	}
	if text := c.GetOpen().GetCeiling(); text != "" {
		a.Ceiling, _ = number(text, "")
	}
	b.Accounts[c.GetAccount()] = a
	return ""
}

// change is what a command does to an account that is there.
func (b *Books) change(c *ledgerv1.Command, a *Account, e *Expectation) string {
	amount, _ := number(c.GetAmount(), "")
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_DEBIT, ledgerv1.Operation_OPERATION_TRANSFER:
		return e.book(a.debit(amount), new(big.Int).Neg(amount), bookingOf(c, amount))
	case ledgerv1.Operation_OPERATION_CREDIT:
		e.From = c.GetOrigin().GetAccount()
		return e.book(a.credit(amount), amount, bookingOf(c, amount))
	case ledgerv1.Operation_OPERATION_ADJUST, ledgerv1.Operation_OPERATION_RETURN:
		return e.book(a.put(amount), amount, bookingOf(c, amount))
	case ledgerv1.Operation_OPERATION_HOLD:
		return b.hold(c, a, amount, e)
	case ledgerv1.Operation_OPERATION_CAPTURE, ledgerv1.Operation_OPERATION_RELEASE:
		return b.unhold(c, a, amount, e)
	case ledgerv1.Operation_OPERATION_REVERSE:
		return b.reverse(c, a, amount, e)
	case ledgerv1.Operation_OPERATION_SET_LIMITS:
		return a.limit(c.GetLimits())
	case ledgerv1.Operation_OPERATION_FREEZE, ledgerv1.Operation_OPERATION_UNFREEZE:
		return a.freeze(c.GetDirection(), c.GetOperation() == ledgerv1.Operation_OPERATION_FREEZE)
	case ledgerv1.Operation_OPERATION_CLOSE:
		return a.close()
	case ledgerv1.Operation_OPERATION_REPAIR, ledgerv1.Operation_OPERATION_OPEN, ledgerv1.Operation_OPERATION_UNSPECIFIED:
	}
	return "" // a repair, which finds what it saw: the books stay, the sequence moves
}

// book notes what was booked, unless reason says that nothing was.
func (e *Expectation) book(reason string, delta *big.Int, legs []leg) string {
	if reason != "" {
		e.From = ""
		return reason
	}
	e.Delta, e.Legs = delta, legs
	return ""
}

// bookingOf is the other side of what a command books; nil for all of it with @world.
func bookingOf(c *ledgerv1.Command, amount *big.Int) []leg {
	if legs := legsOf(c); legs != nil {
		return legs
	}
	counter := c.GetCounterAccount()
	switch c.GetOperation() { //nolint:exhaustive // the others say it themselves
	case ledgerv1.Operation_OPERATION_TRANSFER:
		if !external(counter) {
			counter = transit
		}
	case ledgerv1.Operation_OPERATION_ADJUST:
		if counter == "" {
			counter = adjustments
		}
	case ledgerv1.Operation_OPERATION_CAPTURE:
		if counter == world { // said aloud, it is not what the hold says
			return []leg{{world, amount.String()}}
		}
	}
	if counter == "" || counter == world {
		return nil
	}
	return []leg{{counter, new(big.Int).Abs(amount).String()}}
}

// least is what a debit must leave.
func (a *Account) least() *big.Int { return new(big.Int).Add(a.Held, a.Floor) }

func (a *Account) refusesDebit() string {
	switch {
	case a.Closed:
		return "ACCOUNT_CLOSED"
	case a.NoDebit:
		return "ACCOUNT_FROZEN"
	}
	return ""
}

func (a *Account) debit(amount *big.Int) string {
	after := new(big.Int).Sub(a.Balance, amount)
	switch reason := a.refusesDebit(); {
	case reason != "":
		return reason
	case after.Cmp(a.least()) < 0:
		return "INSUFFICIENT_FUNDS"
	}
	a.Balance = after
	return ""
}

func (a *Account) credit(amount *big.Int) string {
	after := new(big.Int).Add(a.Balance, amount)
	switch {
	case a.Closed:
		return "ACCOUNT_CLOSED"
	case a.NoCredit:
		return "ACCOUNT_FROZEN"
	case after.Cmp(largest) > 0, a.Ceiling != nil && after.Cmp(a.Ceiling) > 0:
		return "LIMIT_EXCEEDED"
	}
	a.Balance = after
	return ""
}

// put books a signed amount whatever limits and status say.
func (a *Account) put(amount *big.Int) string {
	after := new(big.Int).Add(a.Balance, amount)
	if after.CmpAbs(largest) > 0 {
		return "LIMIT_EXCEEDED"
	}
	a.Balance = after
	return ""
}

func (a *Account) limit(l *ledgerv1.LimitTerms) string {
	if a.Closed {
		return "ACCOUNT_CLOSED"
	}
	floor, ceiling := a.Floor, a.Ceiling
	if l.Floor != nil {
		floor, _ = number(l.GetFloor(), "")
	}
	if l.Ceiling != nil {
		ceiling, _ = number(l.GetCeiling(), "") // nil for "none"
	}
	switch {
	case a.Balance.Cmp(new(big.Int).Add(a.Held, floor)) < 0:
		return "INSUFFICIENT_FUNDS"
	case ceiling != nil && a.Balance.Cmp(ceiling) > 0:
		return "LIMIT_EXCEEDED"
	}
	a.Floor, a.Ceiling = floor, ceiling
	return ""
}

func (a *Account) freeze(d ledgerv1.Direction, freeze bool) string {
	if a.Closed {
		return "ACCOUNT_CLOSED"
	}
	if d != ledgerv1.Direction_DIRECTION_CREDIT {
		a.NoDebit = freeze
	}
	if d != ledgerv1.Direction_DIRECTION_DEBIT {
		a.NoCredit = freeze
	}
	return ""
}

func (a *Account) close() string {
	switch {
	case a.Closed:
		return "ACCOUNT_CLOSED"
	case a.Balance.Sign() != 0 || a.Held.Sign() != 0:
		return "ACCOUNT_NOT_EMPTY"
	}
	a.Closed = true
	return ""
}

func (b *Books) hold(c *ledgerv1.Command, a *Account, amount *big.Int, e *Expectation) string {
	h := &Hold{Account: c.GetAccount(), Left: amount, Counter: c.GetCounterAccount()}
	if h.Counter == world {
		h.Counter = ""
	}
	if at := c.GetHold().GetExpiresAt(); at != nil {
		h.Expires = at.AsTime()
	}
	switch reason := a.refusesDebit(); {
	case reason != "":
		return reason
	case h.over(b, c):
		return "HOLD_EXPIRED"
	case new(big.Int).Sub(a.Balance, amount).Cmp(a.least()) < 0:
		return "INSUFFICIENT_FUNDS"
	}
	held := new(big.Int).Add(a.Held, amount)
	if held.Cmp(largest) > 0 {
		return "LIMIT_EXCEEDED"
	}
	a.Held, b.Holds[c.GetCommandId()] = held, h
	e.Hold = fmt.Sprint(c.GetCommandId(), " ", h.Left)
	return ""
}

// over tells whether the hold's time was over when the command was decided.
func (h *Hold) over(b *Books, c *ledgerv1.Command) bool {
	return !h.Expires.IsZero() && h.Expires.UnixMilli() <= b.decided(c).UnixMilli()
}

// unhold takes from a hold what a capture debits, or a release gives back.
func (b *Books) unhold(c *ledgerv1.Command, a *Account, amount *big.Int, e *Expectation) string {
	capture := c.GetOperation() == ledgerv1.Operation_OPERATION_CAPTURE
	if reason := a.refusesDebit(); capture && reason != "" {
		return reason
	}
	h := b.Holds[c.GetHoldId()]
	if h == nil || h.Account != c.GetAccount() {
		return "HOLD_UNKNOWN"
	}
	if amount == nil {
		amount = h.Left
	}
	if amount.Cmp(h.Left) > 0 {
		return "HOLD_EXCEEDED"
	}
	if capture {
		after := new(big.Int).Sub(a.Balance, amount)
		switch {
		case h.over(b, c):
			return "HOLD_EXPIRED"
		case after.CmpAbs(largest) > 0:
			return "LIMIT_EXCEEDED"
		}
		a.Balance, e.Delta, e.Legs = after, new(big.Int).Neg(amount), bookingOf(c, amount)
		if e.Legs == nil && h.Counter != "" {
			e.Legs = []leg{{h.Counter, amount.String()}}
		}
	}
	h.Left, a.Held = new(big.Int).Sub(h.Left, amount), new(big.Int).Sub(a.Held, amount)
	if h.Left.Sign() == 0 {
		delete(b.Holds, c.GetHoldId())
	}
	e.Hold = fmt.Sprint(c.GetHoldId(), " ", h.Left)
	return ""
}

// reverse undoes what a command changed on this account, or the far end of a transfer of that name.
func (b *Books) reverse(c *ledgerv1.Command, a *Account, amount *big.Int, e *Expectation) string {
	id := c.GetReverse().GetCommandId()
	o := b.Outcomes[id]
	if o == nil || o.Command.GetAccount() != c.GetAccount() {
		id = creditID + id
		o = b.Outcomes[id]
	}
	if o == nil || o.Command.GetAccount() != c.GetAccount() || o.Reason != "" || o.Delta.Sign() == 0 || o.Undone != "" || b.forgotten(c, o) {
		return "NOT_REVERSIBLE"
	}
	whole := new(big.Int).Abs(o.Delta)
	left := new(big.Int).Sub(whole, o.undone)
	if amount == nil {
		amount = left
	}
	sender := o.From == "" && len(o.Legs) == 1 && o.Legs[0].account == transit
	if sender || amount.Sign() == 0 || amount.Cmp(left) > 0 || len(o.Legs) > 1 && amount.Cmp(whole) != 0 {
		return "NOT_REVERSIBLE"
	}
	delta := new(big.Int).Set(amount)
	if o.Delta.Sign() < 0 {
		if reason := a.credit(amount); reason != "" {
			return reason
		}
	} else if reason := a.takeBack(amount, c.GetReverse().GetAllowOverdraft()); reason != "" {
		return reason
	} else {
		delta.Neg(delta)
	}
	o.undone.Add(o.undone, amount)
	e.Delta, e.From, e.Legs, e.Undone = delta, o.From, o.Legs, fmt.Sprint(id, " ", o.undone)
	if len(e.Legs) == 1 {
		e.Legs = []leg{{o.Legs[0].account, amount.String()}}
	}
	return ""
}

func (a *Account) takeBack(amount *big.Int, anyway bool) string {
	if !anyway {
		after := new(big.Int).Sub(a.Balance, amount)
		if reason := a.refusesDebit(); reason == "" && after.CmpAbs(largest) > 0 {
			return "LIMIT_EXCEEDED"
		}
		return a.debit(amount)
	}
	if reason := a.refusesDebit(); reason != "" {
		return reason
	}
	return a.put(new(big.Int).Neg(amount))
}

// forgotten tells whether the log says that the ledger did not know a command any more, and it was old enough for that.
func (b *Books) forgotten(reversal *ledgerv1.Command, o *Expectation) bool {
	if b.window == 0 || b.log[reversal.GetCommandId()].GetReason() != ledgerv1.Reason_REASON_NOT_REVERSIBLE {
		return false
	}
	return b.decided(reversal).Sub(b.decided(o.Command)) >= b.window
}
