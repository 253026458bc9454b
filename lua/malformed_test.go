package lua

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/schemas/limits"
)

// The amounts that convert to a number in Lua or elsewhere, and must not.
var hostileAmounts = []string{
	"nan", "NaN", "inf", "-inf", "0x10", "1e3", " 5", "5 ", "+5", "05", "1.0", "1.", "-0", "", "９", "1_000", "1\n", "1\x00", "1'", "--1", "1|2", "5\t", "\t5", "--",
}

const fingerprintOfNothing = "ffffffffffffffff"

// rawCall runs apply.lua past Go, with a good command before these rows.
func (b *bench) rawCall(header []any, rows ...[]any) ([]any, error) {
	rows = append([][]any{{"x0", "a", fingerprintOfNothing, ask("credit", "", "USD/2")}}, rows...)
	return b.rawRun(packed(header, rows...))
}

func (b *bench) rawRun(args []any) ([]any, error) {
	return applyScript.Run(b.Context(), b.rdb, LiveKeys(b.shard), args...).Slice()
}

// packed are the arguments for rows of id, account, fingerprint, ask and perhaps amount, whatever these are. Debits and credits are of 5 otherwise.
func packed(header []any, rows ...[]any) []any {
	var numbers, ids, reversed []byte
	var accounts, asks []any
	for _, row := range rows {
		number := slices.Index(accounts, row[1]) + 1
		if number == 0 {
			accounts = append(accounts, row[1])
			number = len(accounts)
		}
		asks = append(asks, row[3])
		ids = appendHash(ids, fmt.Sprint(row[0]))
		numbers = append(numbers, 0, byte(number), 0, byte(len(asks)))
		text := fmt.Sprint(row[3])
		if strings.HasPrefix(text, "reverse\n") {
			id, _, _ := strings.Cut(text[strings.LastIndex(text, "\n")+1:], "\t")
			reversed = appendHash(appendHash(reversed, id), limits.CreditID(id))
		}
		switch {
		case len(row) > 4:
			numbers = fmt.Append(numbers, row[4])
		case strings.HasPrefix(text, "credit\n") || strings.HasPrefix(text, "debit\n"):
			numbers = fmt.Append(numbers, amountOf(0, 5))
		default:
			numbers = fmt.Append(numbers, amountOf(0, 0))
		}
		numbers = fmt.Append(numbers, row[2])
	}
	args := append(slices.Clip(header), numbers, append(ids, reversed...), len(accounts))
	return append(append(args, accounts...), asks...)
}

func (b *bench) rawHeader() []any {
	return []any{b.head.Position, b.head.Chain, strings.Repeat("c0ffee0123", 4), "1700000000000", "0", "1700000000000", "", "bodies"}
}

// ask without conditions.
func ask(verb, terms, unit string) string { return verb + "\n" + unit + "\n-\n-\n" + terms }

// amountOf is how a row has an amount: the last four digits in two bytes after the others in six.
func amountOf(high, low uint64) string {
	return string(binary.BigEndian.AppendUint64(nil, high<<16|low))
}

func raw(verb, terms, unit string) []any { return asking(ask(verb, terms, unit)) }

func asking(ask string) []any { return []any{"x1", "a", fingerprintOfNothing, ask} }

