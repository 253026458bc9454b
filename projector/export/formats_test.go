package export

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
)

// write runs entries through a format.
func write(t *testing.T, format func(*bufio.Writer) file, all ...entry) string {
	t.Helper()
	var text strings.Builder
	buffer := bufio.NewWriter(&text)
	f := format(buffer)
	for i := range all {
		put := f.book
		if all[i].operation == "open" {
			put = f.open
		}
		if err := put(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if err := buffer.Flush(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

var (
	eur    = money.Unit{Code: "EUR", Exponent: 2}
	points = money.Unit{Code: "POINTS", Exponent: 0}
	monday = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	noon   = time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.UTC)
)

var books = []entry{
	{operation: "open", account: "till 1", unit: eur, day: monday},
	{
		operation: "credit", account: "till 1", unit: eur, day: monday, businessDay: monday, bookedAt: noon, effectiveAt: noon, transactionID: "t1", commandID: "@credit/t1", shard: 2, position: 7,
		reference: "=1+1", description: "a \"b\" \\ ;c|d\n)", delta: 1250, after: 1250, others: []posting{{"@transit", -1250}},
	},
	{
		operation: "debit", account: "till 1", unit: eur, day: monday.AddDate(0, 0, 1), businessDay: monday, bookedAt: noon, effectiveAt: noon, transactionID: "g", commandID: "g", shard: 2, position: 8,
		delta: -300, after: 950, others: []posting{{"@ann", 299}, {"@tax", 1}},
	},
	{operation: "credit", account: "bonus", unit: points, day: monday, businessDay: monday, bookedAt: noon, effectiveAt: noon, transactionID: "p", commandID: "p", delta: 5, after: 5, others: []posting{{"@world", -5}}},
}

func TestHledger(t *testing.T) {
	t.Parallel()
	want := `; The books of a Hotledger. Each entry asserts (=) the balance that the ledger stated after it.
decimal-mark .

commodity 0.00 EUR
account Assets:Ledger:Xtill-201
account Equity:World:Xtransit
2026-11-30 * (@credit/t1) credit =1+1 a "b" \ %3Bc%7Cd %29
    Assets:Ledger:Xtill-201   12.50 EUR = 12.50 EUR
    Equity:World:Xtransit   -12.50 EUR

account Equity:World:Xann
account Equity:World:Xtax
2026-12-01 * (g) debit
    Assets:Ledger:Xtill-201   -3.00 EUR = 9.50 EUR
    Equity:World:Xann   2.99 EUR
    Equity:World:Xtax   0.01 EUR

commodity 0. "POINTS-0"
account Assets:Ledger:Xbonus
account Equity:World:Xworld
2026-11-30 * (p) credit
    Assets:Ledger:Xbonus   5 "POINTS-0" = 5 "POINTS-0"
    Equity:World:Xworld   -5 "POINTS-0"

`
	if got := write(t, newHledger, books...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBeancount(t *testing.T) {
	t.Parallel()
	want := `; The books of a Hotledger. A balance is what the ledger stated at the end of the day before.
option "title" "Hotledger"

1970-01-01 open Assets:Ledger:Xtill-201 EUR
1970-01-01 open Equity:World:Xtransit
2026-11-30 * "credit" "a \"b\" \\ ;c|d )"
  command: "@credit/t1"
  position: "2/7"
  reference: "=1+1"
  Assets:Ledger:Xtill-201  12.50 EUR
  Equity:World:Xtransit  -12.50 EUR

1970-01-01 open Equity:World:Xann
1970-01-01 open Equity:World:Xtax
2026-12-01 balance Assets:Ledger:Xtill-201  12.50 ~ 0 EUR
2026-12-01 * "debit" ""
  command: "g"
  position: "2/8"
  Assets:Ledger:Xtill-201  -3.00 EUR
  Equity:World:Xann  2.99 EUR
  Equity:World:Xtax  0.01 EUR

1970-01-01 open Assets:Ledger:Xbonus POINTS-0
1970-01-01 open Equity:World:Xworld
2026-11-30 * "credit" ""
  command: "p"
  position: "0/0"
  Assets:Ledger:Xbonus  5 POINTS-0
  Equity:World:Xworld  -5 POINTS-0

2026-12-01 balance Assets:Ledger:Xbonus  5 ~ 0 POINTS-0
2026-12-02 balance Assets:Ledger:Xtill-201  9.50 ~ 0 EUR
`
	if got := write(t, newBeancount, books...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCSVNeverRunsAFormulaAndNeverAltersANumber(t *testing.T) {
	t.Parallel()
	text := write(t, newCSV, books...)
	if !strings.HasPrefix(text, strings.Join(lineColumns, ",")+"\r\n") {
		t.Errorf("header of %.80q", text)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 9 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	want := "till 1|'@transit|credit|1250|12.50|EUR|2|2026-11-30T12:00:00.005Z|2026-11-30T12:00:00.005Z|2026-11-30|t1|'@credit/t1|1|credit|'=1+1|a \"b\" \\ ;c|d\n)|2|7"
	if got := strings.Join(rows[1], "|"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := strings.Join(rows[2][:5], "|"); got != "'@transit|till 1|debit|-1250|-12.50" {
		t.Errorf("the other side: %s", got)
	}
	if got := rows[5][12] + rows[6][12]; got != "22" {
		t.Errorf("the second leg is called %s", got)
	}
	for text, want := range map[string]string{
		"": "", "plain": "plain", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "\t=1": "'\t=1", " =1": "' =1", "\r\n-1": "'\r\n-1", "＝1": "'＝1", "'x": "''x", "a=1": "a=1", "\u00a0@x": "'\u00a0@x", " a": "' a",
	} {
		if got := cell(text); got != want {
			t.Errorf("cell(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestNDJSONSaysNumbersAsTexts(t *testing.T) {
	t.Parallel()
	text := write(t, newNDJSON, books...)
	var first map[string]string
	line, _, _ := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatal(err)
	}
	if first["amount_minor"] != "1250" || first["reference"] != "=1+1" || first["account"] != "till 1" || len(first) != len(lineColumns) || strings.Count(text, "\n") != 8 {
		t.Errorf("got %v in\n%s", first, text)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Format: "xlsx"}, {Format: Hledger, From: monday}, {Format: Beancount, To: monday}, {Format: CSV, From: monday, To: monday}} {
		if o.Validate() == nil {
			t.Errorf("%+v: want an error", o)
		}
	}
	for _, o := range []Options{{Format: Hledger}, {Format: Parquet, From: monday, To: monday.AddDate(0, 1, 0)}} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
