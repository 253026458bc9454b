package lua

import (
	"strings"
	"testing"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestAReversalUndoesAChangeInParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.open("a", ""), "applied 0 0@1"},
		step{as("c", to(b.credit("a", "100"), "@bank")), "applied 100 100@2, to @bank 100"},
		step{as("d", to(b.debit("a", "60"), "@shop")), "applied -60 40@3, to @shop 60"},
		step{as("r1", b.reverse("a", "d", "25")), "applied 25 65@4, reversed d: 25 in all, to @shop 25"},
		step{b.reverse("a", "d", "36"), "NOT_REVERSIBLE 0 65@4"},
		step{b.reverse("a", "d", "35"), "applied 35 100@5, reversed d: 60 in all, to @shop 35"},
		step{b.reverse("a", "d", ""), "NOT_REVERSIBLE 0 100@5"},
		step{b.reverse("a", "d", "1"), "NOT_REVERSIBLE 0 100@5"},
		step{b.reverse("a", "c", "1"), "applied -1 99@6, reversed c: 1 in all, to @bank 1"},
	)
	b.does( // the totals are remembered beyond the call
		step{b.reverse("a", "d", "1"), "NOT_REVERSIBLE 0 99@6"},
		step{b.reverse("a", "c", ""), "applied -99 0@7, reversed c: 100 in all, to @bank 99"},
		step{b.reverse("a", "c", ""), "NOT_REVERSIBLE 0 0@7"},
		step{b.reverse("a", "r1", ""), "NOT_REVERSIBLE 0 0@7"},
	)
	b.sameAfterARebuild()
	b.does(step{b.reverse("a", "c", "1"), "NOT_REVERSIBLE 0 0@7"})
}

func TestWhatCanNotBeReversed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	transfer := as("t", b.transfer("a", "b", "5"))
	b.apply(b.open("a", ""), b.open("b", ""), as("c", b.credit("a", "100")), as("rejected", b.debit("a", "101")), as("h", b.hold("a", "10", 0)), transfer,
		as("cap", to(b.capture("a", "h", "4"), "@shop")), as("rel", b.release("a", "h", "1")), as("lim", b.limits("a", "-1", "")), as("fr", b.freeze("b", debits)),
		b.giveBack("a", "2", "other"), as("opening", b.open("x", "")), as("adj", b.adjust("a", "3")), as("r", b.reverse("a", "c", "1")))
	const state = " 0 95@10, held 5, floor -1"
	for _, id := range []string{"nobody knows", "rejected", "h", "t", "rel", "lim", "@return/other", "r", "opening", "fr"} {
		b.does(step{b.reverse("a", id, ""), "NOT_REVERSIBLE" + state}, step{forced(b.reverse("a", id, "1")), "NOT_REVERSIBLE" + state})
	}
	b.does(
		step{b.reverse("b", "c", ""), "NOT_REVERSIBLE 0 0@2, frozen_debit"}, // another account's
		step{b.reverse("nobody", "c", ""), "ACCOUNT_UNKNOWN 0 -"},
		step{changed(b.reverse("a", "c", ""), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH" + state},
		step{as("itself", b.reverse("a", "itself", "")), "NOT_REVERSIBLE" + state},
		step{b.reverse("a", "cap", "1"), "applied 1 96@11, held 5, floor -1, reversed cap: 1 in all, to @shop 1"},
		step{b.reverse("a", "cap", ""), "applied 3 99@12, held 5, floor -1, reversed cap: 4 in all, to @shop 3"},
		step{b.reverse("a", "adj", ""), "applied -3 96@13, held 5, floor -1, reversed adj: 3 in all, to @adjustments 3"},
		step{b.reverse("a", "c", "99"), "INSUFFICIENT_FUNDS 0 96@13, held 5, floor -1"},
		step{b.reverse("a", "c", "100"), "NOT_REVERSIBLE 0 96@13, held 5, floor -1"}, // one of the hundred is undone
	)
	b.sameAfterARebuild()
}

func TestAGroupIsReversedWhollyOrNotAtAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.open("a", ""), "applied 0 0@1"},
		step{as("in", to(b.credit("a", "100"), "@x", "60", "@y", "40")), "applied 100 100@2, to @x 60 @y 40"},
		step{as("h", b.hold("a", "30", 0)), "applied 0 100@3, held 30, hold h: 30 left"},
		step{as("out", to(b.capture("a", "h", "30"), "@x", "29", "@fee", "1")), "applied -30 70@4, hold h: 0 left, to @x 29 @fee 1"},
		step{b.reverse("a", "out", "29"), "NOT_REVERSIBLE 0 70@4"},
		step{b.reverse("a", "out", "30"), "applied 30 100@5, reversed out: 30 in all, to @x 29 @fee 1"},
		step{b.reverse("a", "out", ""), "NOT_REVERSIBLE 0 100@5"},
		step{b.reverse("a", "in", ""), "applied -100 0@6, reversed in: 100 in all, to @x 60 @y 40"},
		step{as("one", to(b.credit("a", "7"), "@x", "7")), "applied 7 7@7, to @x 7"}, // a group of one is none
		step{b.reverse("a", "one", "2"), "applied -2 5@8, reversed one: 2 in all, to @x 2"},
	)
	b.sameAfterARebuild()
}