// malformedRows are what no command of Go's becomes, by what is wrong with it.
func malformedRows() map[string][]any {
	rows := map[string][]any{
		"no operation": raw("", "5", "USD/2"), "unknown operation": raw("mint", "5", "USD/2"), "a function of Lua's": raw("pairs", "5", "USD/2"),
		"unit in words": raw("credit", "", "USD"), "unit with a blank": raw("credit", "", "US D/2"),
		"reason in words": raw("refuse", "because", ""), "reason with a blank": raw("refuse", "NO WAY", ""),
		"repair without log": raw("repair", "|-|g1", "USD/2"), "repair of two parts": raw("repair", "1 2 USD/2|-", "USD/2"),
		"repair to a bad log": raw("repair", "nan 2 USD/2|-|g1", "USD/2"), "repair to 19 digits": raw("repair", most+"9 2 USD/2|-|g1", "USD/2"),
		"repair to a bad ceiling": raw("repair", "1 2 USD/2 0:"+most+"9 active|-|g1", "USD/2"), "repair to a bad status": raw("repair", "1 2 USD/2 0 open|-|g1", "USD/2"),
		"short fingerprint":           {"x1", "a", "short", ask("credit", "", "USD/2")},
		"long fingerprint":            {"x1", "a", fingerprintOfNothing + "f", ask("credit", "", "USD/2")},
		"no fingerprint":              {"x1", "a", "", ask("credit", "", "USD/2")},
		"no account":                  {"x1", "", fingerprintOfNothing, ask("credit", "", "USD/2")},
		"ask for nothing":             asking(""),
		"ask of words":                asking("credit 5 USD/2 - -"),
		"ask of four lines":           asking("credit\nUSD/2\n-\n-"),
		"ask of six lines":            asking(ask("credit", "", "USD/2") + "\n"),
		"ask that begins with a line": asking("\n" + ask("credit", "", "USD/2")),
		"verb in capitals":            raw("CREDIT", "5", "USD/2"), "verb with a blank": raw("credit ", "5", "USD/2"), "verb with a digit": raw("credit1", "5", "USD/2"), "a field of the object": raw("__index", "5", "USD/2"),
		"terms on two lines": raw("adjust", "5\n", "USD/2"), "unit on two lines": raw("credit", "", "USD/2\n"), "unit without digits": raw("credit", "", "USD/"), "unit in small letters": raw("credit", "", "usd/2"),
		"refuse without a reason": raw("refuse", "", ""), "reason on two lines": raw("refuse", "NO_WAY\n", ""), "reason of one letter": raw("refuse", "N", ""),
		"repair of nothing": raw("repair", "", "USD/2"), "repair of one part": raw("repair", "1 2 USD/2", "USD/2"),
		"open with a booking": raw("open", "0\tto\t@x", "USD/2"), "floor above zero": raw("open", "5", "USD/2"), "ceiling below zero": raw("open", "0:-5", "USD/2"), "no ceiling": raw("open", "0:", "USD/2"),
		"credit with a blank booking": raw("credit", " to @x", "USD/2"), "booking on two lines": raw("credit", "\tto\t@x\n", "USD/2"), "credit with the amount in its terms": raw("credit", "5", "USD/2"), "debit with the amount in its terms": raw("debit", "5\tto\t@x", "USD/2"),
		"hold without terms": raw("hold", "h\t5", "USD/2"), "hold without counter": raw("hold", "h\t5\t-", "USD/2"), "hold without id": raw("hold", "5\t-\t", "USD/2"), "hold until soon": raw("hold", "h\t5\tsoon\t", "USD/2"),
		"hold until before 1970": raw("hold", "h\t5\t-5\t", "USD/2"), "hold of nothing": raw("hold", "h\t0\t-\t", "USD/2"), "hold below zero": raw("hold", "h\t-1\t-\t", "USD/2"), "hold for a controlled account": raw("hold", "h\t5\t-\tb", "USD/2"), "hold of more": raw("hold", "h\t5\t-\t\tx", "USD/2"),
		"capture without hold": raw("capture", "\t5", ""), "capture without amount": raw("capture", "h", ""), "capture of nothing": raw("capture", "h\t0", ""), "capture below zero": raw("capture", "h\t-1", ""),
		"capture with a blank booking": raw("capture", "h\t5 to", ""), "release without hold": raw("release", "\t-", ""), "release of nothing": raw("release", "h\t0", ""), "release with a booking": raw("release", "h\t5\tto\t@x", ""),
		"reversal of nothing named": raw("reverse", "\t-\t0", ""), "reversal of zero": raw("reverse", "c1\t0\t0", ""), "reversal below zero": raw("reverse", "c1\t-1\t0", ""), "reversal with a word": raw("reverse", "c1\t-\tyes", ""),
		"reversal of a total": raw("reverse", "c1\n\t-\t0", ""), "reversal of two words": raw("reverse", "c1\t-", ""),
		"limits of nothing": raw("set_limits", "", ""), "one limit": raw("set_limits", "-", ""), "positive floor": raw("set_limits", "5\t-", ""), "negative ceiling": raw("set_limits", "-\t-5", ""), "a ceiling in words": raw("set_limits", "-\tNONE", ""), "no floor in words": raw("set_limits", "none\t-", ""),
		"freeze in a direction": raw("freeze", "up", ""), "freeze nothing": raw("freeze", "", ""), "unfreeze in a direction": raw("unfreeze", "debit ", ""), "close with terms": raw("close", "0", ""),
		"adjust nothing": raw("adjust", "0", "USD/2"), "adjust with a blank booking": raw("adjust", "5 to", "USD/2"), "adjust with a sign": raw("adjust", "+5", "USD/2"),
	}
	for _, word := range []string{"\t", "\n", "h\t5", "h\n"} {
		rows["hold with the id "+word] = raw("hold", word+"\t5\t-\t", "USD/2")
		rows["hold on the account "+word] = []any{"x1", word, fingerprintOfNothing, ask("hold", "x1\t5\t-\t", "USD/2")}
	}
	for operation, terms := range map[string]string{"open": "0", "debit": "", "credit": "", "hold": "h\t5\t-\t", "adjust": "5", "repair": "1 2 USD/2|-|g1"} {
		rows[operation+" without a unit"] = raw(operation, terms, "")
	}
	for _, conditions := range [][2]string{
		{"", ""}, {"-", ""}, {"", "-"}, {"--", "-"}, {"-", "--"}, {"- ", "-"}, {" -", "-"}, {"-", " -"}, {"soon", "-"}, {"-", "soon"}, {"-", "-1"}, {"5", ""}, {"", "5"}, {"5 5", "5"}, {"5", "5 5"},
		{"1e3", "-"}, {"-", "1e3"}, {"0x5", "-"}, {"-", "0x5"}, {"-", "5 "}, {"-\t", "-"}, {"nan", "-"}, {"-", "inf"}, {"+5", "-"}, {"-", "+5"}, {"5.0", "-"}, {"-", "5.0"},
	} {
		rows[fmt.Sprintf("conditions %q", conditions)] = asking("credit\nUSD/2\n" + conditions[0] + "\n" + conditions[1] + "\n")
	}
	for _, booking := range []string{
		"x", "\t", "\tto", "\tto\t", "\tto\tb", "\tto\t@x\ty", "\tto\t@x\n", "\tfrom\ta", "\tfrom\ta\tto\tb", "\tfrom\t\tto\t@x", "\tto\t@x\tfrom\ta", "\treversed\tc\t5", "\thold\th\t5\t-\t",
		"\tlegs", "\tlegs\t@x", "\tlegs\t@x\t5", "\tlegs\t@x\t0", "\tlegs\t@x\t-5", "\tlegs\tb\t5", "\tlegs\t@x\t3\t@y", "\tlegs\t@x\t3\t@y\t2\n", "\tlegs\t@x\t3\t\t@y\t2", "\tLEGS\t@x\t3\t@y\t2", "\tlegs\t@x\t3\tlegs\t@y\t2",
	} {
		for operation, terms := range map[string]string{"credit": "", "debit": "", "adjust": "-5", "capture": "h\t5"} {
			rows[operation+" booked"+booking] = raw(operation, terms+booking, "USD/2")
		}
	}
	for _, amount := range [][2]uint64{{0, 0}, {0, 10_000}, {0, 1<<16 - 1}, {100_000_000_000_000, 0}, {1<<48 - 1, 9_999}} {
		for _, verb := range []string{"credit", "debit"} {
			rows[fmt.Sprintf("%s of %v", verb, amount)] = append(raw(verb, "", "USD/2"), amountOf(amount[0], amount[1]))
		}
	}
	for _, amount := range [][2]uint64{{0, 5}, {5, 0}, {0, 10_000}, {100_000_000_000_000, 0}} {
		for verb, terms := range map[string]string{"adjust": "5", "hold": "h\t5\t-\t", "refuse": "NO_WAY", "close": "", "reverse": "c1\t-\t0"} {
			rows[fmt.Sprintf("%s with %v in its row", verb, amount)] = append(raw(verb, terms, "USD/2"), amountOf(amount[0], amount[1]))
		}
	}
	for _, amount := range hostileAmounts {
		for operation, terms := range map[string]string{
			"adjust": "?", "open": "?", "open with a ceiling": "0:?", "hold": "x1\t?\t-\t", "hold until": "x1\t5\t?\t", "capture": "h\t?", "release": "h\t?", "reverse": "c1\t?\t0",
			"set_limits": "?\t-", "set_limits with a ceiling": "-\t?",
		} {
			verb, _, _ := strings.Cut(operation, " ")
			rows[operation+" "+amount] = raw(verb, strings.Replace(terms, "?", amount, 1), "USD/2")
		}
	}
	return rows
}

