package importer_test

import (
	"strings"
	"testing"

	"github.com/hotledger/hotledger/producer/importer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

func TestEveryStatementEndsAtTheBanksOwnClosingBalance(t *testing.T) {
	t.Parallel()
	overdraft, err := importer.ParseOverdraft("bank-=-10000000")
	if err != nil {
		t.Fatal(err)
	}
	options := importer.Options{Units: map[string]string{"DEM": "DEM/2"}}
	rows, bad := read(importer.OpenAccounts(
		importer.ReadStatements(open(t, data+"statements.csv"), open(t, data+"entries.csv"), options), []importer.Overdraft{overdraft}))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	b := books{}
	ids := map[string]bool{}
	var opens, brought, entries, closings int
	floor := int64(0)
	for _, row := range rows {
		cmd := row.Command
		if ids[cmd.GetCommandId()] {
			t.Errorf("id %q twice", cmd.GetCommandId())
		}
		ids[cmd.GetCommandId()] = true
		b.apply(t, cmd)
		floor = min(floor, b[cmd.GetAccount()])
		switch {
		case cmd.GetOperation() == opening:
			opens++
		case cmd.GetCounterAccount() != "":
			brought++
		default:
			entries++
		}
		if row.Expect != "" {
			closings++
			if got := money.FormatMinor(b[cmd.GetAccount()]); got != row.Expect {
				t.Errorf("%s after %q: %s, the bank says %s", cmd.GetAccount(), cmd.GetCommandId(), got, row.Expect)
			}
		}
	}
	// 34 accounts, one of them in two currencies; 33 first statements that do not open at zero, and 4 that overlap others.
	if opens != 35 || entries != 156 || closings != 53 {
		t.Errorf("%d openings, %d entries, %d closing balances", opens, entries, closings)
	}
	if want := openingsAndGaps(t); brought != want {
		t.Errorf("%d opening balances and gaps, want %d", brought, want)
	}
	if floor < -1_000_000_000 {
		t.Errorf("an account falls to %d, below the overdraft", floor)
	}
	// The last statement of each account says where it stands.
	for account, want := range map[string]int64{"bank-01:EUR": 40481, "bank-28:CHF": 22920, "bank-24:DEM": 8443704, "bank-34:EUR": 119400, "bank-33:HUF": 61787430} {
		if b[account] != want {
			t.Errorf("%s: %d, want %d", account, b[account], want)
		}
	}
}

// openingsAndGaps counts, from the file alone, the statements that do not open where their account stands.
func openingsAndGaps(t *testing.T) int {
	t.Helper()
	var text strings.Builder
	if _, err := open(t, data+"statements.csv").WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	n := 0
	standing := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(text.String()), "\n")[1:] {
		f := strings.Split(line, ",")
		account := f[1] + f[2]
		before, known := standing[account]
		if known && before != f[3] || !known && f[3] != "0" {
			n++
		}
		standing[account] = f[4]
	}
	return n
}

func TestThirtiethOfFebruaryIsTheLastOfTheMonth(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{"2016-02-30": "2016-02-29", "2015-02-29": "2015-02-28", "2016-02-29": "2016-02-29"} {
		rows, bad := read(importer.ReadStatements(
			strings.NewReader(statementsHeader+"1,b,EUR,0,1,1\n"), strings.NewReader(entriesHeader+"1,1,"+written+",credit,1\n"), importer.Options{}))
		if len(bad) > 0 || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, bad)
		}
		cmd := rows[0].Command
		if got := cmd.GetEffectiveTime().AsTime().Format("2006-01-02"); got != want {
			t.Errorf("%s became %s", written, got)
		}
		if kept := cmd.GetMetadata()["statement_date"]; (written != want) != (kept == written) {
			t.Errorf("%s is kept as %q", written, kept)
		}
	}
	for _, written := range []string{"2016-02-31", "2016-04-31", "x-02-30", "2016-13-01"} {
		if _, bad := read(importer.ReadStatements(
			strings.NewReader(statementsHeader+"1,b,EUR,0,1,1\n"), strings.NewReader(entriesHeader+"1,1,"+written+",credit,1\n"), importer.Options{})); len(bad) == 0 {
			t.Errorf("%s is taken", written)
		}
	}
}

