package lua

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// model is a shard as the design describes it, in big integers and plain maps. It shares no code with the scripts or their Go side
// except FingerprintOf, which is tested alone. It forgets nothing.
type model struct {
	generation string
	accounts   map[string]*modelAccount
	holds      map[string]*modelHold
	outcomes   map[string]*modelOutcome
	position   int
	chain      string // of the calls
	link       Chain  // of the outcomes
}

type modelAccount struct {
	balance, held, floor *big.Int
	ceiling              *big.Int // nil: none
	sequence             int64
	unit                 string
	noDebits, noCredits  bool
	closed               bool
	// past are the records it had at each sequence, from sequence 1.
	past []string
}

type modelHold struct {
	account, counter string
	left             *big.Int
	ends             int64 // ms; 0: never
}

type modelOutcome struct {
	payload, account string
	record           string // as Redis keeps it, without the fingerprint
	// What a reversal needs to know.
	delta    *big.Int // nil where rejected
	from     string
	legs     []modelLeg
	undone   *big.Int
	reversal bool
}

type modelLeg struct {
	account string
	amount  *big.Int
}

func newModel(generation string) *model {
	const start = "0000000000000000000000000000000000000000"
	return &model{generation: generation, accounts: map[string]*modelAccount{}, holds: map[string]*modelHold{}, outcomes: map[string]*modelOutcome{}, chain: start}
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

func sum(a, b *big.Int) *big.Int  { return new(big.Int).Add(a, b) }
func less(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }

func (a *modelAccount) status() string {
	switch {
	case a.closed:
		return "closed"
	case a.noDebits && a.noCredits:
		return "frozen"
	case a.noDebits:
		return "frozen_debit"
	case a.noCredits:
		return "frozen_credit"
	}
	return "active"
}

func (a *modelAccount) record() string {
	balance, terms := a.balance.String(), a.unit
	if a.held.Sign() != 0 {
		balance += ":" + a.held.String()
	}
	switch {
	case a.ceiling != nil:
		terms += fmt.Sprintf(" %s:%s %s", a.floor, a.ceiling, a.status())
	case a.floor.Sign() != 0 || a.status() != "active":
		terms += fmt.Sprintf(" %s %s", a.floor, a.status())
	}
	return fmt.Sprintf("%s %d %s", balance, a.sequence, terms)
}

func (a *modelAccount) available() *big.Int { return less(less(a.balance, a.held), a.floor) }

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

// decide answers "[remembered |reused ]<record>".
func (m *model) decide(c *ledgerv1.Command, refusal string, now time.Time) string {
	if known, ok := m.outcomes[c.GetCommandId()]; ok {
		if known.payload == payload(c) {
			return "remembered " + known.record
		}
		return "reused " + known.record
	}
	o := &modelOutcome{payload: payload(c), account: c.GetAccount(), undone: new(big.Int)}
	word, tail := refusal, ""
	if word == "" {
		word = m.condition(c, now)
	}
	if word == "" {
		word, tail = m.effect(c, o, now.UnixMilli())
	}
	record := "-"
	a := m.accounts[c.GetAccount()]
	if word == "" {
		word = o.delta.String()
		a.sequence++
		a.past = append(a.past, a.record())
	} else {
		o.delta = nil
	}
	if a != nil {
		record = a.record()
	}
	m.position++
	clock, err := hex.DecodeString(fmt.Sprintf("%012x", now.UnixMilli()))
	if err != nil {
		panic(err)
	}
	o.record = fmt.Sprintf("%s%d %s %s%s", clock, m.position, word, record, tail)
	fingerprint := FingerprintOf(c)
	m.link = sha1.Sum(fmt.Appendf(nil, "%s%s\n%s%s", m.link, c.GetCommandId(), fingerprint[:], o.record))
	m.outcomes[c.GetCommandId()] = o
	return o.record
}

// called ends a call that began behind a position; one in which nothing was new leaves no trace.
func (m *model) called(before int, now time.Time, commands []Command) {
	if m.position == before {
		return
	}
	text := fmt.Appendf(nil, "%s\n%d\n", m.chain, now.UnixMilli())
	for _, c := range commands {
		text = append(binary.AppendUvarint(text, uint64(len(c.Body))), c.Body...)
	}
	hash := sha1.Sum(text)
	m.chain = hex.EncodeToString(hash[:])
}

var modelUnits = map[string]string{"USD": "USD/2", "JPY": "JPY/0"}

func (m *model) condition(c *ledgerv1.Command, now time.Time) string {
	a := m.accounts[c.GetAccount()]
	switch {
	case c.GetDeadline() != nil && c.GetDeadline().AsTime().Before(now):
		return "DEADLINE_PASSED"
	case c.ExpectedSequence != nil && a != nil && c.GetExpectedSequence() != uint64(a.sequence):
		return "SEQUENCE_MISMATCH"
	case c.GetOperation() == ledgerv1.Operation_OPERATION_OPEN || c.GetOperation() == ledgerv1.Operation_OPERATION_REPAIR:
		return ""
	case a == nil:
		return "ACCOUNT_UNKNOWN"
	case c.GetCurrency() != "" && a.unit != modelUnits[c.GetCurrency()]:
		return "CURRENCY_MISMATCH"
	}
	return ""
}

var modelLimit = new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil) // the first number that is too large