// malformedShapes are calls whose parts do not fit together, by what is wrong with them; good is one command.
func malformedShapes(good []any) map[string][]any {
	const rows, ids, accounts, account = 8, 9, 10, 11 // places
	with := func(at int, values ...any) []any { return slices.Concat(good[:at], values, good[at+1:]) }
	numbers := func(a, b, c, d byte) []byte {
		return append([]byte{a, b, c, d}, amountOf(0, 5)+fingerprintOfNothing...)
	}
	shapes := map[string][]any{
		"a row cut short": with(rows, numbers(0, 1, 0, 1)[:27]), "a row and a byte": with(rows, append(numbers(0, 1, 0, 1), 0)), "two rows for an id": with(rows, append(numbers(0, 1, 0, 1), numbers(0, 1, 0, 1)...)),
		"no row": with(rows, ""), "a command without id": with(ids, ""), "an id cut short": with(ids, OutcomeField("x")[1:]), "an id and a byte": with(ids, OutcomeField("x")+"x"), "two ids for a command": with(ids, OutcomeField("x")+OutcomeField("y")),
		"no account": with(account), "nothing asked for": good[:account+1], "another ask": append(slices.Clip(good), ""),
		"an account twice": append(with(accounts, 2)[:account], append([]any{"a"}, good[account:]...)...),
	}
	for _, n := range [][4]byte{{0, 0, 0, 1}, {0, 2, 0, 1}, {1, 1, 0, 1}, {255, 255, 0, 1}, {0, 1, 0, 0}, {0, 1, 0, 2}, {0, 1, 1, 1}, {0, 1, 255, 255}} {
		shapes[fmt.Sprintf("numbers %v", n)] = with(rows, numbers(n[0], n[1], n[2], n[3]))
	}
	for _, count := range []string{"", "0", "2", "3", "-1", "1.0", "1e0", "0x1", " 1", "1 ", "one", "nan", "inf", strings.Repeat("9", 400)} {
		shapes["accounts "+count] = with(accounts, count)
	}
	return shapes
}

