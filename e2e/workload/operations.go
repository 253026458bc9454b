package workload

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// transfer makes a command move money to another account: mostly from or to the hot one, sometimes to one that is not there, or to the world.
func (w *Workload) transfer(c *ledgerv1.Command) {
	c.Operation, c.CounterAccount = ledgerv1.Operation_OPERATION_TRANSFER, w.other()
	switch {
	case w.chance(3):
		c.Account, c.CounterAccount = w.other(), "hot"
	case w.chance(8):
		c.CounterAccount = w.one("never-opened", "a}b", "@shop", c.GetAccount(), "")
	}
}

// set makes a command set money aside, or end what was set aside before: on its own account or on another, in part, wholly, or more than is left.
func (w *Workload) set(c *ledgerv1.Command) {
	if len(w.holds) == 0 || w.chance(2) {
		c.Operation, c.CounterAccount = ledgerv1.Operation_OPERATION_HOLD, w.one("", "", "@shop", "@world")
		switch n := w.random.IntN(6); {
		case n == 0:
			c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC))}
		case n == 1:
			c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))}
		case n == 2 && w.Expiring:
			c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(time.Now().Add(time.Duration(w.random.IntN(2000)) * time.Millisecond))}
		}
		return
	}
	hold := w.holds[w.random.IntN(len(w.holds))]
	c.Operation, c.Account, c.HoldId, c.Amount = ledgerv1.Operation_OPERATION_CAPTURE, hold.GetAccount(), hold.GetCommandId(), w.one("", w.amount(3000))
	if w.chance(3) {
		c.Operation = ledgerv1.Operation_OPERATION_RELEASE
	} else {
		c.CounterAccount = w.one("", "", "@world", "@shop")
	}
	switch w.random.IntN(12) {
	case 0:
		c.Account = w.account()
	case 1:
		c.HoldId = w.one("c-1", "never-held", "")
	case 2:
		c.Currency = ""
	}
}

// reversal makes a command undo one that was sent before: mostly on the account that it changed, wholly or in part.
func (w *Workload) reversal(c *ledgerv1.Command) {
	if len(w.sent) == 0 {
		return
	}
	undone := w.sent[w.random.IntN(len(w.sent))]
	c.Operation, c.Account, c.Amount = ledgerv1.Operation_OPERATION_REVERSE, undone.GetAccount(), w.one("", "", w.amount(3000))
	c.Currency = w.one("EUR", "")
	c.Reverse = &ledgerv1.ReverseTerms{CommandId: undone.GetCommandId(), AllowOverdraft: w.chance(4)}
	if counter := undone.GetCounterAccount(); undone.GetOperation() == ledgerv1.Operation_OPERATION_TRANSFER && !w.chance(4) && counter != "" {
		c.Account = counter // which may be external: refused
	}
	switch w.random.IntN(12) {
	case 0:
		c.Reverse.CommandId = w.one("never-sent", c.GetCommandId(), "@credit/"+undone.GetCommandId())
	case 1:
		c.Account = w.account()
	}
}

// terms makes a command change what an account allows. The hot one is left alone, mostly: frozen, it would refuse half of the traffic.
func (w *Workload) terms(c *ledgerv1.Command) {
	c.Account, c.Amount, c.Currency = w.other(), "", w.one("", "EUR")
	switch w.random.IntN(10) {
	case 0, 1:
		c.Operation, c.Direction = ledgerv1.Operation_OPERATION_FREEZE, ledgerv1.Direction(1+w.random.IntN(3))
	case 2, 3, 4:
		c.Operation, c.Direction = ledgerv1.Operation_OPERATION_UNFREEZE, ledgerv1.Direction_DIRECTION_BOTH
	case 5:
		c.Operation = ledgerv1.Operation_OPERATION_CLOSE
	case 6:
		c.Operation, c.Amount, c.Currency, c.CounterAccount = ledgerv1.Operation_OPERATION_ADJUST, w.one("-1", "", "", "-")+w.amount(900), "EUR", w.one("", "@corrections")
	default:
		c.Operation, c.Limits = ledgerv1.Operation_OPERATION_SET_LIMITS, &ledgerv1.LimitTerms{}
		if w.chance(2) {
			c.Account = "hot"
		}
		if !w.chance(3) {
			c.Limits.Floor = proto.String(w.one("0", "-2000", "-100000", "5", "-999999999999999999"))
		}
		if !w.chance(3) {
			c.Limits.Ceiling = proto.String(w.one("none", "none", "100", "1000000000", "-1"))
		}
	}
}

// spoil makes a command one that is refused, or that stands on a condition.
func (w *Workload) spoil(c *ledgerv1.Command) {
	switch w.random.IntN(12) {
	case 0, 1:
		c.Amount = w.one("nan", "1e3", "0x10", "-1", "0", "1.005", "1234567890123456789", "", " 5", "05", "９", "-0")
	case 2, 3:
		c.Amount = w.one("9007199254740992", "9007199254740993", "999999999999999999", "1000000000")
	case 4:
		c.Currency = w.one("USD", "JPY", "EUR/2", "EUR/3", "")
	case 5:
		c.Account = w.one("never-opened", "a}b", "{a}", "}x", "@world")
	case 6:
		c.Operation = ledgerv1.Operation(w.random.IntN(2) * 99) // none, or one of a later version
	case 7:
		c.CounterAccount = w.one("@shop", "@transit", "hot", "@world", "account-1")
	case 8:
		w.legs(c)
	case 9:
		c.ExpectedSequence = proto.Uint64(uint64(1 + w.random.IntN(40)))
	case 10:
		c.Deadline = timestamppb.New(time.Date(one(w, 2001, 2150), 1, 1, 0, 0, 0, 0, time.UTC))
	case 11:
		c.HoldId, c.Direction = w.one("", "c-1"), ledgerv1.Direction(w.random.IntN(5))
	}
}

// legs splits the amount, sometimes into parts that do not add up or go where they must not.
func (w *Workload) legs(c *ledgerv1.Command) {
	amount, err := strconv.Atoi(c.GetAmount())
	if err != nil || amount < 3 {
		return
	}
	c.CounterAccount = ""
	c.Legs = []*ledgerv1.Leg{
		{CounterAccount: "@fees", Amount: strconv.Itoa(amount / 3)},
		{CounterAccount: w.one("@shop", "@shop", "@shop", "hot", "@transit"), Amount: strconv.Itoa(amount - amount/3 + max(0, w.random.IntN(6)-4))},
	}
}

func one[T any](w *Workload, of ...T) T { return of[w.random.IntN(len(of))] }
