package lua

import (
	"testing"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// snapshot reads an account record, or what was seen instead of one; "" is no account.
func snapshot(t testing.TB, record string) *ledgerv1.AccountSnapshot {
	t.Helper()
	if record == "" {
		return nil
	}
	a := &ledgerv1.AccountState{}
	if err := parseState(a, record); err != nil {
		t.Fatal(err)
	}
	s := &ledgerv1.AccountSnapshot{Balance: a.GetBalance(), Held: a.GetHeld(), Sequence: a.GetSequence(), Floor: a.GetFloor(), Ceiling: a.GetCeiling(), Unit: a.GetUnit()}
	if a.GetStatus() != active { // which is what an empty one means
		s.Status = a.GetStatus()
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
		{"missing account comes back", "", "", "70 5 USD/2 -10 active", "70 6 USD/2 -10 active", "", "applied 0 70@6"},
		{"missing account is there after all", "70 5 USD/2", "", "70 5 USD/2", "70 5 USD/2", "", "SEQUENCE_MISMATCH 0 70@5"},
		{"account seen is missing now", "", "70 5 USD/2", "70 5 USD/2", "", "", "SEQUENCE_MISMATCH 0 -"},
		{"balance differs at the sequence seen", "75 5 USD/2", "75 5 USD/2", "70 5 USD/2", "70 6 USD/2", "", "applied 0 70@6"},
		{"unit, floor and held differ", "75:3 5 EUR/2 -7 active", "75:3 5 EUR/2 -7 active", "70 5 USD/2", "70 6 USD/2", "", "applied 0 70@6"},
		{"balance is another one than was seen", "76 5 USD/2", "75 5 USD/2", "70 5 USD/2", "76 5 USD/2", "", "SEQUENCE_MISMATCH 0 76@5"},
		{"account has moved on: the difference is corrected", "175 9 USD/2", "75 5 USD/2", "70 5 USD/2", "170 10 USD/2", "", "applied 0 170@10"},
		{"moved on, held and floor too", "175:5 9 USD/2 -1 active", "75:5 5 USD/2 -1 active", "80:2 5 USD/2", "180:2 10 USD/2", "", "applied 0 180@10"},
		{"moved on, 18 digits", "9007199254740993 9 USD/2", "1 5 USD/2", "2 5 USD/2", "9007199254740994 10 USD/2", "", "applied 0 9007199254740994@10"},
		{"moved on, beyond 18 digits", most + " 9 USD/2", "1 5 USD/2", "2 5 USD/2", most + " 9 USD/2", "", "LIMIT_EXCEEDED 0 " + most + "@9"},
		{"moved on, held below zero", "5:1 9 USD/2", "5:9 5 USD/2", "5 5 USD/2", "5:1 9 USD/2", "", "LIMIT_EXCEEDED 0 5@9"},
		{"redis is before the sequence seen", "75 4 USD/2", "75 5 USD/2", "70 5 USD/2", "75 4 USD/2", "", "SEQUENCE_MISMATCH 0 75@4"},
		{"redis was behind the log", "75 3 USD/2", "75 3 USD/2", "70 5 USD/2", "70 6 USD/2", "", "applied 0 70@6"},
		{"redis was ahead of the log", "75 8 USD/2", "75 8 USD/2", "70 5 USD/2", "70 6 USD/2", "", "applied 0 70@6"},
		{"redis was behind and moved on", "75 4 USD/2", "75 3 USD/2", "70 5 USD/2", "75 4 USD/2", "", "SEQUENCE_MISMATCH 0 75@4"},
		{"shard was recovered since", "75 5 USD/2", "75 5 USD/2", "70 5 USD/2", "75 5 USD/2", "g0", "SEQUENCE_MISMATCH 0 75@5"},
		{"missing account, shard was recovered since", "", "", "70 5 USD/2", "", "g0", "SEQUENCE_MISMATCH 0 -"},
		{"generation with a separator", "75 5 USD/2", "75 5 USD/2", "70 5 USD/2", "75 5 USD/2", "x|g1", "SEQUENCE_MISMATCH 0 75@5"},
		{"what was seen is no record", "75 5 USD/2", "abc:nan 5 USD|2 | active", "70 5 USD/2", "75 5 USD/2", "", "SEQUENCE_MISMATCH 0 75@5"},
		{"what was seen is no record of a missing account", "", "abc:nan 5 USD|2 | active", "70 5 USD/2", "", "", "SEQUENCE_MISMATCH 0 -"},
		{"sequence beyond what counts exactly", "75 5 USD/2", "75 5 USD/2", "70 18446744073709551615 USD/2", "75 5 USD/2", "", "INVALID_REPAIR 0 75@5"},
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
	b.ok(b.rdb.HSet(t.Context(), AccountsKey(b.shard), "a", "900 2 USD/2").Err())
	b.ok(b.rdb.HDel(t.Context(), AccountsKey(b.shard), "b").Err())
	b.expect(list(
		b.debit("a", "50"),
		b.debit("b", "50"),
		b.repair("a", "900 2 USD/2", "100 2 USD/2", "g1"),
		b.repair("b", "", "100 2 USD/2", "g1"),
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