func TestMalformedArgumentsChangeNothingEvenPastGo(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	b.apply(as("h", b.hold("a", "9", 0)))
	invalid := func(what string, header []any, rows ...[]any) {
		b.untouched(what, func() {
			if reply, err := b.rawCall(header, rows...); !redis.HasErrorPrefix(err, "INVALID_ARGUMENT") {
				t.Fatalf("%s: answered %v %v", what, reply, err) // the rest would meet another head
			}
		})
	}
	for what, row := range malformedRows() {
		invalid(what, b.rawHeader(), row)
	}
	good := packed(b.rawHeader(), raw("credit", "", "USD/2"))
	for what, args := range malformedShapes(good) {
		b.untouched(what, func() {
			if reply, err := b.rawRun(args); !redis.HasErrorPrefix(err, "INVALID_ARGUMENT") {
				t.Fatalf("%s: answered %v %v", what, reply, err)
			}
		})
	}
	for at, name := range map[int]string{3: "now", 4: "window", 5: "asked"} {
		for _, clock := range []string{"", "-1", "now", "1.5", "1e3", " 1", "1\n"} {
			header := b.rawHeader()
			header[at] = clock
			invalid(name+" "+clock, header)
		}
	}
	for _, chain := range []string{"", "-", strings.Repeat("0", 39), strings.Repeat("0", 41), strings.Repeat("0", 80), strings.Repeat("g", 40), strings.Repeat("0", 39) + "g", strings.Repeat("0", 39) + "\n", strings.Repeat("A", 40), " " + strings.Repeat("0", 39), "0x" + strings.Repeat("0", 38)} {
		header := b.rawHeader()
		header[2] = chain
		invalid("chain "+chain, header)
	}
	if reply, err := b.rawCall(b.rawHeader(), raw("debit", "", "USD/2")); err != nil || reply[0] != decidedWord { // what all of them were without their faults
		t.Errorf("a good call: %v %v", reply, err)
	}
}

