package lua

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// step is a command and what becomes of it, in the form of told.
type step struct {
	command *ledgerv1.Command
	want    string
}

// does runs all steps in one call.
func (b *bench) does(steps ...step) {
	b.Helper()
	commands := make([]*ledgerv1.Command, len(steps))
	for i, s := range steps {
		commands[i] = s.command
	}
	for i, d := range b.apply(commands...) {
		if got := told(d); got != steps[i].want {
			b.Errorf("step %d, %s %s: decided\n  %s\nnot\n  %s", i, steps[i].command.GetOperation(), steps[i].command.GetCommandId(), got, steps[i].want)
		}
	}
}

// told is said with all else that an outcome tells: "held 30, floor -5, ceiling 100, frozen, hold h: 30 left to @shop, reversed c: 5 in all, from b, to @shop 5 @fee 1".
func told(d Decision) string {
	o := d.Outcome
	words := []string{said(d)}
	add := func(tell bool, format string, args ...any) {
		if tell {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	a := o.GetAfter()
	add(a.GetHeld() != "0" && a != nil, "held %s", a.GetHeld())
	add(a.GetFloor() != "0" && a != nil, "floor %s", a.GetFloor())
	add(a.GetCeiling() != "", "ceiling %s", a.GetCeiling())
	add(a.GetStatus() != "active" && a != nil, "%s", a.GetStatus())
	if h := o.GetHold(); h != nil {
		text := fmt.Sprintf("hold %s: %s left", h.GetHoldId(), h.GetRemaining())
		if h.GetCounterAccount() != "" {
			text += " to " + h.GetCounterAccount()
		}
		if h.GetExpiresAt() != nil {
			text += fmt.Sprintf(" until %d", h.GetExpiresAt().AsTime().UnixMilli())
		}
		words = append(words, text)
	}
	add(o.GetReversal() != nil, "reversed %s: %s in all", o.GetReversal().GetCommandId(), o.GetReversal().GetTotal())
	add(o.GetTransferAccount() != "", "from %s", o.GetTransferAccount())
	if legs := o.GetLegs(); len(legs) > 0 {
		text := "to"
		for _, leg := range legs {
			text += " " + leg.GetCounterAccount() + " " + leg.GetAmount()
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// as is the command under another id.
func as(id string, c *ledgerv1.Command) *ledgerv1.Command {
	return changed(c, func(c *ledgerv1.Command) { c.CommandId = id })
}

// to is the command with a counter account, or with legs: account, amount, account, amount and so on.
func to(c *ledgerv1.Command, words ...string) *ledgerv1.Command {
	return changed(c, func(c *ledgerv1.Command) {
		if len(words) == 1 {
			c.CounterAccount = words[0]
			return
		}
		for i := 0; i < len(words); i += 2 {
			c.Legs = append(c.Legs, &ledgerv1.Leg{CounterAccount: words[i], Amount: words[i+1]})
		}
	})
}

func (b *bench) command(operation ledgerv1.Operation, account, amount string) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: b.id(), Operation: operation, Account: account, Amount: amount, Currency: "USD"}
}

// hold that ends so long after the bench's clock; 0 = never.
func (b *bench) hold(account, amount string, ends time.Duration) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_HOLD, account, amount)
	if ends != 0 {
		c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(b.now.Add(ends))}
	}
	return c
}

func (b *bench) capture(account, hold, amount string) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_CAPTURE, account, amount)
	c.HoldId, c.Currency = hold, ""
	return c
}

func (b *bench) release(account, hold, amount string) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_RELEASE, account, amount)
	c.HoldId, c.Currency = hold, ""
	return c
}

func (b *bench) reverse(account, id, amount string) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_REVERSE, account, amount)
	c.Reverse, c.Currency = &ledgerv1.ReverseTerms{CommandId: id}, ""
	return c
}

func forced(c *ledgerv1.Command) *ledgerv1.Command {
	return changed(c, func(c *ledgerv1.Command) { c.Reverse.AllowOverdraft = true })
}

// limits sets floor and ceiling; "" leaves one as it is.
func (b *bench) limits(account, floor, ceiling string) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_SET_LIMITS, account, "")
	c.Limits, c.Currency = &ledgerv1.LimitTerms{}, ""
	if floor != "" {
		c.Limits.Floor = proto.String(floor)
	}
	if ceiling != "" {
		c.Limits.Ceiling = proto.String(ceiling)
	}
	return c
}

const (
	debits  = ledgerv1.Direction_DIRECTION_DEBIT
	credits = ledgerv1.Direction_DIRECTION_CREDIT
	both    = ledgerv1.Direction_DIRECTION_BOTH
)

func (b *bench) freeze(account string, direction ledgerv1.Direction) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_FREEZE, account, "")
	c.Direction, c.Currency = direction, ""
	return c
}

func (b *bench) unfreeze(account string, direction ledgerv1.Direction) *ledgerv1.Command {
	c := b.freeze(account, direction)
	c.Operation = ledgerv1.Operation_OPERATION_UNFREEZE
	return c
}

func (b *bench) closing(account string) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_CLOSE, account, "")
	c.Currency = ""
	return c
}

func (b *bench) adjust(account, amount string) *ledgerv1.Command {
	return b.command(ledgerv1.Operation_OPERATION_ADJUST, account, amount)
}

// transfer is the near end.
func (b *bench) transfer(from, target, amount string) *ledgerv1.Command {
	return to(b.command(ledgerv1.Operation_OPERATION_TRANSFER, from, amount), target)
}

// arrival is the far end of a transfer.
func (b *bench) arrival(transfer *ledgerv1.Command) *ledgerv1.Command {
	c := b.command(ledgerv1.Operation_OPERATION_CREDIT, transfer.GetCounterAccount(), transfer.GetAmount())
	c.CommandId, c.CounterAccount = "@credit/"+transfer.GetCommandId(), "@transit"
	c.Origin = &ledgerv1.Origin{CommandId: transfer.GetCommandId(), Account: transfer.GetAccount()}
	return c
}

// giveBack is the return of what a transfer or its reversal took.
func (b *bench) giveBack(account, amount, id string) *ledgerv1.Command {
	c := to(b.command(ledgerv1.Operation_OPERATION_RETURN, account, amount), "@transit")
	c.CommandId, c.Origin = "@return/"+id, &ledgerv1.Origin{CommandId: id, Account: "elsewhere"}
	return c
}

// holds are the open holds of the shard, as they stand in Redis.
func (b *bench) holds() map[string]Hold {
	b.Helper()
	holds := map[string]Hold{}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		page, next, err := b.store.Holds(b.Context(), b.shard, cursor, 100)
		b.ok(err)
		for _, h := range page {
			holds[h.ID] = h
		}
		cursor = next
	}
	return holds
}

// sameAfterARebuild holds what a rebuild from the log gives against what Redis has.
func (b *bench) sameAfterARebuild() {
	b.Helper()
	before := b.content()
	b.rebuild("rebuilt", b.log()...)
	b.whole()
	after := b.content()
	for _, key := range LiveKeys(b.shard)[:4] { // accounts, holds, outcomes
		if before[key] != after[key] {
			b.Errorf("rebuilt %s\n%s\nnot\n%s", key, after[key], before[key])
		}
	}
}
