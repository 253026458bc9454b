package writer

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func command(operation ledgerv1.Operation, id, account, amount string) *ledgerv1.Command {
	c := credit(id, account, amount)
	c.Operation = operation
	return c
}

func toExternal(c *ledgerv1.Command, counter string) *ledgerv1.Command {
	c.CounterAccount = counter
	return c
}

// grouped gives a command legs: account, amount, account, amount and so on.
func grouped(c *ledgerv1.Command, words ...string) *ledgerv1.Command {
	for i := 0; i < len(words); i += 2 {
		c.Legs = append(c.Legs, &ledgerv1.Leg{CounterAccount: words[i], Amount: words[i+1]})
	}
	return c
}

func transfer(id, from, to, amount string) *ledgerv1.Command {
	return toExternal(command(ledgerv1.Operation_OPERATION_TRANSFER, id, from, amount), to)
}

// hold that ends so long from now; 0 = never.
func hold(id, account, amount string, ends time.Duration) *ledgerv1.Command {
	c := command(ledgerv1.Operation_OPERATION_HOLD, id, account, amount)
	if ends != 0 {
		c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(time.Now().Add(ends))}
	}
	return c
}

func capture(id, account, holdID, amount string) *ledgerv1.Command {
	c := command(ledgerv1.Operation_OPERATION_CAPTURE, id, account, amount)
	c.HoldId, c.Currency = holdID, ""
	return c
}

func release(id, account, holdID, amount string) *ledgerv1.Command {
	c := command(ledgerv1.Operation_OPERATION_RELEASE, id, account, amount)
	c.HoldId, c.Currency = holdID, ""
	return c
}

func reverse(id, account, of, amount string) *ledgerv1.Command {
	c := command(ledgerv1.Operation_OPERATION_REVERSE, id, account, amount)
	c.Reverse, c.Currency = &ledgerv1.ReverseTerms{CommandId: of}, ""
	return c
}

func ceilingAt(id, account, ceiling string) *ledgerv1.Command {
	c := command(ledgerv1.Operation_OPERATION_SET_LIMITS, id, account, "")
	c.Limits, c.Currency = &ledgerv1.LimitTerms{Ceiling: proto.String(ceiling)}, ""
	return c
}

// freeze both ways.
func freeze(id, account string) *ledgerv1.Command {
	c := command(ledgerv1.Operation_OPERATION_FREEZE, id, account, "")
	c.Direction, c.Currency = ledgerv1.Direction_DIRECTION_BOTH, ""
	return c
}

func closing(id, account string) *ledgerv1.Command {
	c := command(ledgerv1.Operation_OPERATION_CLOSE, id, account, "")
	c.Currency = ""
	return c
}
