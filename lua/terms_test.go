package lua

import (
	"fmt"
	"testing"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestALimitIsSetOnlyWhereTheAccountStandsWithinIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.limits("a", "-1", ""), "ACCOUNT_UNKNOWN 0 -"},
		step{b.open("a", "-5:100"), "applied 0 0@1, floor -5, ceiling 100"},
		step{b.credit("a", "101"), "LIMIT_EXCEEDED 0 0@1, floor -5, ceiling 100"},
		step{b.credit("a", "100"), "applied 100 100@2, floor -5, ceiling 100"},
		step{b.credit("a", "1"), "LIMIT_EXCEEDED 0 100@2, floor -5, ceiling 100"},
		step{b.limits("a", "", "99"), "LIMIT_EXCEEDED 0 100@2, floor -5, ceiling 100"},
		step{b.limits("a", "-7", ""), "applied 0 100@3, floor -7, ceiling 100"},
		step{b.limits("a", "", "none"), "applied 0 100@4, floor -7"},
		step{b.limits("a", "0", "200"), "applied 0 100@5, ceiling 200"},
		step{as("h", b.hold("a", "60", 0)), "applied 0 100@6, held 60, ceiling 200, hold h: 60 left"},
		step{b.debit("a", "40"), "applied -40 60@7, held 60, ceiling 200"},
		step{b.limits("a", "-5", ""), "applied 0 60@8, held 60, floor -5, ceiling 200"},
		step{b.debit("a", "5"), "applied -5 55@9, held 60, floor -5, ceiling 200"},
		step{b.limits("a", "-4", ""), "INSUFFICIENT_FUNDS 0 55@9, held 60, floor -5, ceiling 200"},
		step{b.limits("a", "-5", "55"), "applied 0 55@10, held 60, floor -5, ceiling 55"},
		step{b.limits("a", "-"+most, most), "applied 0 55@11, held 60, floor -" + most + ", ceiling " + most},
		step{b.limits("a", "", "55"), "applied 0 55@12, held 60, floor -" + most + ", ceiling 55"},
		step{changed(b.limits("a", "0", ""), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH 0 55@12, held 60, floor -" + most + ", ceiling 55"},
		step{b.open("none", "0:0"), "applied 0 0@1, ceiling 0"},
		step{b.credit("none", "1"), "LIMIT_EXCEEDED 0 0@1, ceiling 0"},
		step{b.open("most", "-"+most+":"+most), "applied 0 0@1, floor -" + most + ", ceiling " + most},
		step{b.credit("most", most), "applied " + most + " " + most + "@2, floor -" + most + ", ceiling " + most},
	)
	if got, want := b.record("a"), "55:60 12 USD/2 -"+most+":55 active"; got != want {
		t.Errorf("record %q, not %q", got, want)
	}
	account, _, err := b.store.Account(t.Context(), b.shard, "a")
	if want := (Account{ID: "a", Balance: 55, Held: 60, Sequence: 12, Floor: -999_999_999_999_999_999, Ceiling: "55", Unit: "USD/2", Status: "active"}); err != nil || account != want {
		t.Errorf("read %+v %v, not %+v", account, err, want)
	}
	b.sameAfterARebuild()
}

// attempts are one command of each kind that a freeze may refuse, on an account "a" with a hold "h", a debit "d" and a credit "c", and
// whether they take money off it.
func (b *bench) attempts() map[string]*ledgerv1.Command {
	transfer := b.transfer("elsewhere", "a", "1")
	return map[string]*ledgerv1.Command{
		"debit": b.debit("a", "1"), "hold": b.hold("a", "1", 0), "capture": b.capture("a", "h", "1"), "transfer": b.transfer("a", "b", "1"), "reversal of a credit": b.reverse("a", "c", "1"),
		"credit": b.credit("a", "1"), "far end": b.arrival(transfer), "reversal of a debit": b.reverse("a", "d", "1"),
		"release": b.release("a", "h", "1"), "limits": b.limits("a", "-1", ""), "return": b.giveBack("a", "1", "x"), "adjustment up": b.adjust("a", "1"), "adjustment down": b.adjust("a", "-1"),
	}
}

