package lua

import (
	"errors"
	"testing"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestAHoldSetsAsideAndACaptureTakesIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.open("a", "-10"), "applied 0 0@1, floor -10"},
		step{b.credit("a", "100"), "applied 100 100@2, floor -10"},
		step{b.hold("nobody", "1", 0), "ACCOUNT_UNKNOWN 0 -"},
		step{b.hold("a", "111", 0), "INSUFFICIENT_FUNDS 0 100@2, floor -10"},
		step{as("h", to(b.hold("a", "60", time.Hour), "@shop")), "applied 0 100@3, held 60, floor -10, hold h: 60 left to @shop until 1700003600000"},
		step{b.debit("a", "51"), "INSUFFICIENT_FUNDS 0 100@3, held 60, floor -10"},
		step{as("i", b.hold("a", "50", 0)), "applied 0 100@4, held 110, floor -10, hold i: 50 left"},
		step{b.hold("a", "1", 0), "INSUFFICIENT_FUNDS 0 100@4, held 110, floor -10"},
		step{b.closing("a"), "ACCOUNT_NOT_EMPTY 0 100@4, held 110, floor -10"},
		step{b.capture("a", "h", "61"), "HOLD_EXCEEDED 0 100@4, held 110, floor -10"},
		step{b.capture("a", "h", "20"), "applied -20 80@5, held 90, floor -10, hold h: 40 left to @shop until 1700003600000, to @shop 20"},
		step{to(b.capture("a", "h", "5"), "@other"), "applied -5 75@6, held 85, floor -10, hold h: 35 left to @shop until 1700003600000, to @other 5"},
		step{to(b.capture("a", "h", "5"), "@world"), "applied -5 70@7, held 80, floor -10, hold h: 30 left to @shop until 1700003600000, to @world 5"},
		step{to(b.capture("a", "h", "5"), "@x", "3", "@y", "2"), "applied -5 65@8, held 75, floor -10, hold h: 25 left to @shop until 1700003600000, to @x 3 @y 2"},
		step{b.release("a", "h", "26"), "HOLD_EXCEEDED 0 65@8, held 75, floor -10"},
		step{b.release("a", "h", "5"), "applied 0 65@9, held 70, floor -10, hold h: 20 left to @shop until 1700003600000"},
		step{b.capture("a", "h", ""), "applied -20 45@10, held 50, floor -10, hold h: 0 left to @shop until 1700003600000, to @shop 20"},
		step{b.capture("a", "h", "1"), "HOLD_UNKNOWN 0 45@10, held 50, floor -10"},
		step{b.release("a", "h", ""), "HOLD_UNKNOWN 0 45@10, held 50, floor -10"},
		step{b.capture("a", "i", "1"), "applied -1 44@11, held 49, floor -10, hold i: 49 left"},
		step{b.release("a", "i", ""), "applied 0 44@12, floor -10, hold i: 0 left"},
		step{b.release("a", "never opened", ""), "HOLD_UNKNOWN 0 44@12, floor -10"},
		step{b.debit("a", "54"), "applied -54 -10@13, floor -10"},
	)
	if holds := b.holds(); len(holds) != 0 {
		t.Errorf("holds with nothing left are still there: %v", holds)
	}
	b.sameAfterARebuild()
}

func TestHoldsAreExactAtBothEndsOf18Digits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.open("a", "-"+most), "applied 0 0@1, floor -" + most},
		step{b.credit("a", most), "applied " + most + " " + most + "@2, floor -" + most},
		step{as("h", b.hold("a", most, 0)), "applied 0 " + most + "@3, held " + most + ", floor -" + most + ", hold h: " + most + " left"},
		step{b.hold("a", "1", 0), "LIMIT_EXCEEDED 0 " + most + "@3, held " + most + ", floor -" + most}, // available, but held would have 19 digits
		step{b.capture("a", "h", "9007199254740993"), "applied -9007199254740993 990992800745259006@4, held 990992800745259006, floor -" + most + ", hold h: 990992800745259006 left"},
		step{b.release("a", "h", "990992800745259005"), "applied 0 990992800745259006@5, held 1, floor -" + most + ", hold h: 1 left"},
		step{b.capture("a", "h", ""), "applied -1 990992800745259005@6, floor -" + most + ", hold h: 0 left"},
		step{b.debit("a", most), "applied -" + most + " -9007199254740994@7, floor -" + most},
		step{as("i", b.hold("a", "990992800745259005", 0)), "applied 0 -9007199254740994@8, held 990992800745259005, floor -" + most + ", hold i: 990992800745259005 left"},
		step{b.hold("a", "1", 0), "INSUFFICIENT_FUNDS 0 -9007199254740994@8, held 990992800745259005, floor -" + most},
		step{b.adjust("a", "-1"), "applied -1 -9007199254740995@9, held 990992800745259005, floor -" + most + ", to @adjustments 1"},
		step{b.adjust("a", "-990992800745259004"), "applied -990992800745259004 -" + most + "@10, held 990992800745259005, floor -" + most + ", to @adjustments 990992800745259004"},
		step{b.capture("a", "i", "1"), "LIMIT_EXCEEDED 0 -" + most + "@10, held 990992800745259005, floor -" + most},
		step{b.release("a", "i", ""), "applied 0 -" + most + "@11, floor -" + most + ", hold i: 0 left"},
	)
	b.sameAfterARebuild()
}

func TestAHoldEndsAtItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.open("a", ""), "applied 0 0@1"}, step{b.credit("a", "100"), "applied 100 100@2"},
		step{b.hold("a", "1", -time.Millisecond), "HOLD_EXPIRED 0 100@2"},
		step{changed(b.hold("a", "1", 1), func(c *ledgerv1.Command) { c.Hold.ExpiresAt.Nanos = 0 }), "HOLD_EXPIRED 0 100@2"}, // now
		step{as("h", b.hold("a", "10", time.Millisecond)), "applied 0 100@3, held 10, hold h: 10 left until 1700000000001"},
		step{as("i", b.hold("a", "10", time.Hour)), "applied 0 100@4, held 20, hold i: 10 left until 1700003600000"},
		step{b.capture("a", "h", "1"), "applied -1 99@5, held 19, hold h: 9 left until 1700000000001"},
	)
	b.now = b.now.Add(time.Millisecond)
	b.does(
		step{b.capture("a", "h", "1"), "HOLD_EXPIRED 0 99@5, held 19"},
		step{b.capture("a", "h", "10"), "HOLD_EXCEEDED 0 99@5, held 19"},
		step{b.capture("a", "i", "1"), "applied -1 98@6, held 18, hold i: 9 left until 1700003600000"},
		step{b.release("a", "h", "2"), "applied 0 98@7, held 16, hold h: 7 left until 1700000000001"},
		step{as("@expire/h", b.release("a", "h", "")), "applied 0 98@8, held 9, hold h: 0 left until 1700000000001"},
		step{as("@expire/i", b.release("a", "i", "")), "applied 0 98@9, hold i: 0 left until 1700003600000"}, // the writer's clock decides, not the script's
	)
	b.sameAfterARebuild()
}

func TestAHoldBelongsToOneAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(b.open("a", ""), b.open("b", ""), b.credit("a", "10"), b.credit("b", "10"), as("h", b.hold("a", "5", 0)))
	b.does(
		step{b.capture("b", "h", "1"), "HOLD_UNKNOWN 0 10@2"},
		step{b.release("b", "h", ""), "HOLD_UNKNOWN 0 10@2"},
		step{b.capture("nobody", "h", "1"), "ACCOUNT_UNKNOWN 0 -"},
		step{as("same call", b.hold("b", "5", 0)), "applied 0 10@3, held 5, hold same call: 5 left"},
		step{b.capture("a", "same call", ""), "HOLD_UNKNOWN 0 10@3, held 5"},
		step{b.capture("b", "same call", "5"), "applied -5 5@4, hold same call: 0 left"},
		step{b.capture("b", "same call", "5"), "HOLD_UNKNOWN 0 5@4"},
		step{changed(b.capture("a", "h", "1"), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH 0 10@3, held 5"},
		step{changed(b.release("a", "h", "1"), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH 0 10@3, held 5"},
		step{changed(b.hold("a", "1", 0), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH 0 10@3, held 5"},
		step{changed(b.capture("a", "h", "1"), func(c *ledgerv1.Command) { c.Currency = "USD" }), "applied -1 9@4, held 4, hold h: 4 left"},
	)
	open, err := b.store.OpenHolds(t.Context(), b.shard, []Hold{{ID: "h"}, {ID: "same call"}, {ID: "never"}})
	if want := (Hold{ID: "h", Account: "a", Remaining: 4}); err != nil || len(open) != 1 || open[0] != want {
		t.Errorf("open holds %+v %v, not %+v", open, err, want)
	}
	b.sameAfterARebuild()
}

// The outcome of a hold may be forgotten while the hold is open: its id must not open another one over it, or what is held would never end.
func TestAnOpenHoldIsNotOpenedAgainWhenItsOutcomeIsForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := as("h", b.hold("a", "30", 0))
	b.apply(b.open("a", ""), b.credit("a", "100"), hold)
	b.ok(b.rdb.HDel(t.Context(), OutcomesKey(b.shard), OutcomeField("h")).Err())
	b.does(
		step{hold, "COMMAND_ID_REUSED 0 100@3, held 30"},
		step{b.release("a", "h", ""), "applied 0 100@4, hold h: 0 left"},
	)
}

func TestACorruptHoldChangesNothing(t *testing.T) {
	t.Parallel()
	for _, record := range []string{
		"", "x", "5", "5\t-\t", "5\t-\t\t", "5\t-\ta", "0\t-\t\ta", "05\t-\t\ta", "-5\t-\t\ta", "1e3\t-\t\ta", "1000000000000000000\t-\t\ta",
		"5\t\t\ta", "5\tsoon\t\ta", "5\t1.5\t\ta", "5\t--\t\ta", "5\t-1\t\ta", "5\t-\t\ta\tmore", " 5\t-\t\ta",
	} {
		t.Run(record, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			b.apply(as("h", b.hold("a", "5", 0)))
			b.ok(b.rdb.HSet(t.Context(), HoldsKey(b.shard), "h", record).Err())
			for _, c := range list(b.capture("a", "h", "1"), b.release("a", "h", ""), as("h2", b.release("a", "h", ""))) {
				b.refused(record, b.call(b.credit("b", "1"), c), ErrCorrupt)
			}
			if _, _, err := b.store.Holds(t.Context(), b.shard, 0, 100); !errors.Is(err, ErrCorrupt) {
				t.Errorf("a page with the hold %q: %v", record, err)
			}
			if _, err := b.store.OpenHolds(t.Context(), b.shard, []Hold{{ID: "h"}}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("the hold %q: %v", record, err)
			}
			b.expect(list(b.credit("b", "1")), "applied 1 8@3") // the others of the shard keep going
		})
	}
}
