// Package auditor judges a ledger from the outside. It works out from the commands alone what must have become of each, with rules and
// arithmetic of its own (math/big, no code of the ledger's), and compares that with the log, with Redis and with ClickHouse.
package auditor

import (
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Account is what an account must be.
type Account struct {
	Balance, Floor *big.Int
	Sequence       uint64
	Currency       string
}

// Expectation is what must have become of one command.
type Expectation struct {
	Reason  string // "" = applied
	Balance string // of the account afterwards; "" where there is none
	payload string
}

// Books are the expected state of one shard, built command by command in the order of its partition.
type Books struct {
	Accounts map[string]*Account
	Outcomes map[string]Expectation
	// Reused and Nameless count commands that must have become dead letters instead.
	Reused, Nameless int
}

// NewBooks are empty.
func NewBooks() *Books {
	return &Books{Accounts: map[string]*Account{}, Outcomes: map[string]Expectation{}}
}

// largest is 18 nines.
var largest = new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil), big.NewInt(1))

// Take expects one command. nil is a record that is no command.
func (b *Books) Take(c *ledgerv1.Command) {
	if c == nil || !named(c.GetCommandId()) || !named(c.GetAccount()) {
		b.Nameless++
		return
	}
	payload := payloadOf(c)
	if first, known := b.Outcomes[c.GetCommandId()]; known {
		if first.payload != payload {
			b.Reused++
		}
		return
	}
	reason := b.decide(c)
	e := Expectation{Reason: reason, payload: payload}
	if a := b.Accounts[c.GetAccount()]; a != nil {
		e.Balance = a.Balance.String()
	}
	b.Outcomes[c.GetCommandId()] = e
}

func (b *Books) decide(c *ledgerv1.Command) string {
	a := b.Accounts[c.GetAccount()]
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_OPEN:
		return b.open(c, a)
	case ledgerv1.Operation_OPERATION_DEBIT, ledgerv1.Operation_OPERATION_CREDIT:
		return move(c, a)
	case ledgerv1.Operation_OPERATION_REPAIR:
		// Right only after the reconciler's own repairs of a quiet ledger, which all find what they saw: the books stay, the sequence moves.
		if a == nil {
			return "ACCOUNT_UNKNOWN"
		}
		a.Sequence++
		return ""
	case ledgerv1.Operation_OPERATION_UNSPECIFIED:
	}
	return "INVALID_OPERATION"
}

func (b *Books) open(c *ledgerv1.Command, a *Account) string {
	if strings.HasPrefix(c.GetAccount(), "@") {
		return "INVALID_ACCOUNT"
	}
	if a != nil {
		return "ACCOUNT_EXISTS"
	}
	floor := new(big.Int)
	if text := c.GetOpen().GetFloor(); text != "" {
		if _, ok := floor.SetString(text, 10); !ok {
			return "INVALID_FLOOR"
		}
	}
	b.Accounts[c.GetAccount()] = &Account{Balance: new(big.Int), Floor: floor, Sequence: 1, Currency: c.GetCurrency()}
	return ""
}

func move(c *ledgerv1.Command, a *Account) string {
	if strings.HasPrefix(c.GetAccount(), "@") {
		return "INVALID_ACCOUNT"
	}
	amount, reason := amountOf(c.GetAmount())
	switch {
	case reason != "":
		return reason
	case a == nil:
		return "ACCOUNT_UNKNOWN"
	case a.Currency != c.GetCurrency():
		return "CURRENCY_MISMATCH"
	}
	after := new(big.Int)
	if c.GetOperation() == ledgerv1.Operation_OPERATION_CREDIT {
		if after.Add(a.Balance, amount); after.Cmp(largest) > 0 {
			return "LIMIT_EXCEEDED"
		}
	} else if after.Sub(a.Balance, amount); after.Cmp(a.Floor) < 0 {
		return "INSUFFICIENT_FUNDS"
	}
	a.Balance = after
	a.Sequence++
	return ""
}

func amountOf(text string) (*big.Int, string) {
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return nil, "INVALID_AMOUNT"
		}
	}
	if text == "" || text[0] == '0' {
		return nil, "INVALID_AMOUNT"
	}
	amount, _ := new(big.Int).SetString(text, 10)
	if amount.Cmp(largest) > 0 {
		return nil, "LIMIT_EXCEEDED"
	}
	return amount, ""
}

func named(id string) bool {
	return len(id) >= 1 && len(id) <= 128 && utf8.ValidString(id) && strings.IndexFunc(id, unicode.IsControl) < 0
}

// payloadOf is everything that two commands of one id must share.
func payloadOf(c *ledgerv1.Command) string {
	return strings.Join([]string{
		c.GetOperation().String(), c.GetAccount(), c.GetAmount(), c.GetCurrency(), c.GetCounterAccount(), c.GetReference(), c.GetDescription(),
		c.GetOpen().String(), c.GetEffectiveTime().String(), c.GetDeadline().String(),
	}, "\x00")
}