func TestAFreezeRefusesWhatGoesItsWay(t *testing.T) {
	t.Parallel()
	down := map[string]bool{"debit": true, "hold": true, "capture": true, "transfer": true, "reversal of a credit": true}
	up := map[string]bool{"credit": true, "far end": true, "reversal of a debit": true}
	for status, refuses := range map[string][]map[string]bool{"active": nil, "frozen_debit": {down}, "frozen_credit": {up}, "frozen": {down, up}} {
		for attempt := range setup(t).attempts() {
			b := setup(t)
			b.apply(b.open("a", ""), as("c", b.credit("a", "100")), as("d", b.debit("a", "10")), as("h", b.hold("a", "5", 0)))
			switch status {
			case "frozen_debit":
				b.apply(b.freeze("a", debits))
			case "frozen_credit":
				b.apply(b.freeze("a", credits))
			case "frozen":
				b.apply(b.freeze("a", both))
			}
			want := ledgerv1.Reason_REASON_UNSPECIFIED
			for _, set := range refuses {
				if set[attempt] {
					want = ledgerv1.Reason_REASON_ACCOUNT_FROZEN
				}
			}
			if got := b.apply(b.attempts()[attempt])[0].Outcome; got.GetReason() != want || got.GetAfter().GetStatus() != status {
				t.Errorf("%s on an account that is %s: %v, not %s", attempt, status, got, want)
			}
			b.sameAfterARebuild()
		}
	}
}

func TestFreezesAddUpAndAreTakenAwayOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.freeze("a", both), "ACCOUNT_UNKNOWN 0 -"},
		step{b.open("a", ""), "applied 0 0@1"},
		step{b.unfreeze("a", both), "applied 0 0@2"},
		step{b.freeze("a", debits), "applied 0 0@3, frozen_debit"},
		step{b.freeze("a", debits), "applied 0 0@4, frozen_debit"},
		step{b.unfreeze("a", credits), "applied 0 0@5, frozen_debit"},
		step{b.freeze("a", credits), "applied 0 0@6, frozen"},
		step{b.unfreeze("a", debits), "applied 0 0@7, frozen_credit"},
		step{b.freeze("a", both), "applied 0 0@8, frozen"},
		step{b.unfreeze("a", credits), "applied 0 0@9, frozen_debit"},
		step{b.unfreeze("a", both), "applied 0 0@10"},
		step{b.freeze("a", credits), "applied 0 0@11, frozen_credit"},
		step{changed(b.unfreeze("a", both), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH 0 0@11, frozen_credit"},
		step{changed(b.unfreeze("a", both), func(c *ledgerv1.Command) { c.Currency = "USD" }), "applied 0 0@12"},
	)
	b.sameAfterARebuild()
}

func TestAClosedAccountTakesOnlyWhatCanGoNowhereElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.closing("a"), "ACCOUNT_UNKNOWN 0 -"},
		step{b.open("a", "-5"), "applied 0 0@1, floor -5"},
		step{as("c", b.credit("a", "1")), "applied 1 1@2, floor -5"},
		step{b.closing("a"), "ACCOUNT_NOT_EMPTY 0 1@2, floor -5"},
		step{as("d", b.debit("a", "2")), "applied -2 -1@3, floor -5"},
		step{b.closing("a"), "ACCOUNT_NOT_EMPTY 0 -1@3, floor -5"},
		step{b.credit("a", "1"), "applied 1 0@4, floor -5"},
		step{as("h", b.hold("a", "1", time.Hour)), "applied 0 0@5, held 1, floor -5, hold h: 1 left until 1700003600000"},
		step{b.closing("a"), "ACCOUNT_NOT_EMPTY 0 0@5, held 1, floor -5"},
		step{b.release("a", "h", ""), "applied 0 0@6, floor -5, hold h: 0 left until 1700003600000"},
		step{b.freeze("a", both), "applied 0 0@7, floor -5, frozen"},
		step{b.closing("a"), "applied 0 0@8, floor -5, closed"},
		step{b.closing("a"), "ACCOUNT_CLOSED 0 0@8, floor -5, closed"},
		step{b.open("a", ""), "ACCOUNT_EXISTS 0 0@8, floor -5, closed"},
		step{b.freeze("a", both), "ACCOUNT_CLOSED 0 0@8, floor -5, closed"},
		step{b.unfreeze("a", both), "ACCOUNT_CLOSED 0 0@8, floor -5, closed"},
		step{b.giveBack("a", "3", "x"), "applied 3 3@9, floor -5, closed, to @transit 3"},
		step{b.adjust("a", "-3"), "applied -3 0@10, floor -5, closed, to @adjustments 3"},
	)
	for attempt, c := range b.attempts() {
		switch got := b.apply(c)[0].Outcome; attempt {
		case "return", "adjustment up", "adjustment down":
			if got.GetReason() != 0 {
				t.Errorf("%s on a closed account: %s", attempt, got.GetReason())
			}
		case "release": // there is no hold any more
			if got.GetReason() != ledgerv1.Reason_REASON_HOLD_UNKNOWN {
				t.Errorf("%s on a closed account: %s", attempt, got.GetReason())
			}
		default:
			if got.GetReason() != ledgerv1.Reason_REASON_ACCOUNT_CLOSED {
				t.Errorf("%s on a closed account: %s", attempt, got.GetReason())
			}
		}
	}
	b.sameAfterARebuild()
}

