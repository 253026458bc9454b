package importer_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/producer/importer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

const data = "../../e2e/data/"

const (
	opening = ledgerv1.Operation_OPERATION_OPEN
	debit   = ledgerv1.Operation_OPERATION_DEBIT
	credit  = ledgerv1.Operation_OPERATION_CREDIT
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// read gives the good rows and the errors.
func read(rows importer.Rows) (good []importer.Row, bad []error) {
	for row, err := range rows {
		if err != nil {
			bad = append(bad, err)
		} else {
			good = append(good, row)
		}
	}
	return good, bad
}

func parseOverdrafts(t *testing.T, texts ...string) []importer.Overdraft {
	t.Helper()
	overdrafts := make([]importer.Overdraft, 0, len(texts))
	for _, s := range texts {
		o, err := importer.ParseOverdraft(s)
		if err != nil {
			t.Fatal(err)
		}
		overdrafts = append(overdrafts, o)
	}
	return overdrafts
}

// books are balances in minor units by account, counter accounts included, in the plainest way.
type books map[string]int64

func (b books) apply(t *testing.T, cmd *ledgerv1.Command) {
	t.Helper()
	if cmd.GetOperation() == opening {
		return
	}
	v, err := money.ParseMinor(cmd.GetAmount())
	if err != nil {
		t.Fatal(err)
	}
	if cmd.GetOperation() == debit {
		v = -v
	}
	counter := cmd.GetCounterAccount()
	if counter == "" {
		counter = "@world"
	}
	b[cmd.GetAccount()] += v
	b[counter] -= v
}

func TestHouseholdGivesTheBalancesThatHledgerGives(t *testing.T) {
	t.Parallel()
	// The file is a household's books account by account, not day by day: in its order the salary comes after the rent.
	floors := map[string]int64{"Liabilities:": -100_000_000, "Assets:US:BofA:": -15_000_000}
	overdrafts := parseOverdrafts(t, "Liabilities:=-1000000.00", "Assets:US:BofA:=-150000.00")
	rows, bad := read(importer.OpenAccounts(importer.ReadHousehold(open(t, data+"household.csv"), importer.Options{}), overdrafts))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	b := books{}
	var debits, credits, legs, opens int
	ids := map[string]bool{}
	opened := map[string]string{}
	for _, row := range rows {
		cmd := row.Command
		if ids[cmd.GetCommandId()] {
			t.Errorf("id %q twice", cmd.GetCommandId())
		}
		ids[cmd.GetCommandId()] = true
		if cmd.GetOperation() != opening {
			if _, ok := opened[cmd.GetAccount()]; !ok {
				t.Errorf("%s is used before it is opened", cmd.GetAccount())
			}
			if cmd.GetEffectiveTime() == nil {
				t.Errorf("%q has no effective time", cmd.GetCommandId())
			}
		}
		switch {
		case cmd.GetOperation() == opening:
			opens++
			opened[cmd.GetAccount()] = cmd.GetOpen().GetFloor()
		case cmd.GetCounterAccount() == "@transit":
			legs++
		case cmd.GetOperation() == debit:
			debits++
		case cmd.GetOperation() == credit:
			credits++
		}
		b.apply(t, cmd)
		floor := int64(0)
		for prefix, negative := range floors {
			if strings.HasPrefix(cmd.GetAccount(), prefix) {
				floor = negative
			}
		}
		if b[cmd.GetAccount()] < floor {
			t.Errorf("%s falls below its floor at line %d", cmd.GetAccount(), row.Line)
		}
	}
	if debits != 723 || credits != 179 || legs != 2*48 || opens != 5 {
		t.Errorf("%d debits, %d credits, %d halves of transfers, %d openings", debits, credits, legs, opens)
	}
	var total int64
	for account, want := range map[string]int64{
		"Assets:US:BofA:Checking": 304323, "Assets:US:ETrade:Cash": 3442206, "Assets:US:Vanguard:Cash": 7950000,
		"Liabilities:US:Chase:Slate": -294156, "Liabilities:AccountsPayable": 0, "@transit": 0,
	} {
		if b[account] != want {
			t.Errorf("%s: %d, want %d", account, b[account], want)
		}
		total += b[account]
	}
	if total != 11402373 {
		t.Errorf("in all %d", total)
	}
	if opened["Liabilities:US:Chase:Slate"] != "-100000000" || opened["Assets:US:ETrade:Cash"] != "" {
		t.Errorf("floors %v", opened)
	}
}

const header = "command_id,date,op,account,counter_account,amount,currency\n"

func TestTransferIsADebitAndACreditThatWaitsForIt(t *testing.T) {
	t.Parallel()
	rows, bad := read(importer.ReadHousehold(strings.NewReader(header+"t-1,2013-08-16,transfer,alice,bob,30.5,USD\n"), importer.Options{}))
	if len(bad) > 0 || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, bad)
	}
	out, in := rows[0], rows[1]
	if out.Command.GetCommandId() != "t-1:out" || out.Command.GetOperation() != debit || out.Command.GetAccount() != "alice" ||
		out.Command.GetAmount() != "3050" || out.Command.GetCounterAccount() != "@transit" || out.After != "" {
		t.Errorf("out %v", out)
	}
	if in.Command.GetCommandId() != "t-1:in" || in.Command.GetOperation() != credit || in.Command.GetAccount() != "bob" ||
		in.Command.GetAmount() != "3050" || in.Command.GetCounterAccount() != "@transit" || in.After != "t-1:out" {
		t.Errorf("in %v", in)
	}
}

