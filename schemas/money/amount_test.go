package money_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotledger/hotledger/schemas/money"
)

var usd = money.Unit{Code: "USD", Exponent: 2}

var customUnit = rapid.Custom(func(t *rapid.T) money.Unit {
	return money.Unit{
		Code:     "U" + rapid.StringMatching(`[A-Z0-9_]{3,15}`).Draw(t, "code"), // four and more: never an ISO code
		Exponent: rapid.IntRange(0, money.ExponentMax).Draw(t, "exponent"),
	}
})

// amounts draws from the whole range, with the edges (0, 2^53, 10^18-1) more often than chance would.
var amounts = rapid.OneOf(
	rapid.Int64Range(-money.Max, money.Max),
	rapid.Int64Range(-1000, 1000),
	rapid.Int64Range(money.Max-1000, money.Max),
	rapid.Int64Range(-money.Max, -money.Max+1000),
	rapid.Int64Range(1<<53-1000, 1<<53+1000),
)

// hostile is what no reader of amounts may take, in either form.
var hostile = []string{
	"", " ", "-", "+", ".", "-.", "nan", "NaN", "inf", "-inf", "Infinity", "0x10", "0b1", "1e3", "1E3", "1e-3", " 5", "5 ", "\t5", "5\n", "+5", "05", "00", "-05",
	"-0", "--5", "- 5", "5-", "(5)", "1,000", "1_000", "1 000", "1'000", "٥", "９", "५", "−5", "5.", ".5", "1.2.3", "1..2", "$5", "5USD", "five", "\x005", "5\x00", "null", "1/2",
}

func TestMinorUnitsAreReadAndWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := amounts.Draw(t, "amount")
		s := money.FormatMinor(v)
		if want := big.NewInt(v).String(); s != want {
			t.Fatalf("FormatMinor(%d) = %q, want %q", v, s, want)
		}
		if back, err := money.ParseMinor(s); err != nil || back != v {
			t.Fatalf("ParseMinor(%q) = %d, %v", s, back, err)
		}
	})
}

func TestMajorUnitsAreReadAndWrittenExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v, unit := amounts.Draw(t, "amount"), customUnit.Draw(t, "unit")
		s := money.FormatMajor(v, unit)
		if got := minorByBig(t, s, unit); got.Cmp(big.NewInt(v)) != 0 {
			t.Fatalf("FormatMajor(%d, %s) = %q, which is %s minor units", v, unit, s, got)
		}
		if back, err := money.ParseMajor(s, unit); err != nil || back != v {
			t.Fatalf("ParseMajor(%q, %s) = %d, %v; want %d", s, unit, back, err, v)
		}
		if _, decimals, _ := strings.Cut(s, "."); len(decimals) != unit.Exponent {
			t.Fatalf("FormatMajor(%d, %s) = %q: not all decimals", v, unit, s)
		}
	})
}