func TestAnAdjustmentOrReturnIsBookedWhateverTheAccountAllows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.does(
		step{b.adjust("a", "1"), "ACCOUNT_UNKNOWN 0 -"},
		step{b.giveBack("a", "1", "x"), "ACCOUNT_UNKNOWN 0 -"},
		step{b.open("a", "0:10"), "applied 0 0@1, ceiling 10"},
		step{b.adjust("a", "11"), "applied 11 11@2, ceiling 10, to @adjustments 11"},
		step{to(b.adjust("a", "-12"), "@loss"), "applied -12 -1@3, ceiling 10, to @loss 12"},
		step{to(b.adjust("a", "1"), "@world"), "applied 1 0@4, ceiling 10"},
		step{b.freeze("a", both), "applied 0 0@5, ceiling 10, frozen"},
		step{b.giveBack("a", "20", "y"), "applied 20 20@6, ceiling 10, frozen, to @transit 20"},
		step{b.adjust("a", "-"+most), "applied -" + most + " -999999999999999979@7, ceiling 10, frozen, to @adjustments " + most},
		step{b.adjust("a", "-20"), "applied -20 -" + most + "@8, ceiling 10, frozen, to @adjustments 20"},
		step{b.adjust("a", "-1"), "LIMIT_EXCEEDED 0 -" + most + "@8, ceiling 10, frozen"},
		step{b.adjust("a", most), "applied " + most + " 0@9, ceiling 10, frozen, to @adjustments " + most},
		step{b.giveBack("a", most, "z"), "applied " + most + " " + most + "@10, ceiling 10, frozen, to @transit " + most},
		step{b.giveBack("a", "1", "0"), "LIMIT_EXCEEDED 0 " + most + "@10, ceiling 10, frozen"},
		step{changed(b.adjust("a", "-1"), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH 0 " + most + "@10, ceiling 10, frozen"},
	)
	b.sameAfterARebuild()
}

func TestWhatIsBookedNamesTheOtherSide(t *testing.T) {
	t.Parallel()
	b := setup(t)
	many := b.credit("a", "5050")
	want := "applied 5050 5050@2, to"
	for i := range 100 {
		account := fmt.Sprintf("@leg %d", i)
		many.Legs = append(many.Legs, &ledgerv1.Leg{CounterAccount: account, Amount: fmt.Sprint(i + 1)})
		want += fmt.Sprintf(" %s %d", account, i+1)
	}
	b.does(
		step{b.open("a", ""), "applied 0 0@1"},
		step{many, want},
		step{to(b.debit("a", "1"), "@world"), "applied -1 5049@3"},
		step{to(b.debit("a", "1"), "@shop"), "applied -1 5048@4, to @shop 1"},
		step{to(b.debit("a", "3"), "@shop", "1", "@world", "2"), "applied -3 5045@5, to @shop 1 @world 2"},
		step{to(b.debit("a", "5046"), "@shop", "5000", "@fee", "46"), "INSUFFICIENT_FUNDS 0 5045@5"},
		step{b.transfer("a", "b", "5"), "applied -5 5040@6, to @transit 5"},
		step{b.transfer("a", "@shop", "5"), "applied -5 5035@7, to @shop 5"},
		step{b.transfer("a", "@world", "5"), "applied -5 5030@8"},
		step{b.transfer("a", "b", "5031"), "INSUFFICIENT_FUNDS 0 5030@8"},
		step{b.transfer("nobody", "a", "1"), "ACCOUNT_UNKNOWN 0 -"},
		step{b.arrival(b.transfer("b", "a", "7")), "applied 7 5037@9, from b, to @transit 7"},
		step{b.arrival(b.transfer("b", "nobody", "7")), "ACCOUNT_UNKNOWN 0 -"},
		step{changed(b.arrival(b.transfer("b", "a", "7")), func(c *ledgerv1.Command) { c.Currency = "JPY" }), "CURRENCY_MISMATCH 0 5037@9"},
	)
	b.sameAfterARebuild()
}
