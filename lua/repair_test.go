package lua

import (
	"strconv"
	"strings"
	"testing"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// snapshot reads "balance held sequence floor[:ceiling] unit status"; "" is no account.
func snapshot(t testing.TB, record string) *ledgerv1.AccountSnapshot {
	t.Helper()
	if record == "" {
		return nil
	}
	f := strings.Fields(record)
	sequence, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	floor, ceiling, _ := strings.Cut(f[3], ":")
	s := &ledgerv1.AccountSnapshot{Balance: f[0], Held: f[1], Sequence: sequence, Floor: floor, Ceiling: ceiling, Unit: f[4]}
	if len(f) == 6 && f[5] != "active" { // which is what an empty one means
		s.Status = f[5]
	}
	return s
}

func (b *bench) repair(account, seen, log, generation string) *ledgerv1.Command {
	b.Helper()
	return &ledgerv1.Command{CommandId: b.id(), Operation: ledgerv1.Operation_OPERATION_REPAIR, Account: account,
		Repair: &ledgerv1.RepairTerms{Seen: snapshot(b, seen), Log: snapshot(b, log), Generation: generation, RunId: "run", BreakId: "break"}}
}

func TestRepairRewritesAnAccountToTheLog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour              string
		now, seen, log, became string // records; "" is no account
		generation             string // "" = the shard's own
		want                   string
	}{
		{"missing account comes back", "", "", "70 0 5 -10 USD/2 active", "70 0 6 -10 USD/2 active", "", "applied 0 70@6"},
		{"missing account is there after all", "70 0 5 0 USD/2 active", "", "70 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "", "SEQUENCE_MISMATCH 0 70@5"},
		{"account seen is missing now", "", "70 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "", "", "SEQUENCE_MISMATCH 0 -"},
		{"balance differs at the sequence seen", "75 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "70 0 6 0 USD/2 active", "", "applied 0 70@6"},
		{"unit, floor and held differ", "75 3 5 -7 EUR/2 active", "75 3 5 -7 EUR/2 active", "70 0 5 0 USD/2 active", "70 0 6 0 USD/2 active", "", "applied 0 70@6"},
		{"balance is another one than was seen", "76 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "76 0 5 0 USD/2 active", "", "SEQUENCE_MISMATCH 0 76@5"},
		{"account has moved on: the difference is corrected", "175 0 9 0 USD/2 active", "75 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "170 0 10 0 USD/2 active", "", "applied 0 170@10"},
		{"moved on, held and floor too", "175 5 9 -1 USD/2 active", "75 5 5 -1 USD/2 active", "80 2 5 0 USD/2 active", "180 2 10 0 USD/2 active", "", "applied 0 180@10"},
		{"moved on, 18 digits", "9007199254740993 0 9 0 USD/2 active", "1 0 5 0 USD/2 active", "2 0 5 0 USD/2 active", "9007199254740994 0 10 0 USD/2 active", "", "applied 0 9007199254740994@10"},
		{"moved on, beyond 18 digits", most + " 0 9 0 USD/2 active", "1 0 5 0 USD/2 active", "2 0 5 0 USD/2 active", most + " 0 9 0 USD/2 active", "", "LIMIT_EXCEEDED 0 " + most + "@9"},
		{"moved on, held below zero", "5 1 9 0 USD/2 active", "5 9 5 0 USD/2 active", "5 0 5 0 USD/2 active", "5 1 9 0 USD/2 active", "", "LIMIT_EXCEEDED 0 5@9"},
		{"redis is before the sequence seen", "75 0 4 0 USD/2 active", "75 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "75 0 4 0 USD/2 active", "", "SEQUENCE_MISMATCH 0 75@4"},
		{"redis was behind the log", "75 0 3 0 USD/2 active", "75 0 3 0 USD/2 active", "70 0 5 0 USD/2 active", "70 0 6 0 USD/2 active", "", "applied 0 70@6"},
		{"redis was ahead of the log", "75 0 8 0 USD/2 active", "75 0 8 0 USD/2 active", "70 0 5 0 USD/2 active", "70 0 6 0 USD/2 active", "", "applied 0 70@6"},
		{"redis was behind and moved on", "75 0 4 0 USD/2 active", "75 0 3 0 USD/2 active", "70 0 5 0 USD/2 active", "75 0 4 0 USD/2 active", "", "SEQUENCE_MISMATCH 0 75@4"},
		{"shard was recovered since", "75 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "g0", "SEQUENCE_MISMATCH 0 75@5"},
		{"missing account, shard was recovered since", "", "", "70 0 5 0 USD/2 active", "", "g0", "SEQUENCE_MISMATCH 0 -"},
		{"generation with a separator", "75 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "70 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "x|g1", "SEQUENCE_MISMATCH 0 75@5"},
		{"what was seen is no record", "75 0 5 0 USD/2 active", "abc nan 5 | USD|2 active", "70 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "", "SEQUENCE_MISMATCH 0 75@5"},
		{"what was seen is no record of a missing account", "", "abc nan 5 | USD|2 active", "70 0 5 0 USD/2 active", "", "", "SEQUENCE_MISMATCH 0 -"},
		{"sequence beyond what counts exactly", "75 0 5 0 USD/2 active", "75 0 5 0 USD/2 active", "70 0 18446744073709551615 0 USD/2 active", "75 0 5 0 USD/2 active", "", "INVALID_REPAIR 0 75@5"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if test.now != "" {
				b.ok(b.rdb.HSet(t.Context(), AccountsKey(b.shard), "a", test.now).Err())
			}
			generation := test.generation
			if generation == "" {
				generation = "g1"
			}
			repair := b.repair("a", test.seen, test.log, generation)
			b.expect(list(repair, repair), test.want, "remembered "+test.want)
			if got := b.record("a"); got != test.became {
				t.Errorf("record became %q, not %q", got, test.became)
			}
			b.whole()
		})
	}
}

func TestAfterARepairTheAccountGoesOnAndARebuildAgrees(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(b.open("a", ""), b.open("b", ""), b.credit("a", "100"), b.credit("b", "100"))
	b.ok(b.rdb.HSet(t.Context(), AccountsKey(b.shard), "a", "900 0 2 0 USD/2 active").Err())
	b.ok(b.rdb.HDel(t.Context(), AccountsKey(b.shard), "b").Err())
	b.expect(list(
		b.debit("a", "50"),
		b.debit("b", "50"),
		b.repair("a", "900 0 2 0 USD/2 active", "100 0 2 0 USD/2 active", "g1"),
		b.repair("b", "", "100 0 2 0 USD/2 active", "g1"),
		b.debit("a", "51"), b.debit("a", "50"), b.debit("b", "1"),
	),
		"applied -50 850@3", "ACCOUNT_UNKNOWN 0 -", "applied 0 50@4", "applied 0 100@3",
		"INSUFFICIENT_FUNDS 0 50@4", "applied -50 0@5", "applied -1 99@4")
	a, other := b.record("a"), b.record("b")
	b.rebuild("g2", b.log()...)
	b.whole()
	if b.record("a") != a || b.record("b") != other {
		t.Errorf("rebuilt %q and %q, expected %q and %q", b.record("a"), b.record("b"), a, other)
	}
	b.expect(list(b.repair("a", a, a, "g1")), "SEQUENCE_MISMATCH 0 0@5")
}