// Whatever ParseMajor takes, math/big takes as the same number; whatever it refuses is malformed, finer than the unit, or too large.
func TestMajorUnitsAgreeWithExactArithmetic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,19})?`).Draw(t, "s")
		unit := customUnit.Draw(t, "unit")
		v, err := money.ParseMajor(s, unit)
		want := minorByBig(t, s, unit)
		_, decimals, _ := strings.Cut(s, ".")
		switch {
		case len(decimals) > unit.Exponent, strings.HasPrefix(s, "-") && want != nil && want.Sign() == 0:
			if err == nil {
				t.Fatalf("ParseMajor(%q, %s) = %d, want an error", s, unit, v)
			}
		case want.CmpAbs(big.NewInt(money.Max)) > 0:
			if !errors.Is(err, money.ErrTooLarge) {
				t.Fatalf("ParseMajor(%q, %s) = %d, %v; want ErrTooLarge", s, unit, v, err)
			}
		case err != nil || big.NewInt(v).Cmp(want) != 0:
			t.Fatalf("ParseMajor(%q, %s) = %d, %v; want %s", s, unit, v, err, want)
		}
	})
}

// minorByBig is the independent way: a rational number times ten to the exponent. nil if that is no whole number.
func minorByBig(t *rapid.T, s string, unit money.Unit) *big.Int {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number", s)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(unit.Exponent)), nil)
	r.Mul(r, new(big.Rat).SetInt(scale))
	if !r.IsInt() {
		return nil
	}
	return r.Num()
}

func TestAmountsAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	jpy, points := money.Unit{Code: "JPY"}, money.Unit{Code: "ETH", Exponent: 18}
	for _, c := range []struct {
		s    string
		unit money.Unit
		want int64
	}{
		{"12.50", usd, 1250},
		{"12.5", usd, 1250},
		{"12", usd, 1200},
		{"0", usd, 0},
		{"0.00", usd, 0},
		{"0.01", usd, 1},
		{"-0.01", usd, -1},
		{"-12.50", usd, -1250},
		{"9999999999999999.99", usd, money.Max},
		{"-9999999999999999.99", usd, -money.Max},
		{"500", jpy, 500},
		{"0.000000000000000001", points, 1},
		{"0.999999999999999999", points, money.Max},
	} {
		if got, err := money.ParseMajor(c.s, c.unit); err != nil || got != c.want {
			t.Errorf("ParseMajor(%q, %s) = %d, %v; want %d", c.s, c.unit, got, err, c.want)
		}
	}
}

func TestHostileAmountsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range append(hostile, strings.Repeat("9", 1<<16)) {
		if v, err := money.ParseMinor(s); err == nil {
			t.Errorf("ParseMinor(%.20q) = %d, want an error", s, v)
		}
		v, err := money.ParseMajor(s, usd)
		if err == nil {
			t.Errorf("ParseMajor(%.20q) = %d, want an error", s, v)
		} else if len(err.Error()) > 300 {
			t.Errorf("ParseMajor(%.20q): an error of %d bytes", s, len(err.Error()))
		}
	}
	for _, s := range []string{"1.0", "1.5", "-1.0"} {
		if v, err := money.ParseMinor(s); err == nil {
			t.Errorf("ParseMinor(%q) = %d, want an error", s, v)
		}
	}
	for _, s := range []string{"1.005", "1.000", "0.001", "-0.00", "-0.0"} {
		if v, err := money.ParseMajor(s, usd); err == nil {
			t.Errorf("ParseMajor(%q, USD) = %d, want an error", s, v)
		}
	}
	for _, s := range []string{"10.00", "10.0", "1.5"} {
		if v, err := money.ParseMajor(s, money.Unit{Code: "JPY"}); err == nil {
			t.Errorf("ParseMajor(%q, JPY) = %d, want an error", s, v)
		}
	}
	if _, err := money.ParseMajor("1", money.Unit{}); err == nil {
		t.Error("ParseMajor without a unit: want an error")
	}
}

func TestMoreThan18DigitsIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"1000000000000000000", "-1000000000000000000", "9223372036854775807", "9223372036854775808", "99999999999999999999999"} {
		if v, err := money.ParseMinor(s); !errors.Is(err, money.ErrTooLarge) {
			t.Errorf("ParseMinor(%q) = %d, %v; want ErrTooLarge", s, v, err)
		}
	}
	for _, s := range []string{"10000000000000000", "10000000000000000.00", "-10000000000000000"} {
		if v, err := money.ParseMajor(s, usd); !errors.Is(err, money.ErrTooLarge) {
			t.Errorf("ParseMajor(%q, USD) = %d, %v; want ErrTooLarge", s, v, err)
		}
	}
}

func TestAnyInt64IsWritten(t *testing.T) {
	t.Parallel()
	const lowest, highest = -1 << 63, 1<<63 - 1
	if got := money.FormatMajor(lowest, usd); got != "-92233720368547758.08" {
		t.Errorf("lowest: %s", got)
	}
	if got := money.FormatMajor(highest, money.Unit{Code: "ETH", Exponent: 18}); got != "9.223372036854775807" {
		t.Errorf("highest: %s", got)
	}
}

func FuzzParseMajorTakesOnlyWhatItWritesOrShorter(f *testing.F) {
	for _, s := range append(hostile, "12.50", "-0.01", "9999999999999999.99") {
		f.Add(s, len(s)%(money.ExponentMax+1))
	}
	f.Fuzz(func(t *testing.T, s string, exponent int) {
		if exponent < 0 || exponent > money.ExponentMax {
			return
		}
		unit := money.Unit{Code: "UNIT", Exponent: exponent}
		v, err := money.ParseMajor(s, unit)
		if err == nil && !strings.HasPrefix(money.FormatMajor(v, unit), s) {
			t.Errorf("ParseMajor(%q) = %d, which is written %q", s, v, money.FormatMajor(v, unit))
		}
	})
}
