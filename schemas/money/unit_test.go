package money_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/hotledger/hotledger/schemas/money"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnitsAreRead(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"USD": "USD/2", "USD/2": "USD/2", "EUR": "EUR/2", "JPY": "JPY/0", "KRW": "KRW/0", "KWD": "KWD/3", "BHD": "BHD/3", "CLF": "CLF/4", "UYW": "UYW/4",
		"POINTS/0": "POINTS/0", "BTC/8": "BTC/8", "ETH/18": "ETH/18", "A_1/3": "A_1/3", "ABCDEFGHIJKLMNOP/2": "ABCDEFGHIJKLMNOP/2",
		"XAU/4": "XAU/4", // ISO names no minor unit
		"BGN/2": "BGN/2", // withdrawn, so a custom unit
	} {
		unit, err := money.ParseUnit(s)
		if err != nil || unit.String() != want {
			t.Errorf("ParseUnit(%q) = %q, %v; want %q", s, unit, err, want)
		}
	}
}

func TestBadUnitsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "/", "/2", "usd", "Usd", "US D", " USD", "USD ", "USD/", "USD/3", "USD/02", "USD/-2", "USD/+2", "USD/2/2", "USD/two", "JPY/2",
		"POINTS", "POINTS/19", "POINTS/00", "POINTS/٣", "PÖINTS/0", "ABCDEFGHIJKLMNOPQ/2", "XAU", "XXX", "BGN", "nan", "USD\x00", "{USD}", strings.Repeat("A", 1<<16),
	} {
		if unit, err := money.ParseUnit(s); err == nil {
			t.Errorf("ParseUnit(%.40q) = %q, want an error", s, unit)
		} else if len(err.Error()) > 200 {
			t.Errorf("ParseUnit(%.40q): an error of %d bytes", s, len(err.Error()))
		}
	}
}

func TestAUnitIsReadBackAsItIsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := customUnit.Draw(t, "unit")
		if back, err := money.ParseUnit(unit.String()); err != nil || back != unit {
			t.Fatalf("ParseUnit(%q) = %+v, %v", unit, back, err)
		}
	})
}

// The second table: every currency whose exponent is not 2, written down apart from the embedded one.
func TestExponentsAreISOs(t *testing.T) {
	t.Parallel()
	exponents := map[string]string{}
	for exponent, codes := range map[string]string{
		"0": "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		"3": "BHD IQD JOD KWD LYD OMR TND",
		"4": "CLF UYW",
		"-": "XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX",
	} {
		for _, code := range strings.Fields(codes) {
			exponents[code] = exponent
		}
	}
	table, err := os.ReadFile("iso4217.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows, last := 0, ""
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		want, ok := exponents[fields[0]]
		if !ok {
			want = "2"
		}
		if fields[2] != want {
			t.Errorf("%s: exponent %s, want %s", fields[0], fields[2], want)
		}
		if fields[0] <= last {
			t.Errorf("%s after %s: not sorted", fields[0], last)
		}
		rows, last = rows+1, fields[0]
		delete(exponents, fields[0])
	}
	if rows != 178 || len(exponents) != 0 {
		t.Errorf("%d codes, want 178; missing %v", rows, exponents)
	}
}
