package books

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// scene is a command and what must become of it.
type scene struct {
	*ledgerv1.Command
	want ledgerv1.Reason // unspecified: applied
}

const (
	till     = "books: till \"1\" (north; äöü) @"
	payrolls = "=books+payroll"
	// holdTime is how long the hold lasts that nobody ends: longer than it takes to capture a part of it.
	holdTime = 3 * time.Second
)

// script is what a random workload brings about rarely, or never: a hold that expires, groups, transfers refused for every reason, reversals to
// the last unit, and names and texts that an export has to get right.
func script(now time.Time) []scene {
	const (
		applied = ledgerv1.Reason_REASON_UNSPECIFIED
		open    = ledgerv1.Operation_OPERATION_OPEN
		credit  = ledgerv1.Operation_OPERATION_CREDIT
		debit   = ledgerv1.Operation_OPERATION_DEBIT
		hold    = ledgerv1.Operation_OPERATION_HOLD
		capture = ledgerv1.Operation_OPERATION_CAPTURE
		release = ledgerv1.Operation_OPERATION_RELEASE
		move    = ledgerv1.Operation_OPERATION_TRANSFER
		reverse = ledgerv1.Operation_OPERATION_REVERSE
		limits  = ledgerv1.Operation_OPERATION_SET_LIMITS
		freeze  = ledgerv1.Operation_OPERATION_FREEZE
		thaw    = ledgerv1.Operation_OPERATION_UNFREEZE
		end     = ledgerv1.Operation_OPERATION_CLOSE
		adjust  = ledgerv1.Operation_OPERATION_ADJUST
	)
	var all []scene
	add := func(want ledgerv1.Reason, op ledgerv1.Operation, account, amount string, more ...func(*ledgerv1.Command)) {
		c := &ledgerv1.Command{CommandId: fmt.Sprintf("books-%d", len(all)+1), Operation: op, Account: account, Amount: amount, Currency: "EUR"}
		for _, m := range more {
			m(c)
		}
		all = append(all, scene{c, want})
	}
	id := func(id string) func(*ledgerv1.Command) { return func(c *ledgerv1.Command) { c.CommandId = id } }
	unit := func(unit string) func(*ledgerv1.Command) {
		return func(c *ledgerv1.Command) { c.Currency = unit }
	}
	to := func(counter string) func(*ledgerv1.Command) {
		return func(c *ledgerv1.Command) { c.CounterAccount = counter }
	}
	of := func(hold string) func(*ledgerv1.Command) {
		return func(c *ledgerv1.Command) { c.HoldId = hold }
	}
	undo := func(id string) func(*ledgerv1.Command) {
		return func(c *ledgerv1.Command) { c.Reverse = &ledgerv1.ReverseTerms{CommandId: id} }
	}
	way := func(d ledgerv1.Direction) func(*ledgerv1.Command) {
		return func(c *ledgerv1.Command) { c.Direction = d }
	}

	add(applied, open, till, "")
	add(applied, open, payrolls, "")
	add(applied, open, "books-yen", "", unit("JPY"))
	add(applied, open, "books-points", "", unit("POINTS/0"))
	add(applied, open, "books-wei", "", unit("ETH/18"))
	add(applied, credit, till, "500000", to("@=cmd|' /C calc'!A0"), func(c *ledgerv1.Command) {
		c.Reference, c.Description = "=HYPERLINK(\"x\")", "a \"quoted\" \\ text; with | and ) and\na second line"
	})
	add(applied, credit, payrolls, "100000")
	add(applied, credit, "books-points", "7", unit("POINTS/0"))
	add(applied, credit, "books-wei", "999999999999999999", unit("ETH/18"))
	add(applied, debit, "books-wei", "1", unit("ETH/18"))

	add(applied, debit, payrolls, "60000", id("salaries"), func(c *ledgerv1.Command) {
		c.Legs = []*ledgerv1.Leg{{CounterAccount: "@ann", Amount: "30000"}, {CounterAccount: "@ben", Amount: "29999"}, {CounterAccount: "@tax", Amount: "1"}}
	})
	add(ledgerv1.Reason_REASON_NOT_REVERSIBLE, reverse, payrolls, "1", undo("salaries")) // a group only wholly
	add(applied, reverse, payrolls, "", undo("salaries"))

	add(applied, hold, till, "5000", id("hold-expires"), to("@shop"), func(c *ledgerv1.Command) {
		c.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(now.Add(holdTime))}
	})
	add(applied, capture, till, "1500", of("hold-expires"))
	add(applied, hold, till, "700", id("hold-open"))
	add(applied, hold, till, "300", id("hold-over"))
	add(applied, release, till, "100", of("hold-over"))
	add(applied, capture, till, "", of("hold-over"), to("@fees"))
	add(ledgerv1.Reason_REASON_HOLD_UNKNOWN, release, till, "", of("hold-over"))

	add(applied, move, till, "10000", id("moved"), to(payrolls))
	add(applied, reverse, payrolls, "4000", undo("moved"))
	add(applied, reverse, payrolls, "", undo("moved"))
	add(ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN, move, till, "1", to("books-nobody"))
	add(ledgerv1.Reason_REASON_CURRENCY_MISMATCH, move, till, "1", to("books-yen"))
	add(applied, limits, payrolls, "", func(c *ledgerv1.Command) {
		c.Currency, c.Limits = "", &ledgerv1.LimitTerms{Floor: proto.String("-500"), Ceiling: proto.String("150000")}
	})
	add(ledgerv1.Reason_REASON_LIMIT_EXCEEDED, move, till, "50001", to(payrolls))
	add(applied, freeze, payrolls, "", unit(""), way(ledgerv1.Direction_DIRECTION_CREDIT))
	add(ledgerv1.Reason_REASON_ACCOUNT_FROZEN, move, till, "1", to(payrolls))
	add(applied, thaw, payrolls, "", unit(""), way(ledgerv1.Direction_DIRECTION_BOTH))
	add(applied, move, till, "25", to("@shop")) // to an external account: a debit

	add(ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS, debit, payrolls, "10000000", func(c *ledgerv1.Command) { c.Reference = "too much" })
	add(applied, adjust, till, "-11", func(c *ledgerv1.Command) { c.Source = "reconciler" })
	add(applied, open, "books-gone", "")
	add(applied, end, "books-gone", "", unit(""))
	add(ledgerv1.Reason_REASON_ACCOUNT_CLOSED, move, till, "1", to("books-gone"))
	return all
}

// play submits the script, one command after the other.
func play(ctx context.Context, client *producer.Client) error {
	for _, s := range script(time.Now()) {
		outcome, err := client.Submit(ctx, s.Command)
		if err != nil {
			return fmt.Errorf("submit %s: %w", s.GetCommandId(), err)
		}
		if outcome.GetReason() != s.want {
			return disagree("%s %s: the ledger says %s, expected %s", s.GetOperation(), s.GetCommandId(), outcome.GetReason(), s.want)
		}
	}
	return nil
}