// What limits would have refused is no amount that a row could have.
func TestADebitOrCreditOfNoAmountChangesNothing(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	for _, amount := range append(slices.Clip(hostileAmounts), "0", "-1", "-5", most+"9", "1000000000000000000", strings.Repeat("9", 400)) {
		for _, c := range list(b.debit("a", amount), b.credit("a", amount)) {
			b.untouched(amount, func() {
				if r := b.store.Apply(t.Context(), b.call(c)); !redis.HasErrorPrefix(errors.Unwrap(r.Err), "INVALID_ARGUMENT") {
					t.Errorf("%s of %q: %+v", c.GetOperation(), amount, r)
				}
			})
		}
	}
}

// Go lets no number of more than 18 digits through. If it did, the account would refuse it.
func TestNumbersBeyond18DigitsAreRefusedEvenPastGo(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	b.apply(as("h", b.hold("a", "9", 0)))
	for _, digits := range []string{"1000000000000000000", "9223372036854775808", "18446744073709551616", strings.Repeat("9", 400)} {
		for operation, terms := range map[string]string{
			"adjust": "?", "adjust down": "-?", "open": "-?", "open with a ceiling": "0:?", "hold": "x1\t?\t-\t", "capture": "h\t?", "release": "h\t?", "reverse": "c2\t?\t1",
			"set_limits": "-?\t-", "set_limits with a ceiling": "-\t?",
		} {
			verb, _, _ := strings.Cut(operation, " ")
			row := raw(verb, strings.Replace(terms, "?", digits, 1), "USD/2")
			row[0] = b.id()
			if verb == "open" {
				row[1] = "new"
			}
			before, holds := b.record("a"), b.rdb.HGet(t.Context(), HoldsKey(b.shard), "h").Val()
			header := b.rawHeader()
			reply, err := b.rawRun(packed(header, row))
			if err != nil || reply[0] != decidedWord || strings.Contains(fmt.Sprint(reply[3:]), " applied ") {
				t.Fatalf("%s %.30s: answered %v %v", operation, digits, reply, err)
			}
			if after := b.record("a"); after != before || b.record("new") != "" || b.rdb.HGet(t.Context(), HoldsKey(b.shard), "h").Val() != holds {
				t.Errorf("%s %.30s: %q became %q, the hold %q", operation, digits, before, after, holds)
			}
			b.head, err = parseHead(reply[1].(string), reply[2].(string)) //nolint:forcetypeassert // a script's words
			b.ok(err)
		}
	}
}
