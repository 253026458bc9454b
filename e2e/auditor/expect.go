// Package auditor judges a ledger from the outside. It works out from the commands alone what must have become of each, with rules and
// arithmetic of its own (math/big, no code of the ledger's), and compares that with the log, with Redis and with ClickHouse. Two things it
// takes from the log, for no command says them: when the writer decided, and, where outcomes are forgotten, that it knew a command no more
// that was to be undone.
package auditor

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Account is what an account must be.
type Account struct {
	Balance, Held, Floor *big.Int
	Ceiling              *big.Int // nil: none
	Sequence             uint64
	Unit                 string
	NoDebit, NoCredit    bool // frozen
	Closed               bool
}

// record is the account as the ledger writes it.
func (a *Account) record() string {
	if a == nil {
		return "-"
	}
	limits, status := a.Floor.String(), "active"
	if a.Ceiling != nil {
		limits += ":" + a.Ceiling.String()
	}
	switch {
	case a.Closed:
		status = "closed"
	case a.NoDebit && a.NoCredit:
		status = "frozen"
	case a.NoDebit:
		status = "frozen_debit"
	case a.NoCredit:
		status = "frozen_credit"
	}
	return recordText(a.Balance.String(), a.Held.String(), a.Sequence, limits, a.Unit, status)
}

// recordText leaves out what is so with most accounts.
func recordText(balance, held string, sequence uint64, limits, unit, status string) string {
	text := balance
	if held != "0" {
		text += ":" + held
	}
	text += fmt.Sprintf(" %d %s", sequence, unit)
	if limits != "0" || status != "active" {
		text += " " + limits + " " + status
	}
	return text
}

// Hold is what is set aside on an account.
type Hold struct {
	Account, Counter string // Counter: where a capture goes that does not say
	Left             *big.Int
	Expires          time.Time // zero: never
}

// record is the hold as the ledger writes it.
func (h *Hold) record() string {
	expires := "-"
	if !h.Expires.IsZero() {
		expires = fmt.Sprint(h.Expires.UnixMilli())
	}
	return strings.Join([]string{h.Left.String(), expires, h.Counter, h.Account}, "\t")
}

// leg is one counter account's part of what was booked, not signed.
type leg struct{ account, amount string }

// Expectation is what must have become of one command.
type Expectation struct {
	Command *ledgerv1.Command
	Reason  string // "" = applied
	Delta   *big.Int
	After   string // the account's record, "-" where there is none
	Hold    string // id and what is left of it
	Undone  string // what was reversed, and how much of it so far
	From    string // the account that sent what arrived
	Legs    []leg

	payload string
	undone  *big.Int // of this one, so far
}

// whole is everything that an outcome says of a command.
func (e *Expectation) whole() string {
	return strings.Join([]string{e.Reason, e.Delta.String(), e.After, e.Hold, e.Undone, e.From, fmt.Sprint(e.Legs)}, " | ")
}

// Books are the expected state of one shard, built command by command in the order of its partition.
type Books struct {
	Accounts map[string]*Account
	Holds    map[string]*Hold // open ones, by the id of their command
	Outcomes map[string]*Expectation
	// DeadLetters counts the commands that must have become dead letters: without a name, or with the name of another one.
	DeadLetters int

	log    map[string]*ledgerv1.Outcome // what the log says, by command id
	window time.Duration                // for how long outcomes are remembered at least; 0 = for ever
}

// NewBooks are empty. log is asked for times, and, where there is a window, for what was forgotten.
func NewBooks(log map[string]*ledgerv1.Outcome, window time.Duration) *Books {
	return &Books{Accounts: map[string]*Account{}, Holds: map[string]*Hold{}, Outcomes: map[string]*Expectation{}, log: log, window: window}
}

// largest is 18 nines.
var largest = new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil), big.NewInt(1))

// Take expects one command. nil is a record that is no command.
func (b *Books) Take(c *ledgerv1.Command) {
	if c == nil || nameless(c) {
		b.DeadLetters++
		return
	}
	payload := payloadOf(c)
	if first, known := b.Outcomes[c.GetCommandId()]; known {
		if first.payload != payload {
			b.DeadLetters++
		}
		return
	}
	e := &Expectation{Command: c, Delta: new(big.Int), payload: payload, undone: new(big.Int)}
	if e.Reason = refused(c); e.Reason == "" {
		e.Reason = b.decide(c, e)
	}
	e.After = b.Accounts[c.GetAccount()].record()
	b.Outcomes[c.GetCommandId()] = e
}

// decided is the moment at which the writer decided, in its milliseconds.
func (b *Books) decided(c *ledgerv1.Command) time.Time {
	return b.log[c.GetCommandId()].GetDecidedAt().AsTime().Truncate(time.Millisecond)
}

// payloadOf is everything that two commands of one id must share.
func payloadOf(c *ledgerv1.Command) string {
	return fmt.Sprint(
		c.GetOperation(), "\x00", c.GetAccount(), "\x00", c.GetAmount(), "\x00", c.GetCurrency(), "\x00", c.GetCounterAccount(), "\x00", c.GetReference(), "\x00",
		c.GetDescription(), "\x00", c.GetMetadata(), "\x00", c.GetEffectiveTime().AsTime(), c.GetDeadline().AsTime(), c.GetDeadline() == nil, c.ExpectedSequence == nil,
		c.GetExpectedSequence(), c.GetOpen().GetFloor(), "\x00", c.GetOpen().GetCeiling(), "\x00", c.GetHold().GetExpiresAt().AsTime(), c.GetHold().GetExpiresAt() == nil,
		c.GetHoldId(), "\x00", c.GetReverse().GetCommandId(), "\x00", c.GetReverse().GetAllowOverdraft(), c.GetLimits().GetFloor(), "\x00", c.GetLimits().GetCeiling(), "\x00",
		c.GetDirection(), legsOf(c), c.GetOrigin().GetCommandId(), "\x00", c.GetOrigin().GetAccount(), "\x00", c.GetOrigin().GetReason(), c.GetRepair().GetSeen(), c.GetRepair().GetLog(),
		c.GetRepair().GetGeneration())
}

func legsOf(c *ledgerv1.Command) []leg {
	var legs []leg
	for _, l := range c.GetLegs() {
		legs = append(legs, leg{l.GetCounterAccount(), l.GetAmount()})
	}
	return legs
}
