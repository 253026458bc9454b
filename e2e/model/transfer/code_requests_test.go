package transfer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// realAccount is an account of the n-th plan, on its shard: "7 b 0".
func realAccount(n int, account uint8) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%d %s %d", n, accountText(account), i)
		if topics.ShardOf(name, shards) == int(shardOf[account]) {
			return name
		}
	}
}

func realID(n int, id uint8) string { return fmt.Sprintf("%d %s", n, (*Model)(nil).idText(id)) }

// openings make the accounts of the n-th plan.
func (p Plan) openings(n int) []*ledgerv1.Command {
	var commands []*ledgerv1.Command
	for account := range uint8(accountsMax) {
		name := realAccount(n, account)
		open := &ledgerv1.Command{CommandId: name, Account: name, Operation: ledgerv1.Operation_OPERATION_OPEN, Currency: "EUR"}
		if ceiling := p.ceiling[account]; ceiling > 0 {
			open.Open = &ledgerv1.OpenTerms{Ceiling: fmt.Sprint(ceiling)}
		}
		commands = append(commands, open)
		if amount := p.opening[account]; amount > 0 {
			commands = append(commands, &ledgerv1.Command{
				CommandId: name + "+", Account: name, Operation: ledgerv1.Operation_OPERATION_CREDIT, Currency: "EUR", Amount: fmt.Sprint(amount),
			})
		}
	}
	return commands
}

// requests are the commands of the n-th plan. Holds expire at the end, and nothing with a deadline is decided then.
func (p Plan) requests(n int, request uint8, end time.Time) []*ledgerv1.Command {
	commands := make([]*ledgerv1.Command, len(p.commands))
	for i, asks := range p.commands {
		c := &ledgerv1.Command{CommandId: realID(n, asks.id), Account: realAccount(n, asks.account), Currency: "EUR", ReplyTo: fmt.Sprintf("%d %d %d", n, i, request)}
		if asks.amount > 0 {
			c.Amount = fmt.Sprint(asks.amount)
		}
		if asks.deadline {
			c.Deadline = timestamppb.New(end.Truncate(time.Millisecond).Add(-time.Millisecond))
		}
		switch asks.verb {
		case transfer:
			c.Operation, c.CounterAccount = ledgerv1.Operation_OPERATION_TRANSFER, realAccount(n, asks.to)
		case credit:
			c.Operation = ledgerv1.Operation_OPERATION_CREDIT
		case debit:
			c.Operation = ledgerv1.Operation_OPERATION_DEBIT
		case hold:
			c.Operation, c.Hold = ledgerv1.Operation_OPERATION_HOLD, &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(end.Truncate(time.Millisecond))}
		case capture:
			c.Operation, c.HoldId = ledgerv1.Operation_OPERATION_CAPTURE, realID(n, asks.of)
		case release:
			c.Operation, c.HoldId = ledgerv1.Operation_OPERATION_RELEASE, realID(n, asks.of)
		case reverse:
			c.Operation, c.Reverse = ledgerv1.Operation_OPERATION_REVERSE, &ledgerv1.ReverseTerms{CommandId: realID(n, asks.of)}
		case freeze:
			c.Operation, c.Direction = ledgerv1.Operation_OPERATION_FREEZE, ledgerv1.Direction_DIRECTION_BOTH
		}
		commands[i] = c
	}
	return commands
}

// lineOf is an outcome of the n-th plan as the model writes it; nothing for the openings.
func lineOf(t *testing.T, o *ledgerv1.Outcome) (n int, line string) {
	t.Helper()
	before, id := "", o.GetCommandId()
	if prefix, rest, derived := strings.Cut(id, "/"); derived {
		before, id = prefix+"/", rest
		if _, reversal, undo := strings.Cut(rest, "/"); undo {
			id = reversal // behind what stands for its account
		}
	}
	words, account := strings.Split(id, " "), strings.Split(o.GetAccount(), " ")
	if len(words) != 2 {
		return 0, ""
	}
	if _, err := fmt.Sscan(words[0], &n); err != nil {
		t.Fatal(err)
	}
	left := "0"
	if h := o.GetHold(); h != nil {
		left = h.GetRemaining()
	}
	return n, eventLine(before+words[1], account[1], reasonOf(o), o.GetDelta(), o.GetAfter().GetHeld(), left)
}

func reasonOf(o *ledgerv1.Outcome) string {
	if o.GetStatus() == ledgerv1.Status_STATUS_APPLIED {
		return reasonNames[applied]
	}
	return strings.TrimPrefix(o.GetReason().String(), "REASON_")
}
