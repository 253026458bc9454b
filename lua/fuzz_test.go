package lua

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// What is read is what was written: a text that is taken renders to itself, and nothing panics.

func FuzzAccountRecordsReadAsTheyAreWritten(f *testing.F) {
	for _, record := range []string{
		"0 0 1 0 USD/2 active", "-5 3 7 -10:100 POINTS/0 frozen_debit", most + " " + most + " 999999999999999 -" + most + ":" + most + " USD/2 closed", "0 0 1 0:0 USD/2 frozen",
		"", "-", "1 0 2 0: USD/2 active", "1 0 2 0:-5 USD/2 active", "1 0 2 0:05 USD/2 active", "1 0 2 0:" + most + "9 USD/2 active", "1 0 2 0:1:2 USD/2 active", "1 0 2 -0 USD/2 active",
		"1 0 2 5 USD/2 active", "1 -1 2 0 USD/2 active", "1 0 0 0 USD/2 active", "1 0 2 0  active", "1 0 2 0 US\tD/2 active", "1 0 2 0 US\u00a0D/2 active", "1 0 2 0 \x00 active", "1 0 2 0 USD/2 frozen_both", "1 0 +2 0 USD/2 active",
	} {
		f.Add(record)
	}
	rdb := client(f, 3, addrs...)
	f.Fuzz(func(t *testing.T, record string) {
		a, err := ParseAccount("a", record)
		if err == nil {
			ceiling := a.Ceiling
			if ceiling != "" {
				ceiling = ":" + ceiling
			}
			words := []string{strconv.FormatInt(a.Balance, 10), strconv.FormatInt(a.Held, 10), strconv.FormatUint(a.Sequence, 10), strconv.FormatInt(a.Floor, 10) + ceiling, a.Unit, a.Status}
			if text := strings.Join(words, " "); text != record {
				t.Fatalf("%q was read as %q", record, text)
			}
		}
		// The script takes what Go takes, and nothing else.
		b := setupOn(t, rdb)
		b.ok(b.rdb.HSet(t.Context(), AccountsKey(b.shard), "a", record).Err())
		refused := b.call(b.credit("a", "1"))
		refused.Commands[0].Refusal = ledgerv1.Reason_REASON_INVALID_TEXT // shows the account as it is
		r := b.store.Apply(t.Context(), refused)
		if (r.Err == nil) != (err == nil) || (r.Err != nil && !errors.Is(r.Err, ErrCorrupt)) {
			t.Fatalf("%q: Go says %v, the script %v", record, err, r.Err)
		}
		if r.Err == nil && stateRecord(r.Decisions[0].Outcome.GetAfter()) != record {
			t.Fatalf("%q: the script shows %v", record, r.Decisions[0].Outcome)
		}
	})
}

func FuzzHoldRecordsReadAsTheyAreWritten(f *testing.F) {
	for _, record := range []string{
		"5\t-\t\ta", "5\t1700000000000\t@shop\ta", most + "\t0\t@\tto", "5\t-\t\ta b", "", "5", "0\t-\t\ta", "-5\t-\t\ta", "05\t-\t\ta", most + "9\t-\t\ta", "5\t\t\ta", "5\t-5\t\ta", "5\t007\t\ta",
		"5\t-\t\t", "5\t-\t\ta\t", "5\t9223372036854775808\t\ta", "5\t-\t@a\nb\ta",
	} {
		f.Add(record)
	}
	rdb := client(f, 3, addrs...)
	f.Fuzz(func(t *testing.T, record string) {
		h, err := ParseHold("h", record)
		if err == nil && h.record() != record {
			t.Fatalf("%q was read as %q", record, h.record())
		}
		b := busy(t, setupOn(t, rdb))
		b.ok(b.rdb.HSet(t.Context(), HoldsKey(b.shard), "h", record).Err())
		r := b.store.Apply(t.Context(), b.call(b.release("nobody", "h", ""))) // reads it, and leaves it
		if (r.Err == nil) != (err == nil) || (r.Err != nil && !errors.Is(r.Err, ErrCorrupt)) {
			t.Fatalf("%q: Go says %v, the script %v", record, err, r.Err)
		}
	})
}

func FuzzOutcomeRecordsReadAsTheyAreWritten(f *testing.F) {
	const account = " 5 0 2 0 USD/2 active"
	for _, record := range []string{
		"1 1700000000000 applied 5" + account, "1 1700000000000 ACCOUNT_UNKNOWN 0 -", "2 1 applied -5 5 3 2 -1:9 USD/2 frozen\thold\th\t3\t-\t", "2 1 applied 0" + account + "\thold\th\t0\t1700000000000\t@shop",
		"2 1 applied -5" + account + "\thold\tto\t3\t-\t\tto\t@shop", "3 1 applied -5" + account + "\treversed\tc\t5\tfrom\ta\tto\t@transit", "3 1 applied 5" + account + "\tlegs\t@x\t2\t@y\t3", "3 1 applied 5" + account + "\tto\t@x",
		"", "1", "1 1 applied 5", "x 1 applied 5" + account, "1 x applied 5" + account, "1 1 maybe 5" + account, "1 1 applied 5 1 2 3", "1 1 applied 5" + account + "\t", "1 1 applied 5" + account + "\tto", "1 1 applied 5" + account + "\tlegs\t@x\t2",
		"1 1 applied 5" + account + "\thold\th\t3\tsoon\t", "01 1 applied 5" + account, "1 1 UNSPECIFIED 5" + account, "1 -1 applied 5" + account, "1 1 applied 5" + account + "\tto\t@x\tfrom\ta", "1 1 applied 5" + account + "\tto\t@x\tto\t@y",
		"1 1 applied 5" + account + "\thold\th\t3\t-1\t", "1 1 applied 5" + account + "\thold\th\t3\t007\t", "1 1 applied 5" + account + "\tfrom\t", "1 99999999999999999 applied 5" + account, "1 1 applied 5" + account + "\treversed\t\t",
	} {
		f.Add(record)
	}
	f.Fuzz(func(t *testing.T, record string) {
		o, err := new(room).parseOutcome(3, "c", "a", record)
		if err != nil {
			return
		}
		_, tail, _ := strings.Cut(record, "\t")
		if _, text, _ := strings.Cut(outcomeRecord(o), "\t"); text != tail {
			t.Fatalf("%q was read as %q: %v", record, text, o)
		}
		again, err := new(room).parseOutcome(3, "c", "a", outcomeRecord(o))
		if err != nil || !proto.Equal(o, again) {
			t.Fatalf("%q was read as %v, and then as %v %v", record, o, again, err)
		}
	})
}