func TestAReversalNeedsTheMoneyUnlessItMayOverdraw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.open("a", "-10:50"), "applied 0 0@1, floor -10, ceiling 50"},
		step{as("c", b.credit("a", "50")), "applied 50 50@2, floor -10, ceiling 50"},
		step{as("d", b.debit("a", "40")), "applied -40 10@3, floor -10, ceiling 50"},
		step{b.hold("a", "5", 0), "applied 0 10@4, held 5, floor -10, ceiling 50, hold c4: 5 left"},
		step{b.reverse("a", "c", "16"), "INSUFFICIENT_FUNDS 0 10@4, held 5, floor -10, ceiling 50"},
		step{b.reverse("a", "c", "15"), "applied -15 -5@5, held 5, floor -10, ceiling 50, reversed c: 15 in all"},
		step{b.reverse("a", "c", "1"), "INSUFFICIENT_FUNDS 0 -5@5, held 5, floor -10, ceiling 50"},
		step{forced(b.reverse("a", "c", "36")), "NOT_REVERSIBLE 0 -5@5, held 5, floor -10, ceiling 50"},
		step{forced(b.reverse("a", "c", "")), "applied -35 -40@6, held 5, floor -10, ceiling 50, reversed c: 50 in all"},
		step{b.debit("a", "1"), "INSUFFICIENT_FUNDS 0 -40@6, held 5, floor -10, ceiling 50"},
		step{b.credit("a", "85"), "applied 85 45@7, held 5, floor -10, ceiling 50"},
		step{b.reverse("a", "d", "6"), "LIMIT_EXCEEDED 0 45@7, held 5, floor -10, ceiling 50"},
		step{b.reverse("a", "d", "5"), "applied 5 50@8, held 5, floor -10, ceiling 50, reversed d: 5 in all"},
	)
	b.sameAfterARebuild()
	e := setup(t) // where the digits end
	e.does(
		step{e.open("a", "-"+most), "applied 0 0@1, floor -" + most},
		step{as("c", e.credit("a", most)), "applied " + most + " " + most + "@2, floor -" + most},
		step{as("d", e.debit("a", most)), "applied -" + most + " 0@3, floor -" + most},
		step{e.debit("a", "2"), "applied -2 -2@4, floor -" + most},
		step{forced(e.reverse("a", "c", "")), "LIMIT_EXCEEDED 0 -2@4, floor -" + most},
		step{e.reverse("a", "c", "999999999999999997"), "applied -999999999999999997 -" + most + "@5, floor -" + most + ", reversed c: 999999999999999997 in all"},
		step{e.reverse("a", "d", "999999999999999998"), "applied 999999999999999998 -1@6, floor -" + most + ", reversed d: 999999999999999998 in all"},
		step{e.reverse("a", "c", "3"), "NOT_REVERSIBLE 0 -1@6, floor -" + most},
		step{e.reverse("a", "c", ""), "applied -2 -3@7, floor -" + most + ", reversed c: " + most + " in all"},
	)
	e.sameAfterARebuild()
}

func TestATransferIsReversedAtItsFarEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	transfer := as("t", b.transfer("a", "b", "50"))
	b.apply(b.open("a", ""), b.open("b", ""), b.credit("a", "50"))
	b.does(
		step{transfer, "applied -50 0@3, to @transit 50"},
		step{b.arrival(transfer), "applied 50 50@2, from a, to @transit 50"},
		step{b.reverse("a", "t", ""), "NOT_REVERSIBLE 0 0@3"},
		step{as("r1", b.reverse("b", "t", "20")), "applied -20 30@3, reversed @credit/t: 20 in all, from a, to @transit 20"},
		step{b.giveBack("a", "20", "r1"), "applied 20 20@4, to @transit 20"},
		step{b.reverse("b", "t", "31"), "NOT_REVERSIBLE 0 30@3"},
		step{b.debit("b", "10"), "applied -10 20@4"},
		step{b.reverse("b", "t", ""), "INSUFFICIENT_FUNDS 0 20@4"},
	)
	b.does(
		step{b.reverse("b", "t", "20"), "applied -20 0@5, reversed @credit/t: 40 in all, from a, to @transit 20"},
		step{forced(b.reverse("b", "t", "")), "applied -10 -10@6, reversed @credit/t: 50 in all, from a, to @transit 10"},
		step{forced(b.reverse("b", "t", "")), "NOT_REVERSIBLE 0 -10@6"},
		step{b.reverse("b", "r1", ""), "NOT_REVERSIBLE 0 -10@6"},
		step{b.reverse("a", "r1", ""), "NOT_REVERSIBLE 0 20@4"}, // the return
	)
	b.sameAfterARebuild()
}

// The words of a record's tail are ids and accounts as well.
func TestAReversalReadsNoIdAsAWordOfTheRecord(t *testing.T) {
	t.Parallel()
	for _, id := range append([]string{"to", "from", "legs", "hold", "reversed", "applied", "to @transit", "@credit/"}, hostileIDs...) {
		if strings.ContainsAny(id, "\t\n") {
			continue // refused wherever they are words of a record
		}
		b := setup(t)
		b.apply(b.open(id, ""), b.credit(id, "100"), b.open("b", ""), as(id, b.hold(id, "30", 0)), as("held for", to(b.hold(id, "20", 0), "@shop")))
		transfer := as("t", b.transfer(id, "b", "5"))
		b.does(
			step{as("cap", b.capture(id, id, "10")), "applied -10 90@5, held 40, hold " + id + ": 20 left"},
			step{b.reverse(id, "cap", "4"), "applied 4 94@6, held 40, reversed cap: 4 in all"},
			step{as("shop", b.capture(id, "held for", "2")), "applied -2 92@7, held 38, hold held for: 18 left to @shop, to @shop 2"},
			step{b.reverse(id, "shop", "1"), "applied 1 93@8, held 38, reversed shop: 1 in all, to @shop 1"},
			step{as("group", to(b.capture(id, id, "3"), "@x", "2", "@y", "1")), "applied -3 90@9, held 35, hold " + id + ": 17 left, to @x 2 @y 1"},
			step{b.reverse(id, "group", "2"), "NOT_REVERSIBLE 0 90@9, held 35"},
			step{b.reverse(id, "group", ""), "applied 3 93@10, held 35, reversed group: 3 in all, to @x 2 @y 1"},
			step{transfer, "applied -5 88@11, held 35, to @transit 5"},
			step{b.arrival(transfer), "applied 5 5@2, from " + id + ", to @transit 5"},
			step{b.reverse("b", "t", "2"), "applied -2 3@3, reversed @credit/t: 2 in all, from " + id + ", to @transit 2"},
			step{as("undo", b.reverse("b", "t", "")), "applied -3 0@4, reversed @credit/t: 5 in all, from " + id + ", to @transit 3"},
			step{b.reverse("b", "undo", ""), "NOT_REVERSIBLE 0 0@4"},
			step{as("named", b.debit(id, "1")), "applied -1 87@12, held 35"},
			step{b.reverse(id, id, ""), "NOT_REVERSIBLE 0 87@12, held 35"}, // the hold
		)
		b.sameAfterARebuild()
		if t.Failed() {
			t.Fatalf("%q", id)
		}
	}
}
