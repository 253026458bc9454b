package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// model is a shard as the design describes it, in big integers and plain maps. It shares no code with the scripts or their Go side
// except FingerprintOf, which is tested alone.
type model struct {
	generation string
	accounts   map[string]*modelAccount
	outcomes   map[string]modelOutcome
	position   int
	chain      string
}

type modelAccount struct {
	balance, floor *big.Int
	sequence       int64
	unit           string
	// past are the records it had at each sequence, from sequence 1.
	past []string
}

type modelOutcome struct{ payload, said string }

func newModel(generation string) *model {
	return &model{generation: generation, accounts: map[string]*modelAccount{}, outcomes: map[string]modelOutcome{},
		chain: "0000000000000000000000000000000000000000"}
}

func number(s string) *big.Int {
	if s == "" {
		return new(big.Int)
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic(s)
	}
	return n
}

func (a *modelAccount) record() string {
	return fmt.Sprintf("%s 0 %d %s %s active", a.balance, a.sequence, a.floor, a.unit)
}

func (a *modelAccount) move(balance *big.Int) {
	a.balance = balance
	a.sequence++
	a.past = append(a.past, a.record())
}

// payload is what makes two commands with one id the same.
func payload(c *ledgerv1.Command) string {
	c = proto.CloneOf(c)
	c.CommandId, c.Source, c.ReplyTo, c.Traceparent, c.RequestedAt = "", "", "", "", nil
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// decide answers in the short form of said.
func (m *model) decide(c *ledgerv1.Command, refusal string, now time.Time) string {
	if known, ok := m.outcomes[c.GetCommandId()]; ok {
		if known.payload == payload(c) {
			return "remembered " + known.said
		}
		return "reused " + known.said
	}
	word, delta := refusal, "0"
	if refusal == "" {
		if word = m.condition(c, now); word == "" {
			word, delta = m.effect(c)
		}
	}
	record, after := "-", "-"
	if a := m.accounts[c.GetAccount()]; a != nil {
		record, after = a.record(), fmt.Sprintf("%s@%d", a.balance, a.sequence)
	}
	m.position++
	fingerprint := FingerprintOf(c)
	sum := sha1.Sum(fmt.Appendf(nil, "%s%s\n%s%d %d %s %s %s", m.chain, c.GetCommandId(), fingerprint[:],
		m.position, now.UnixMilli(), word, delta, record))
	m.chain = hex.EncodeToString(sum[:])
	outcome := word + " " + delta + " " + after
	m.outcomes[c.GetCommandId()] = modelOutcome{payload: payload(c), said: outcome}
	return outcome
}

func (m *model) condition(c *ledgerv1.Command, now time.Time) string {
	a := m.accounts[c.GetAccount()]
	switch {
	case c.GetDeadline() != nil && c.GetDeadline().AsTime().Before(now):
		return "DEADLINE_PASSED"
	case c.ExpectedSequence != nil && a != nil && c.GetExpectedSequence() != uint64(a.sequence):
		return "SEQUENCE_MISMATCH"
	}
	return ""
}

var modelLimit = new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil) // the first number that is too large

func (m *model) effect(c *ledgerv1.Command) (word, delta string) {
	a := m.accounts[c.GetAccount()]
	unit := map[string]string{"USD": "USD/2", "JPY": "JPY/0"}[c.GetCurrency()]
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_OPEN:
		if a != nil {
			return "ACCOUNT_EXISTS", "0"
		}
		a = &modelAccount{floor: number(c.GetOpen().GetFloor()), unit: unit}
		a.move(new(big.Int))
		m.accounts[c.GetAccount()] = a
		return "applied", "0"
	case ledgerv1.Operation_OPERATION_REPAIR:
		return m.repair(c), "0"
	default: // debit and credit
	}
	amount := number(c.GetAmount())
	switch {
	case a == nil:
		return "ACCOUNT_UNKNOWN", "0"
	case a.unit != unit:
		return "CURRENCY_MISMATCH", "0"
	case c.GetOperation() == ledgerv1.Operation_OPERATION_DEBIT:
		rest := new(big.Int).Sub(a.balance, amount)
		if rest.Cmp(a.floor) < 0 {
			return "INSUFFICIENT_FUNDS", "0"
		}
		a.move(rest)
		return "applied", "-" + amount.String()
	}
	sum := new(big.Int).Add(a.balance, amount)
	if sum.CmpAbs(modelLimit) >= 0 {
		return "LIMIT_EXCEEDED", "0"
	}
	a.move(sum)
	return "applied", amount.String()
}

// repair of an account that is right already, seen as it once was: nothing but the sequence changes.
func (m *model) repair(c *ledgerv1.Command) string {
	a, seen := m.accounts[c.GetAccount()], c.GetRepair().GetSeen()
	if c.GetRepair().GetGeneration() != m.generation || a == nil || seen == nil || int64(seen.GetSequence()) > a.sequence {
		return "SEQUENCE_MISMATCH"
	}
	a.move(a.balance)
	return "applied"
}
