package limits_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// spoiled is what is done to a good command, and the reason that it must be rejected with.
type spoiled struct {
	name      string
	operation ledgerv1.Operation
	spoil     func(*ledgerv1.Command)
	want      ledgerv1.Reason
}

func checkSpoiled(t *testing.T, cases []spoiled) {
	t.Helper()
	for _, c := range cases {
		cmd := good(c.operation)
		c.spoil(cmd)
		got, err := limits.Command(cmd)
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
		if err == nil || err.Error() == "" || len(err.Error()) > 500 {
			t.Errorf("%s: the error does not help: %.600v", c.name, err)
		}
	}
}

func TestGoodCommandsPass(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ledgerv1.Command){
		"plain":                    func(*ledgerv1.Command) {},
		"largest amount":           func(c *ledgerv1.Command) { c.Amount = strings.Repeat("9", 18) },
		"smallest amount":          func(c *ledgerv1.Command) { c.Amount = "1" },
		"custom unit":              func(c *ledgerv1.Command) { c.Currency = "POINTS/0" },
		"currency with exponent":   func(c *ledgerv1.Command) { c.Currency = "USD/2" },
		"external counter":         func(c *ledgerv1.Command) { c.CounterAccount = "@shop" },
		"longest ids":              func(c *ledgerv1.Command) { c.CommandId, c.Account = strings.Repeat("i", 128), strings.Repeat("ä", 64) },
		"longest reference":        func(c *ledgerv1.Command) { c.Reference = strings.Repeat("r", 256) },
		"longest description":      func(c *ledgerv1.Command) { c.Description = strings.Repeat("d", 1024) },
		"description of two lines": func(c *ledgerv1.Command) { c.Description = "one\ntwo" },
		"full metadata":            func(c *ledgerv1.Command) { c.Metadata = metadata(32, 512) },
		"old effective time":       func(c *ledgerv1.Command) { c.EffectiveTime = timestamppb.New(time.Unix(0, 0)) },
		"future effective time": func(c *ledgerv1.Command) {
			c.EffectiveTime = timestamppb.New(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
		},
		"past deadline":     func(c *ledgerv1.Command) { c.Deadline = timestamppb.New(time.Unix(1, 0)) },
		"expected sequence": func(c *ledgerv1.Command) { c.ExpectedSequence = proto.Uint64(0) },
	} {
		for _, operation := range []ledgerv1.Operation{debit, credit} {
			cmd := good(operation)
			change(cmd)
			if got, err := limits.Command(cmd); err != nil || got != ledgerv1.Reason_REASON_UNSPECIFIED {
				t.Errorf("%s %s: %s: %v", operation, name, got, err)
			}
		}
	}
	for _, floor := range []string{"", "0", "-1", "-999999999999999999"} {
		cmd := good(open)
		cmd.Open = &ledgerv1.OpenTerms{Floor: floor}
		if got, err := limits.Command(cmd); err != nil {
			t.Errorf("open with floor %q: %s: %v", floor, got, err)
		}
	}
}

// Braces name a Redis hash tag, and none of these may matter.
func TestIdsMayHoldBracesBlanksAndOtherScripts(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"}", "}x", "{}", "{", "a}b", "a{b}c", "{a}", "a}{b", " ", "a b", "a:b", "a/b", "a|b", "日本", "ü", "%s", "'; --", "*", "\u00a0", "x@y"} {
		cmd := good(debit)
		cmd.CommandId, cmd.Account = id, id
		if got, err := limits.Command(cmd); err != nil {
			t.Errorf("%q: %s: %v", id, got, err)
		}
	}
}

func TestBadIdsAreRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", strings.Repeat("x", 129), strings.Repeat("ä", 65), strings.Repeat("x", 1<<20), "a\x00b", "a\nb", "\r", "\x1b[31m", "\x7f", "\u0085", "\xff", "a\xc3"} {
		if limits.ValidID(id) == nil {
			t.Errorf("ValidID(%.20q): want an error", id)
		}
		checkSpoiled(t, []spoiled{
			{fmt.Sprintf("command id %.20q", id), debit, func(c *ledgerv1.Command) { c.CommandId = id }, ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
			{fmt.Sprintf("account %.20q", id), debit, func(c *ledgerv1.Command) { c.Account = id }, ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		})
		if id != "" { // which stands for @world
			checkSpoiled(t, []spoiled{
				{fmt.Sprintf("counter account %.20q", id), debit, func(c *ledgerv1.Command) { c.CounterAccount = id }, ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
			})
		}
	}
}

func TestBadAmountsAreRefused(t *testing.T) {
	t.Parallel()
	for _, amount := range []string{
		"", "nan", "NaN", "inf", "-inf", "0x10", "1e3", " 5", "5 ", "+5", "05", "1.0", "1.005", "2.50", "-1", "-0", "0", "00", "９", "٥", "1_000", "1,000", "12.50 USD", "\x00", "1\n",
	} {
		for _, operation := range []ledgerv1.Operation{debit, credit} {
			checkSpoiled(t, []spoiled{
				{fmt.Sprintf("amount %q", amount), operation, func(c *ledgerv1.Command) { c.Amount = amount }, ledgerv1.Reason_REASON_INVALID_AMOUNT},
			})
		}
	}
	for _, amount := range []string{"1000000000000000000", "9223372036854775808", strings.Repeat("9", 60000)} {
		checkSpoiled(t, []spoiled{
			{fmt.Sprintf("amount %.25s", amount), debit, func(c *ledgerv1.Command) { c.Amount = amount }, ledgerv1.Reason_REASON_LIMIT_EXCEEDED},
		})
	}
}

func TestBadOperationsAndTermsAreRefused(t *testing.T) {
	t.Parallel()
	checkSpoiled(t, []spoiled{
		{"no operation", debit, func(c *ledgerv1.Command) { c.Operation = 0 }, ledgerv1.Reason_REASON_INVALID_OPERATION},
		{"unknown operation", debit, func(c *ledgerv1.Command) { c.Operation = 99 }, ledgerv1.Reason_REASON_INVALID_OPERATION},
		{"negative operation", debit, func(c *ledgerv1.Command) { c.Operation = -1 }, ledgerv1.Reason_REASON_INVALID_OPERATION},
		{"terms of opening on a debit", debit, func(c *ledgerv1.Command) { c.Open = &ledgerv1.OpenTerms{} }, ledgerv1.Reason_REASON_INVALID_OPERATION},
		{"terms of a repair on a credit", credit, func(c *ledgerv1.Command) { c.Repair = good(repair).GetRepair() }, ledgerv1.Reason_REASON_INVALID_OPERATION},
		{"external account", debit, func(c *ledgerv1.Command) { c.Account = "@world" }, ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		{"open an external account", open, func(c *ledgerv1.Command) { c.Account = "@world" }, ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		{"counter account is controlled", debit, func(c *ledgerv1.Command) { c.CounterAccount = "bob" }, ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		{"counter account is the account", debit, func(c *ledgerv1.Command) { c.CounterAccount = "alice" }, ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		{"open with an amount", open, func(c *ledgerv1.Command) { c.Amount = "1" }, ledgerv1.Reason_REASON_INVALID_AMOUNT},
		{"repair with an amount", repair, func(c *ledgerv1.Command) { c.Amount = "1" }, ledgerv1.Reason_REASON_INVALID_AMOUNT},
		{"open without a currency", open, func(c *ledgerv1.Command) { c.Currency = "" }, ledgerv1.Reason_REASON_INVALID_CURRENCY},
		{"debit without a currency", debit, func(c *ledgerv1.Command) { c.Currency = "" }, ledgerv1.Reason_REASON_INVALID_CURRENCY},
		{"unknown currency", debit, func(c *ledgerv1.Command) { c.Currency = "ZZZ" }, ledgerv1.Reason_REASON_INVALID_CURRENCY},
		{"currency with a wrong exponent", open, func(c *ledgerv1.Command) { c.Currency = "JPY/2" }, ledgerv1.Reason_REASON_INVALID_CURRENCY},
		{"custom unit without exponent", open, func(c *ledgerv1.Command) { c.Currency = "POINTS" }, ledgerv1.Reason_REASON_INVALID_CURRENCY},
	})
	for floor, want := range map[string]ledgerv1.Reason{
		"1": ledgerv1.Reason_REASON_INVALID_FLOOR, "-0": ledgerv1.Reason_REASON_INVALID_FLOOR, "-05": ledgerv1.Reason_REASON_INVALID_FLOOR,
		"-1.5": ledgerv1.Reason_REASON_INVALID_FLOOR, "nan": ledgerv1.Reason_REASON_INVALID_FLOOR, "-inf": ledgerv1.Reason_REASON_INVALID_FLOOR,
		"-1000000000000000000": ledgerv1.Reason_REASON_LIMIT_EXCEEDED,
	} {
		checkSpoiled(t, []spoiled{
			{fmt.Sprintf("floor %q", floor), open, func(c *ledgerv1.Command) { c.Open = &ledgerv1.OpenTerms{Floor: floor} }, want},
		})
	}
}

func TestBadTextsAndTimesAreRefused(t *testing.T) {
	t.Parallel()
	const want, wantTime = ledgerv1.Reason_REASON_INVALID_TEXT, ledgerv1.Reason_REASON_INVALID_TIME
	checkSpoiled(t, []spoiled{
		{"long reference", debit, func(c *ledgerv1.Command) { c.Reference = strings.Repeat("r", 257) }, want},
		{"long description", debit, func(c *ledgerv1.Command) { c.Description = strings.Repeat("d", 1025) }, want},
		{"description not UTF-8", debit, func(c *ledgerv1.Command) { c.Description = "\xff" }, want},
		{"long source", debit, func(c *ledgerv1.Command) { c.Source = strings.Repeat("s", 257) }, want},
		{"long reply address", debit, func(c *ledgerv1.Command) { c.ReplyTo = strings.Repeat("s", 257) }, want},
		{"long trace context", debit, func(c *ledgerv1.Command) { c.Traceparent = strings.Repeat("s", 257) }, want},
		{"too much metadata", debit, func(c *ledgerv1.Command) { c.Metadata = metadata(33, 10) }, want},
		{"long metadata entry", debit, func(c *ledgerv1.Command) { c.Metadata = metadata(1, 513) }, want},
		{"metadata cut within a character", debit, func(c *ledgerv1.Command) { c.Metadata = map[string]string{"\xc3": "\xa4"} }, want},
		{"effective time in milliseconds", debit, func(c *ledgerv1.Command) { c.EffectiveTime = &timestamppb.Timestamp{Seconds: 1_800_000_000_000} }, wantTime},
		{"effective time in the far future", debit, func(c *ledgerv1.Command) {
			c.EffectiveTime = timestamppb.New(limits.EffectiveTimeMax)
		}, wantTime},
		{"effective time before 1900", debit, func(c *ledgerv1.Command) { c.EffectiveTime = &timestamppb.Timestamp{Seconds: -2_208_988_801} }, wantTime},
		{"effective time out of all range", debit, func(c *ledgerv1.Command) { c.EffectiveTime = &timestamppb.Timestamp{Seconds: math.MinInt64} }, wantTime},
		{"deadline with too many nanoseconds", debit, func(c *ledgerv1.Command) { c.Deadline = &timestamppb.Timestamp{Nanos: -1} }, wantTime},
	})
}

func TestARepairSaysWhatTheLogSays(t *testing.T) {
	t.Parallel()
	if got, err := limits.Command(good(repair)); err != nil {
		t.Fatalf("a good repair: %s: %v", got, err)
	}
	seen := good(repair)
	seen.Currency = "USD/2"
	for _, snapshot := range []*ledgerv1.AccountSnapshot{
		{Sequence: 2, Balance: "90", Held: "0", Floor: "0", Unit: "USD/2"},
		{Sequence: 0, Balance: "-999999999999999999", Held: "-1", Floor: "5", Unit: "USD/3"},
		{Sequence: limits.SequenceMax, Balance: "0", Held: "999999999999999999", Floor: "0", Unit: "ANY_THING_1/99"},
	} {
		seen.Repair.Seen = snapshot
		if got, err := limits.Command(seen); err != nil {
			t.Errorf("what was seen may be wrong: %v: %s: %v", snapshot, got, err)
		}
	}
	const want = ledgerv1.Reason_REASON_INVALID_REPAIR
	checkSpoiled(t, []spoiled{
		{"no terms", repair, func(c *ledgerv1.Command) { c.Repair = nil }, want},
		{"no log", repair, func(c *ledgerv1.Command) { c.Repair.Log = nil }, want},
		{"sequence 0", repair, func(c *ledgerv1.Command) { c.Repair.Log.Sequence = 0 }, want},
		{"no balance", repair, func(c *ledgerv1.Command) { c.Repair.Log.Balance = "" }, want},
		{"huge balance", repair, func(c *ledgerv1.Command) { c.Repair.Log.Balance = "1000000000000000000" }, want},
		{"negative held", repair, func(c *ledgerv1.Command) { c.Repair.Log.Held = "-1" }, want},
		{"held not a number", repair, func(c *ledgerv1.Command) { c.Repair.Log.Held = "x" }, want},
		{"floor above zero", repair, func(c *ledgerv1.Command) { c.Repair.Log.Floor = "1" }, want},
		{"no floor", repair, func(c *ledgerv1.Command) { c.Repair.Log.Floor = "" }, want},
		{"unit without exponent", repair, func(c *ledgerv1.Command) { c.Repair.Log.Unit = "USD" }, want},
		{"no unit", repair, func(c *ledgerv1.Command) { c.Repair.Log.Unit = "" }, want},
		{"no run", repair, func(c *ledgerv1.Command) { c.Repair.RunId = "" }, want},
		{"no break", repair, func(c *ledgerv1.Command) { c.Repair.BreakId = "" }, want},
		{"sequence that cannot be counted on from", repair, func(c *ledgerv1.Command) { c.Repair.Log.Sequence = limits.SequenceMax + 1 }, want},
		{"empty snapshot seen", repair, func(c *ledgerv1.Command) { c.Repair.Seen = &ledgerv1.AccountSnapshot{} }, want},
	})
	for _, generation := range []string{"", " ", "a b", "a|b", "g\n", "a_b", "ä", strings.Repeat("g", 65)} {
		checkSpoiled(t, []spoiled{
			{fmt.Sprintf("generation %.20q", generation), repair, func(c *ledgerv1.Command) { c.Repair.Generation = generation }, want},
		})
	}
	for name, spoil := range map[string]func(*ledgerv1.AccountSnapshot){
		"huge balance":        func(s *ledgerv1.AccountSnapshot) { s.Balance = strings.Repeat("9", 19) },
		"balance that splits": func(s *ledgerv1.AccountSnapshot) { s.Balance = "1|2" },
		"blank in held":       func(s *ledgerv1.AccountSnapshot) { s.Held = "0 0" },
		"no floor":            func(s *ledgerv1.AccountSnapshot) { s.Floor = "" },
		"leading zero":        func(s *ledgerv1.AccountSnapshot) { s.Balance = "01" },
		"no unit":             func(s *ledgerv1.AccountSnapshot) { s.Unit = "" },
		"unit that splits":    func(s *ledgerv1.AccountSnapshot) { s.Unit = "USD/2 active" },
		"unit with a bar":     func(s *ledgerv1.AccountSnapshot) { s.Unit = "USD|2" },
		"huge sequence":       func(s *ledgerv1.AccountSnapshot) { s.Sequence = math.MaxUint64 },
	} {
		checkSpoiled(t, []spoiled{{"seen: " + name, repair, func(c *ledgerv1.Command) {
			c.Repair.Seen = &ledgerv1.AccountSnapshot{Sequence: 2, Balance: "90", Held: "0", Floor: "0", Unit: "USD/2"}
			spoil(c.Repair.Seen)
		}, want}})
	}
}

// The first problem in the order of the fields is the one reported: a caller corrects from the top.
func TestTheFirstProblemIsReported(t *testing.T) {
	t.Parallel()
	cmd := &ledgerv1.Command{Open: &ledgerv1.OpenTerms{Floor: "x"}, Reference: strings.Repeat("r", 300)}
	for _, step := range []struct {
		want ledgerv1.Reason
		mend func()
	}{
		{ledgerv1.Reason_REASON_INVALID_COMMAND_ID, func() { cmd.CommandId = "c" }},
		{ledgerv1.Reason_REASON_INVALID_OPERATION, func() { cmd.Operation = open }},
		{ledgerv1.Reason_REASON_INVALID_ACCOUNT, func() { cmd.Account = "alice"; cmd.CounterAccount = "alice" }},
		{ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, func() { cmd.CounterAccount = ""; cmd.Amount = "1" }},
		{ledgerv1.Reason_REASON_INVALID_AMOUNT, func() { cmd.Amount = "" }},
		{ledgerv1.Reason_REASON_INVALID_CURRENCY, func() { cmd.Currency = "USD" }},
		{ledgerv1.Reason_REASON_INVALID_FLOOR, func() { cmd.Open.Floor = "-5" }},
		{ledgerv1.Reason_REASON_INVALID_TEXT, func() { cmd.Reference = "" }},
		{ledgerv1.Reason_REASON_UNSPECIFIED, func() {}},
	} {
		if got, err := limits.Command(cmd); got != step.want {
			t.Fatalf("%s (%v), want %s", got, err, step.want)
		}
		step.mend()
	}
}

func TestAnEmptyCommandIsAnsweredNotPanicked(t *testing.T) {
	t.Parallel()
	for _, cmd := range []*ledgerv1.Command{nil, {}} {
		if got, err := limits.Command(cmd); got != ledgerv1.Reason_REASON_INVALID_COMMAND_ID || err == nil {
			t.Errorf("%v: %s, %v", cmd, got, err)
		}
	}
}

// metadata returns entries whose key and value have bytes in all.
func metadata(entries, bytes int) map[string]string {
	m := make(map[string]string, entries)
	for i := range entries {
		key := fmt.Sprintf("key-%02d", i)
		m[key] = strings.Repeat("v", bytes-len(key))
	}
	return m
}

func BenchmarkCommand(b *testing.B) {
	cmd := good(debit)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := limits.Command(cmd); err != nil {
			b.Fatal(err)
		}
	}
}