const (
	statementsHeader = "statement,account,currency,opening_balance,closing_balance,entries\n"
	entriesHeader    = "statement,line,date,direction,amount\n"
)

func TestStatementGoesInAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statement string // 1, of the account "a"
		entries   string
		bad       int // with the one for the statement after it
	}{
		"bad entry":         {"1,a,EUR,0,3,2", "1,1,2020-01-01,credit,1\n1,2,2020-01-01,credit,nan\n", 3},
		"bad direction":     {"1,a,EUR,0,1,1", "1,1,2020-01-01,sideways,1\n", 3},
		"does not add up":   {"1,a,EUR,0,3,1", "1,1,2020-01-01,credit,1\n", 2},
		"entry missing":     {"1,a,EUR,0,1,2", "1,1,2020-01-01,credit,1\n", 2},
		"opening of a word": {"1,a,EUR,much,1,1", "1,1,2020-01-01,credit,1\n", 3},
		"too precise":       {"1,a,EUR,0,1.005,1", "1,1,2020-01-01,credit,1\n", 3},
		"19 digits":         {"1,a,EUR,9999999999999999.99,10000000000000000.00,1", "1,1,2020-01-01,credit,0.01\n", 3},
		"beyond 18 digits":  {"1,a,EUR,9999999999999999.99,9999999999999999.99,2", "1,1,2020-01-01,credit,0.01\n1,2,2020-01-01,debit,0.01\n", 2},
		"control in the id": {"1,a,EUR,0,1,1", "1,\x07,2020-01-01,credit,1\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statements := statementsHeader + test.statement + "\n2,a,EUR,1,2,1\n3,b,EUR,5,6,1\n"
			entries := entriesHeader + test.entries + "2,1,2020-01-02,credit,1\n3,1,2020-01-03,credit,1\n"
			rows, bad := read(importer.ReadStatements(strings.NewReader(statements), strings.NewReader(entries), importer.Options{}))
			if len(bad) != test.bad {
				t.Errorf("bad %v", bad)
			}
			if len(rows) != 2 || rows[0].Command.GetCommandId() != "opening:b:EUR" || rows[1].Command.GetCommandId() != "statement:3:1" {
				t.Errorf("rows %v", rows)
			}
		})
	}
}

func TestStatementsThatDoNotFollowOnGetTheDifference(t *testing.T) {
	t.Parallel()
	statements := statementsHeader + "1,a,EUR,-10,-9,1\n2,a,EUR,-9,-8,1\n3,a,EUR,0,1,1\n4,a,EUR,0,0,0\n"
	entries := entriesHeader + "1,1,2020-01-01,credit,1\n2,1,2020-01-02,credit,1\n3,1,2020-01-03,credit,1\n9,1,2020-01-03,credit,1\n"
	rows, bad := read(importer.ReadStatements(strings.NewReader(statements), strings.NewReader(entries), importer.Options{IDPrefix: "s:"}))
	if len(bad) != 1 || !strings.Contains(bad[0].Error(), `statement "9" is not in`) {
		t.Errorf("bad %v", bad)
	}
	want := []struct {
		id        string
		operation ledgerv1.Operation
		amount    string
		counter   string
		expect    string
	}{
		{"opening:a:EUR", debit, "1000", "@opening-balance", ""},
		{"s:1:1", credit, "100", "", "-900"},
		{"s:2:1", credit, "100", "", "-800"},
		{"s:3:opening", credit, "800", "@statement-gap", ""},
		{"s:3:1", credit, "100", "", "100"},
		{"s:4:opening", debit, "100", "@statement-gap", "0"},
	}
	if len(rows) != len(want) {
		t.Fatalf("rows %v", rows)
	}
	for i, w := range want {
		cmd := rows[i].Command
		if cmd.GetCommandId() != w.id || cmd.GetOperation() != w.operation || cmd.GetAmount() != w.amount || cmd.GetCounterAccount() != w.counter || rows[i].Expect != w.expect {
			t.Errorf("row %d: %v expects %q, want %v", i, cmd, rows[i].Expect, w)
		}
	}
}