func TestBadLinesAreReportedAndGoodOnesGoOn(t *testing.T) {
	t.Parallel()
	line := func(id, op, account, counter, amount, currency string) string {
		return strings.Join([]string{id, "2013-01-01", op, account, counter, amount, currency}, ",")
	}
	amount := func(s string) string { return line("x", "debit", "alice", "", s, "USD") }
	const unreadable = ledgerv1.Reason_REASON_UNSPECIFIED
	for name, test := range map[string]struct {
		line string
		want ledgerv1.Reason
	}{
		"nan":                  {amount("nan"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"inf":                  {amount("inf"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"1e3":                  {amount("1e3"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"0x10":                 {amount("0x10"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"-1":                   {amount("-1"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"+1":                   {amount("+1"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"0":                    {amount("0"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"0.00":                 {amount("0.00"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"1.005":                {amount("1.005"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"thousands":            {amount(`"1,000.00"`), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"blank":                {amount(" 1"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"empty":                {amount(""), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"other digits":         {amount("١"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"yen with decimals":    {line("x", "debit", "alice", "", "1.5", "JPY"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"19 digits":            {amount("1000000000000000000"), ledgerv1.Reason_REASON_LIMIT_EXCEEDED},
		"19 with decimals":     {amount("12345678901234567.89"), ledgerv1.Reason_REASON_LIMIT_EXCEEDED},
		"unknown currency":     {line("x", "debit", "alice", "", "1", "XYZ"), ledgerv1.Reason_REASON_INVALID_CURRENCY},
		"small currency":       {line("x", "debit", "alice", "", "1", "usd"), ledgerv1.Reason_REASON_INVALID_CURRENCY},
		"no currency":          {line("x", "debit", "alice", "", "1", ""), ledgerv1.Reason_REASON_INVALID_CURRENCY},
		"empty id":             {line("", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"huge id":              {line(strings.Repeat("x", 129), "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"huge id of a part":    {line(strings.Repeat("x", 126), "transfer", "alice", "bob", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"control id":           {line("a\x07b", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"NUL id":               {line("a\x00b", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"id that is no UTF-8":  {line("a\xff", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"empty account":        {line("x", "debit", "", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		"external account":     {line("x", "debit", "@alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		"account with itself":  {line("x", "debit", "alice", "alice", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		"transfer to external": {line("x", "transfer", "alice", "@bob", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		"transfer to nobody":   {line("x", "transfer", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		"unknown op":           {line("x", "steal", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_OPERATION},
		"floor above zero":     {line("x", "open", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_FLOOR},
		"floor of a float":     {line("x", "open", "alice", "", "-1e3", "USD"), ledgerv1.Reason_REASON_INVALID_FLOOR},
		"day that is none":     {"x,2013-02-30,debit,alice,,1,USD", ledgerv1.Reason_REASON_INVALID_TIME},
		"other kind of day":    {"x,31.01.2013,debit,alice,,1,USD", ledgerv1.Reason_REASON_INVALID_TIME},
		"year out of range":    {"x,0001-01-01,debit,alice,,1,USD", ledgerv1.Reason_REASON_INVALID_TIME},
		"a column too few":     {"x,2013-01-01,debit,alice,,1", unreadable},
		"a column too many":    {"x,2013-01-01,debit,alice,,1,USD,", unreadable},
		"decimal comma":        {"x,2013-01-01,debit,alice,,1,50,USD", unreadable},
		"open quote":           {`x,2013-01-01,debit,"alice,,1,USD`, unreadable},
		"quote within":         {`x,2013-01-01,debit,al"ice,,1,USD`, unreadable},
		"carriage return":      {"x,2013-01-01,debit,ali\rce,,1,USD", unreadable},
		"semicolons":           {"x;2013-01-01;debit;alice;;1;USD", unreadable},
		"endless line":         {strings.Repeat("x", 100_000), unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, bad := read(importer.ReadHousehold(strings.NewReader(header+test.line+"\ngood,2013-01-01,debit,alice,@world,1.00,USD\n"), importer.Options{File: "f.csv"}))
			var line *importer.LineError
			if len(bad) != 1 || !errors.As(bad[0], &line) {
				t.Fatalf("rows %v, bad %v", rows, bad)
			}
			if line.Line != 2 || line.Reason != test.want || line.Text == "" || !strings.HasPrefix(line.Error(), "f.csv:2: ") {
				t.Errorf("got %v", line)
			}
			if len(rows) != 1 || rows[0].Command.GetCommandId() != "good" || rows[0].Line != 3 {
				t.Errorf("rows %v", rows)
			}
		})
	}
}

func TestFormsOfTheSameFile(t *testing.T) {
	t.Parallel()
	const line = "x,2013-01-01,debit,alice,,1,USD"
	for name, text := range map[string]string{
		"LF":              header + line + "\n",
		"no end of line":  header + line,
		"CRLF":            strings.ReplaceAll(header+line+"\n", "\n", "\r\n"),
		"byte order mark": "\xef\xbb\xbf" + header + line + "\n",
		"empty lines":     header + "\n\r\n" + line + "\n\n",
		"quotes":          header + `"x","2013-01-01","debit","alice","","1","USD"` + "\n",
		"other order":     "date,command_id,op,account,counter_account,currency,amount\n2013-01-01,x,debit,alice,,USD,1\n",
	} {
		rows, bad := read(importer.ReadHousehold(strings.NewReader(text), importer.Options{}))
		if len(bad) > 0 || len(rows) != 1 || rows[0].Command.GetCommandId() != "x" || rows[0].Command.GetAmount() != "100" {
			t.Errorf("%s: %v, %v", name, rows, bad)
		}
	}
}

func TestFileThatIsNoneIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":           "",
		"UTF-16":          "\xff\xfec\x00o\x00",
		"no header":       "x,2013-01-01,debit,alice,,1,USD\n",
		"a column less":   "command_id,date,op,account,counter_account,amount\n",
		"a column more":   "command_id,date,op,account,counter_account,amount,currency,floor\n",
		"a column twice":  "command_id,command_id,op,account,counter_account,amount,currency\n",
		"semicolons":      strings.ReplaceAll(header, ",", ";"),
		"lines end in CR": strings.ReplaceAll(header+"x,2013-01-01,debit,alice,,1,USD\n", "\n", "\r"),
	} {
		rows, bad := read(importer.ReadHousehold(strings.NewReader(text), importer.Options{File: "f.csv"}))
		var line *importer.LineError
		if len(rows) > 0 || len(bad) != 1 || errors.As(bad[0], &line) || !strings.Contains(bad[0].Error(), "f.csv") {
			t.Errorf("%s: %v, %v", name, rows, bad)
		}
	}
}

func TestLongestPrefixGivesTheFloor(t *testing.T) {
	t.Parallel()
	overdrafts := parseOverdrafts(t, "a=-5", "a:b=-7.25", "x=0")
	text := header
	for _, account := range []string{"a", "a:b:c", "b", "x", "a:b:c"} {
		text += "id,2013-01-01,credit," + account + ",,1,USD\n"
	}
	text += "id,2013-01-01,open,a:own,,-1,USD\nid,2013-01-01,open,a:,,,USD\n"
	rows, bad := read(importer.OpenAccounts(importer.ReadHousehold(strings.NewReader(text), importer.Options{}), overdrafts))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	var got []string
	for _, row := range rows {
		if row.Command.GetOperation() == opening {
			got = append(got, row.Command.GetCommandId()+" "+row.Command.GetOpen().GetFloor())
		}
	}
	if want := []string{"open:a -500", "open:a:b:c -725", "open:b ", "open:x 0", "id -100", "id -500"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, s := range []string{"", "a", "=-1", "a=", "a=1", "a=nan", "a=-1e3", "a=--1"} {
		if o, err := importer.ParseOverdraft(s); err == nil {
			t.Errorf("%q: %v", s, o)
		}
	}
}
