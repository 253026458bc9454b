package auditor

import (
	"fmt"
	"math/big"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Money that leaves one account for another stands on @transit until the far end has it, or the near end has it back. What the ledger asks
// of itself for that is among the commands, and must be exactly what the outcomes ask for.

// want is a command that an outcome asks for.
type want struct {
	operation              ledgerv1.Operation
	account, amount, unit  string
	parent, parentsAccount string
	reason                 string // of a refusal at the far end
}

// asks is what an expectation asks for, by command id; "" for nothing.
func (e *Expectation) asks() (id string, w want) {
	c := e.Command
	switch op := c.GetOperation(); {
	case op == ledgerv1.Operation_OPERATION_TRANSFER && e.Reason == "" && !external(c.GetCounterAccount()):
		return creditID + c.GetCommandId(),
			want{ledgerv1.Operation_OPERATION_CREDIT, c.GetCounterAccount(), c.GetAmount(), unitOf(c.GetCurrency()), c.GetCommandId(), c.GetAccount(), ""}
	case op == ledgerv1.Operation_OPERATION_CREDIT && c.GetOrigin() != nil && e.Reason != "":
		from := c.GetOrigin()
		return returnID + from.GetCommandId(),
			want{ledgerv1.Operation_OPERATION_RETURN, from.GetAccount(), c.GetAmount(), unitOf(c.GetCurrency()), from.GetCommandId(), c.GetAccount(), e.Reason}
	case op == ledgerv1.Operation_OPERATION_REVERSE && e.Reason == "" && e.From != "":
		return undoOf(c.GetAccount(), c.GetCommandId()),
			want{ledgerv1.Operation_OPERATION_RETURN, e.From, new(big.Int).Neg(e.Delta).String(), "", c.GetCommandId(), c.GetAccount(), ""}
	}
	return "", want{}
}

func wantOf(c *ledgerv1.Command) want {
	return want{
		c.GetOperation(), c.GetAccount(), c.GetAmount(), unitOf(c.GetCurrency()), c.GetOrigin().GetCommandId(), c.GetOrigin().GetAccount(), codeOf(c.GetOrigin().GetReason()),
	}
}

// checkDerived holds what the ledger asked of itself against what its outcomes ask for, both ways, and wants every transfer settled: once, at one of
// its ends.
func (v *Verdict) checkDerived(books []*Books) {
	asked := map[string]want{}
	for _, b := range books {
		for _, e := range b.Outcomes {
			if id, w := e.asks(); id != "" {
				if w.unit == "" {
					w.unit = b.Accounts[e.Command.GetAccount()].Unit
				}
				asked[id] = w
			}
		}
	}
	for _, b := range books {
		for id, e := range b.Outcomes {
			if !derived(e.Command) {
				continue
			}
			if e.Command.GetOperation() == ledgerv1.Operation_OPERATION_RELEASE {
				v.checkExpiry(b, e.Command)
				continue
			}
			if w, ok := asked[id]; !ok || w != wantOf(e.Command) {
				v.complain("command %s came from the ledger itself as %+v, and was asked for as %+v (at all: %t)", id, wantOf(e.Command), w, ok)
			}
			if e.Command.GetOperation() == ledgerv1.Operation_OPERATION_RETURN && e.Reason != "" {
				v.strand(b, e)
			}
		}
	}
	for id, w := range asked {
		shard := topics.ShardOf(w.account, len(books))
		if books[shard].Outcomes[id] == nil {
			v.complain("command %s was asked for by an outcome, and never came: %+v", id, w)
		}
	}
}

// checkExpiry wants the ledger to release a hold by itself only when its time is over.
func (v *Verdict) checkExpiry(b *Books, release *ledgerv1.Command) {
	hold := b.Outcomes[release.GetHoldId()]
	if hold == nil || hold.Reason != "" {
		v.complain("command %s releases what was never held", release.GetCommandId())
		return
	}
	at := hold.Command.GetHold().GetExpiresAt()
	if at == nil || at.AsTime().After(b.decided(release).Add(time.Millisecond)) || release.GetAmount() != "" {
		v.complain("command %s releases %s at %s, which ends at %v", release.GetCommandId(), release.GetAmount(), b.decided(release), at.AsTime())
	}
}

// strand notes what cannot come back, because its account would have more than 18 digits: it stays in transit, for people to book.
func (v *Verdict) strand(b *Books, e *Expectation) {
	if e.Reason != "LIMIT_EXCEEDED" {
		v.complain("command %s: what was to come back was refused with %s", e.Command.GetCommandId(), e.Reason)
	}
	amount, _ := number(e.Command.GetAmount(), "")
	if amount != nil {
		add(v.stranded, b.Accounts[e.Command.GetAccount()].Unit, amount)
	}
}

// Stranded tells whether something is in transit for good: it came back to an account that cannot take it, or people booked it there.
func (v *Verdict) Stranded() bool {
	for _, sum := range v.stranded {
		if sum.Sign() != 0 {
			return true
		}
	}
	return false
}

// add adds to a sum by unit.
func add(sums map[string]*big.Int, unit string, amount *big.Int) {
	if sums[unit] == nil {
		sums[unit] = new(big.Int)
	}
	sums[unit].Add(sums[unit], amount)
}

// told is what the callers of a command must have heard, in one text; "" for nothing.
func (e *Expectation) told(books []*Books) string {
	if e.Command.GetOrigin() != nil {
		return "" // whoever asked for the transfer hears
	}
	own := books[topics.ShardOf(e.Command.GetAccount(), len(books))]
	id, w := e.asks()
	if e.Command.GetOperation() != ledgerv1.Operation_OPERATION_TRANSFER || id == "" {
		return answerOf(own.log[e.Command.GetCommandId()])
	}
	far := books[topics.ShardOf(w.account, len(books))].Outcomes[id]
	switch {
	case far == nil:
		return ""
	case far.Reason == "":
		return answerOf(own.log[e.Command.GetCommandId()])
	}
	back := own.log[returnID+e.Command.GetCommandId()]
	return fmt.Sprint("rejected ", far.Reason, " 0 at ", back.GetShard(), "/", back.GetPosition(), " ", recordOf(back.GetAfter()))
}

// answerOf is what an outcome tells, where it is told as it is.
func answerOf(o *ledgerv1.Outcome) string {
	status := "applied"
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		status = "rejected " + codeOf(o.GetReason())
	}
	return fmt.Sprint(status, " ", o.GetDelta(), " at ", o.GetShard(), "/", o.GetPosition(), " ", recordOf(o.GetAfter()))
}

// checkTransit wants nothing to stand on the way but what is stranded, and what people booked there.
func (v *Verdict) checkTransit(books []*Books) {
	standing := map[string]*big.Int{}
	for _, b := range books {
		for _, e := range b.Outcomes {
			for _, l := range e.Legs {
				amount, _ := number(l.amount, "")
				if l.account != transit || amount == nil {
					continue
				}
				if e.Delta.Sign() > 0 {
					amount.Neg(amount)
				}
				if e.Command.GetOperation() == ledgerv1.Operation_OPERATION_ADJUST {
					add(v.stranded, b.Accounts[e.Command.GetAccount()].Unit, amount)
				}
				add(standing, b.Accounts[e.Command.GetAccount()].Unit, amount)
			}
		}
	}
	for unit, sum := range standing {
		if want := sumOf(v.stranded, unit); sum.Cmp(want) != 0 {
			v.complain("%s %s are in transit, expected %s", sum, unit, want)
		}
	}
}

func sumOf(sums map[string]*big.Int, unit string) *big.Int {
	if sums[unit] == nil {
		return new(big.Int)
	}
	return sums[unit]
}