// effect changes the model, or answers why not. Of an applied command it notes delta and booking, and returns the tail of its record.
func (m *model) effect(c *ledgerv1.Command, o *modelOutcome, now int64) (word, tail string) {
	a, amount := m.accounts[c.GetAccount()], number(c.GetAmount())
	o.delta = new(big.Int)
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_OPEN:
		return m.open(c), ""
	case ledgerv1.Operation_OPERATION_REPAIR:
		return m.repair(c), ""
	case ledgerv1.Operation_OPERATION_HOLD:
		return m.hold(c, a, amount, now)
	case ledgerv1.Operation_OPERATION_CAPTURE:
		return m.capture(c, o, a, amount, now)
	case ledgerv1.Operation_OPERATION_RELEASE:
		return m.release(c, a, amount)
	case ledgerv1.Operation_OPERATION_REVERSE:
		return m.reverse(c, o, a, amount)
	case ledgerv1.Operation_OPERATION_SET_LIMITS, ledgerv1.Operation_OPERATION_FREEZE, ledgerv1.Operation_OPERATION_UNFREEZE, ledgerv1.Operation_OPERATION_CLOSE:
		return a.terms(c), ""
	case ledgerv1.Operation_OPERATION_CREDIT:
		o.delta, o.from = amount, c.GetOrigin().GetAccount()
		word = a.cannotTake(amount)
	case ledgerv1.Operation_OPERATION_ADJUST, ledgerv1.Operation_OPERATION_RETURN:
		o.delta = amount
		if sum(a.balance, amount).CmpAbs(modelLimit) >= 0 {
			word = "LIMIT_EXCEEDED"
		}
	default: // debit, transfer
		o.delta = new(big.Int).Neg(amount)
		word = a.cannotGive(amount, false)
	}
	if word != "" {
		return word, ""
	}
	o.legs = sides(c, o.delta)
	a.balance = sum(a.balance, o.delta)
	return "", o.booking()
}

// cannotGive is why an amount cannot be taken off the account.
func (a *modelAccount) cannotGive(amount *big.Int, overdraw bool) string {
	switch {
	case a.closed:
		return "ACCOUNT_CLOSED"
	case a.noDebits:
		return "ACCOUNT_FROZEN"
	case overdraw && less(a.balance, amount).CmpAbs(modelLimit) >= 0:
		return "LIMIT_EXCEEDED"
	case !overdraw && a.available().Cmp(amount) < 0:
		return "INSUFFICIENT_FUNDS"
	}
	return ""
}

// cannotTake is why an amount cannot be put on the account.
func (a *modelAccount) cannotTake(amount *big.Int) string {
	after := sum(a.balance, amount)
	switch {
	case a.closed:
		return "ACCOUNT_CLOSED"
	case a.noCredits:
		return "ACCOUNT_FROZEN"
	case after.CmpAbs(modelLimit) >= 0 || (a.ceiling != nil && after.Cmp(a.ceiling) > 0):
		return "LIMIT_EXCEEDED"
	}
	return ""
}

// sides are the other sides of what is booked, without @world where that is all.
func sides(c *ledgerv1.Command, delta *big.Int) []modelLeg {
	var legs []modelLeg
	for _, leg := range c.GetLegs() {
		legs = append(legs, modelLeg{leg.GetCounterAccount(), number(leg.GetAmount())})
	}
	if legs != nil {
		return legs
	}
	counter := c.GetCounterAccount()
	if c.GetOperation() == ledgerv1.Operation_OPERATION_TRANSFER && !strings.HasPrefix(counter, "@") {
		counter = "@transit"
	}
	if c.GetOperation() == ledgerv1.Operation_OPERATION_ADJUST && counter == "" {
		counter = "@adjustments"
	}
	if counter == "" || (counter == "@world" && c.GetOperation() != ledgerv1.Operation_OPERATION_CAPTURE) {
		return nil
	}
	return []modelLeg{{counter, new(big.Int).Abs(delta)}}
}

// booking is the end of a record's tail.
func (o *modelOutcome) booking() string {
	tail := ""
	if o.from != "" {
		tail = "\tfrom\t" + o.from
	}
	if len(o.legs) == 1 {
		return tail + "\tto\t" + o.legs[0].account
	}
	for i, leg := range o.legs {
		if i == 0 {
			tail += "\tlegs"
		}
		tail += "\t" + leg.account + "\t" + leg.amount.String()
	}
	return tail
}
