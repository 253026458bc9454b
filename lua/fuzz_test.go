package lua

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// What is read is what was written: a text that is taken renders to itself, and nothing panics.

func FuzzAccountRecordsReadAsTheyAreWritten(f *testing.F) {
	for _, record := range []string{
		"0 1 USD/2", "-5:3 7 POINTS/0 -10:100 frozen_debit", most + ":" + most + " 999999999999999 USD/2 -" + most + ":" + most + " closed", "0 1 USD/2 0:0 frozen",
		"", "-", "1 2 USD/2 0: active", "1 2 USD/2 0:-5 active", "1 2 USD/2 0:05 active", "1 2 USD/2 0:" + most + "9 active", "1 2 USD/2 0:1:2 active", "1 2 USD/2 -0 active",
		"1 2 USD/2 5 active", "1:-1 2 USD/2", "1 0 USD/2", "1 2 ", "1 2  0 frozen", "1 2 US\tD/2", "1 2 US\u00a0D/2", "1 2 \x00", "1:0 2 USD/2", "1: 2 USD/2", "1:2: 2 USD/2", "1 2 USD/2 0 active", "1 2 USD/2 ", "1 2 USD/2 0", "1 2 USD/2 0  ", "1 2 USD/2 0 frozen_both", "1 +2 USD/2",
	} {
		f.Add(record)
	}
	rdb := client(f, 3, addrs...)
	f.Fuzz(func(t *testing.T, record string) {
		a, err := ParseAccount("a", record)
		if err == nil {
			held, ceiling := "", ""
			if a.Held != 0 {
				held = fmt.Sprintf(":%d", a.Held)
			}
			if a.Ceiling != "" {
				ceiling = ":" + a.Ceiling
			}
			terms := fmt.Sprintf(" %d%s %s", a.Floor, ceiling, a.Status)
			if terms == " 0 active" {
				terms = ""
			}
			if text := fmt.Sprintf("%d%s %d %s%s", a.Balance, held, a.Sequence, a.Unit, terms); text != record {
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
	const account = " 5 2 USD/2"
	for _, record := range []string{
		"5" + account, "ACCOUNT_UNKNOWN -", "LIMIT_EXCEEDED" + account, "-5 5:3 2 USD/2 -1:9 frozen\thold\th\t3\t-\t", "0" + account + "\thold\th\t0\t1700000000000\t@shop",
		"-5" + account + "\thold\tto\t3\t-\t\tto\t@shop", "-5" + account + "\treversed\tc\t5\tfrom\ta\tto\t@transit", "5" + account + "\tlegs\t@x\t2\t@y\t3", "5" + account + "\tto\t@x",
		"", "5", "5 -", "MAYBE" + account, "5 1 2 3", "5" + account + "\t", "5" + account + "\tto", "5" + account + "\tlegs\t@x\t2", "UNSPECIFIED" + account, "LIMIT_EXCEEDED" + account + "\tto\t@x",
		"5" + account + "\thold\th\t3\tsoon\t", "5" + account + "\tto\t@x\tfrom\ta", "5" + account + "\tto\t@x\tto\t@y",
		"5" + account + "\thold\th\t3\t-1\t", "5" + account + "\thold\th\t3\t007\t", "5" + account + "\tfrom\t", "5" + account + "\treversed\t\t",
	} {
		f.Add("\x01\x8b\xcf\xe5h\x00" + "2 " + record)
	}
	for _, record := range []string{"", "\x00", "\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff1 5" + account, "short1 5" + account, "binary01 5" + account, "binaryx 5" + account, "binary 5" + account, "binary1", "binary1 "} {
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
