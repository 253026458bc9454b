package importer_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/producer/importer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

const data = "../../e2e/data/"

const (
	opening  = ledgerv1.Operation_OPERATION_OPEN
	debit    = ledgerv1.Operation_OPERATION_DEBIT
	credit   = ledgerv1.Operation_OPERATION_CREDIT
	transfer = ledgerv1.Operation_OPERATION_TRANSFER
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
	if cmd.GetOperation() != credit {
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
	rows, bad := read(importer.OpenAccounts(importer.ReadCommands(open(t, data+"household.csv"), importer.Options{}), overdrafts))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	b := books{}
	var debits, credits, transfers, opens int
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
		case cmd.GetOperation() == transfer:
			transfers++
			if _, ok := opened[cmd.GetCounterAccount()]; !ok {
				t.Errorf("%s is transferred to before it is opened", cmd.GetCounterAccount())
			}
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
	if debits != 723 || credits != 179 || transfers != 48 || opens != 5 {
		t.Errorf("%d debits, %d credits, %d transfers, %d openings", debits, credits, transfers, opens)
	}
	var total int64
	for account, want := range map[string]int64{
		"Assets:US:BofA:Checking": 304323, "Assets:US:ETrade:Cash": 3442206, "Assets:US:Vanguard:Cash": 7950000,
		"Liabilities:US:Chase:Slate": -294156, "Liabilities:AccountsPayable": 0,
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

func TestEveryCommandCanBeWrittenAsALine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"command_id,date,op,account,counter_account,amount,currency\nc,2013-08-16,transfer,a,b,30.5,USD": `operation:OPERATION_TRANSFER counter_account:"b"
			amount:"3050" currency:"USD" effective_time:{seconds:1376611200}`,
		"op,command_id,account,currency,floor,ceiling\nopen,c,a,EUR,-5,100":            `operation:OPERATION_OPEN currency:"EUR" open:{floor:"-500" ceiling:"10000"}`,
		"op,command_id,account,currency,floor,ceiling\nset_limits,c,a,,,none":          `operation:OPERATION_SET_LIMITS limits:{ceiling:"none"}`,
		"op,command_id,account,currency,floor,ceiling\nset_limits,c,a,EUR,-1,":         `operation:OPERATION_SET_LIMITS currency:"EUR" limits:{floor:"-100"}`,
		"op,command_id,account,currency,amount,legs\ndebit,c,a,EUR,3,@x=1.50;@y=z=1.5": `operation:OPERATION_DEBIT currency:"EUR" amount:"300" legs:{counter_account:"@x" amount:"150"} legs:{counter_account:"@y=z" amount:"150"}`,
		"op,command_id,account,currency,amount,expires_at\nhold,c,a,EUR,3,2030-01-01T00:00:00Z": `operation:OPERATION_HOLD currency:"EUR" amount:"300"
			hold:{expires_at:{seconds:1893456000}}`,
		"op,command_id,account,hold_id,requested_at\ncapture,c,a,h,2026-01-01":               `operation:OPERATION_CAPTURE hold_id:"h" requested_at:{seconds:1767225600}`,
		"op,command_id,account,hold_id,amount,currency\nrelease,c,a,h,1,EUR":                 `operation:OPERATION_RELEASE hold_id:"h" amount:"100" currency:"EUR"`,
		"op,command_id,account,reverses,allow_overdraft,reference\nreverse,c,a,d,true,r":     `operation:OPERATION_REVERSE reverse:{command_id:"d" allow_overdraft:true} reference:"r"`,
		"op,command_id,account,direction,description\nfreeze,c,a,debit,why":                  `operation:OPERATION_FREEZE direction:DIRECTION_DEBIT description:"why"`,
		"op,command_id,account,direction,expected_sequence\nunfreeze,c,a,both,0":             `operation:OPERATION_UNFREEZE direction:DIRECTION_BOTH expected_sequence:0`,
		"op,command_id,account,deadline\nclose,c,a,2030-01-01T00:00:00Z":                     `operation:OPERATION_CLOSE deadline:{seconds:1893456000}`,
		"op,command_id,account,currency,amount,counter_account\ncredit,c,a,POINTS/0,3,@bank": `operation:OPERATION_CREDIT currency:"POINTS/0" amount:"3" counter_account:"@bank"`,
	} {
		expected := &ledgerv1.Command{}
		if err := prototext.Unmarshal([]byte(`command_id:"c" account:"a" `+want), expected); err != nil {
			t.Fatal(err)
		}
		wire, err := protojson.Marshal(expected)
		if err != nil {
			t.Fatal(err)
		}
		for form, rows := range map[string]importer.Rows{
			"CSV":    importer.ReadCommands(strings.NewReader(text), importer.Options{}),
			"NDJSON": importer.ReadNDJSON(strings.NewReader("\n"+string(wire)+"\n"), importer.Options{}),
		} {
			got, bad := read(rows)
			if len(bad) > 0 || len(got) != 1 || !proto.Equal(got[0].Command, expected) || got[0].Line != 2 {
				t.Errorf("%s %q:\ngot  %v %v\nwant %v", form, text, got, bad, expected)
			}
		}
	}
}

func TestBadCellsAreReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ledgerv1.Reason{
		"op,command_id,account,currency,floor\nopen,c,a,EUR,1":                  ledgerv1.Reason_REASON_INVALID_FLOOR,
		"op,command_id,account,currency,floor\nopen,c,a,EUR,-1e3":               ledgerv1.Reason_REASON_INVALID_FLOOR,
		"op,command_id,account,currency,ceiling\nset_limits,c,a,EUR,-1":         ledgerv1.Reason_REASON_INVALID_CEILING,
		"op,command_id,account,ceiling\nset_limits,c,a,1":                       ledgerv1.Reason_REASON_INVALID_CURRENCY,
		"op,command_id,account,currency,amount,legs\ndebit,c,a,EUR,1,@x":        ledgerv1.Reason_REASON_INVALID_LEGS,
		"op,command_id,account,currency,amount,legs\ndebit,c,a,EUR,1,@x=0.99":   ledgerv1.Reason_REASON_INVALID_LEGS,
		"op,command_id,account,currency,amount,legs\ndebit,c,a,EUR,1,@x=1;":     ledgerv1.Reason_REASON_INVALID_LEGS,
		"op,command_id,account,currency,amount,expires_at\nhold,c,a,EUR,1,soon": ledgerv1.Reason_REASON_INVALID_TIME,
		"op,command_id,account,direction\nfreeze,c,a,up":                        ledgerv1.Reason_REASON_INVALID_DIRECTION,
		"op,command_id,account,direction\nfreeze,c,a,":                          ledgerv1.Reason_REASON_INVALID_DIRECTION,
		"op,command_id,account,hold_id\ncapture,c,a,":                           ledgerv1.Reason_REASON_INVALID_HOLD,
		"op,command_id,account,hold_id\ndebit,c,a,h":                            ledgerv1.Reason_REASON_INVALID_OPERATION,
		"op,command_id,account,reverses\nreverse,c,a,":                          ledgerv1.Reason_REASON_INVALID_REVERSAL,
		"op,command_id,account,reverses,allow_overdraft\nreverse,c,a,d,maybe":   ledgerv1.Reason_REASON_UNSPECIFIED,
		"op,command_id,account,expected_sequence\nclose,c,a,-1":                 ledgerv1.Reason_REASON_UNSPECIFIED,
	} {
		rows, bad := read(importer.ReadCommands(strings.NewReader(text), importer.Options{}))
		var line *importer.LineError
		if len(rows) > 0 || len(bad) != 1 || !errors.As(bad[0], &line) || line.Reason != want || line.Line != 2 || line.Text == "" {
			t.Errorf("%q: %v, %v, want %s", text, rows, bad, want)
		}
	}
}

func TestBadLinesOfJSONAreReportedAndGoodOnesGoOn(t *testing.T) {
	t.Parallel()
	const good = `{"command_id":"good","operation":"OPERATION_CLOSE","account":"a"}`
	for text, want := range map[string]ledgerv1.Reason{
		`{"command_id":`:                    ledgerv1.Reason_REASON_UNSPECIFIED,
		`[]`:                                ledgerv1.Reason_REASON_UNSPECIFIED,
		`{"colour":"red"}`:                  ledgerv1.Reason_REASON_UNSPECIFIED,
		strings.Repeat(" ", 200_000) + good: ledgerv1.Reason_REASON_UNSPECIFIED,
		`{}`:                                ledgerv1.Reason_REASON_INVALID_COMMAND_ID,
		`{"command_id":"c","operation":"OPERATION_REPAIR","account":"a","repair":{"log":{"sequence":1,"balance":"0","held":"0","floor":"0","unit":"USD/2"},` +
			`"generation":"g","run_id":"r","break_id":"b"}}`: ledgerv1.Reason_REASON_INVALID_OPERATION,
	} {
		rows, bad := read(importer.ReadNDJSON(strings.NewReader(text+"\n"+good), importer.Options{}))
		var line *importer.LineError
		if len(bad) != 1 || !errors.As(bad[0], &line) || line.Reason != want || line.Line != 1 {
			t.Errorf("%.80q: %v, want %s", text, bad, want)
		}
		if len(rows) != 1 || rows[0].Command.GetCommandId() != "good" || rows[0].Line != 2 {
			t.Errorf("%.80q: rows %v", text, rows)
		}
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
		"nan":                 {amount("nan"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"inf":                 {amount("inf"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"1e3":                 {amount("1e3"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"0x10":                {amount("0x10"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"-1":                  {amount("-1"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"+1":                  {amount("+1"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"0":                   {amount("0"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"0.00":                {amount("0.00"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"1.005":               {amount("1.005"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"thousands":           {amount(`"1,000.00"`), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"blank":               {amount(" 1"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"empty":               {amount(""), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"other digits":        {amount("١"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"yen with decimals":   {line("x", "debit", "alice", "", "1.5", "JPY"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"19 digits":           {amount("1000000000000000000"), ledgerv1.Reason_REASON_LIMIT_EXCEEDED},
		"19 with decimals":    {amount("12345678901234567.89"), ledgerv1.Reason_REASON_LIMIT_EXCEEDED},
		"unknown currency":    {line("x", "debit", "alice", "", "1", "XYZ"), ledgerv1.Reason_REASON_INVALID_CURRENCY},
		"small currency":      {line("x", "debit", "alice", "", "1", "usd"), ledgerv1.Reason_REASON_INVALID_CURRENCY},
		"no currency":         {line("x", "debit", "alice", "", "1", ""), ledgerv1.Reason_REASON_INVALID_CURRENCY},
		"empty id":            {line("", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"huge id":             {line(strings.Repeat("x", 129), "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"huge id of a part":   {line(strings.Repeat("x", 126), "transfer", "alice", "bob", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"control id":          {line("a\x07b", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"NUL id":              {line("a\x00b", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"id that is no UTF-8": {line("a\xff", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"empty account":       {line("x", "debit", "", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		"external account":    {line("x", "debit", "@alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		"account with itself": {line("x", "debit", "alice", "alice", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		"transfer to itself":  {line("x", "transfer", "alice", "alice", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		"transfer to nobody":  {line("x", "transfer", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		"unknown op":          {line("x", "steal", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_OPERATION},
		"large op":            {line("x", "DEBIT", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_OPERATION},
		"the ledger's op":     {line("x", "return", "alice", "@transit", "1", "USD"), ledgerv1.Reason_REASON_INVALID_OPERATION},
		"the reconciler's op": {line("x", "adjust", "alice", "", "-1", "USD"), ledgerv1.Reason_REASON_INVALID_OPERATION},
		"the ledger's id":     {line("@credit/x", "debit", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"open with an amount": {line("x", "open", "alice", "", "1", "USD"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"day that is none":    {"x,2013-02-30,debit,alice,,1,USD", ledgerv1.Reason_REASON_INVALID_TIME},
		"other kind of day":   {"x,31.01.2013,debit,alice,,1,USD", ledgerv1.Reason_REASON_INVALID_TIME},
		"year out of range":   {"x,0001-01-01,debit,alice,,1,USD", ledgerv1.Reason_REASON_INVALID_TIME},
		"a column too few":    {"x,2013-01-01,debit,alice,,1", unreadable},
		"a column too many":   {"x,2013-01-01,debit,alice,,1,USD,", unreadable},
		"decimal comma":       {"x,2013-01-01,debit,alice,,1,50,USD", unreadable},
		"open quote":          {`x,2013-01-01,debit,"alice,,1,USD`, unreadable},
		"quote within":        {`x,2013-01-01,debit,al"ice,,1,USD`, unreadable},
		"carriage return":     {"x,2013-01-01,debit,ali\rce,,1,USD", unreadable},
		"semicolons":          {"x;2013-01-01;debit;alice;;1;USD", unreadable},
		"endless line":        {strings.Repeat("x", 100_000), unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, bad := read(importer.ReadCommands(strings.NewReader(header+test.line+"\ngood,2013-01-01,debit,alice,@world,1.00,USD\n"), importer.Options{File: "f.csv"}))
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
		rows, bad := read(importer.ReadCommands(strings.NewReader(text), importer.Options{}))
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
		"a column less":   "command_id,date,op,counter_account,amount,currency\n",
		"a column more":   "command_id,date,op,account,counter_account,amount,currency,colour\n",
		"a column twice":  "command_id,command_id,op,account,counter_account,amount,currency\n",
		"semicolons":      strings.ReplaceAll(header, ",", ";"),
		"lines end in CR": strings.ReplaceAll(header+"x,2013-01-01,debit,alice,,1,USD\n", "\n", "\r"),
	} {
		rows, bad := read(importer.ReadCommands(strings.NewReader(text), importer.Options{File: "f.csv"}))
		var line *importer.LineError
		if len(rows) > 0 || len(bad) != 1 || errors.As(bad[0], &line) || !strings.Contains(bad[0].Error(), "f.csv") {
			t.Errorf("%s: %v, %v", name, rows, bad)
		}
	}
}

func TestLongestPrefixGivesTheFloor(t *testing.T) {
	t.Parallel()
	overdrafts := parseOverdrafts(t, "a=-5", "a:b=-7.25", "x=0")
	text := "command_id,op,account,counter_account,amount,currency,floor,ceiling\n"
	for _, account := range []string{"a", "a:b:c", "b", "x", "a:b:c"} {
		text += "id,credit," + account + ",,1,USD,,\n"
	}
	text += "id,open,a:own,,,USD,-1,\nid,open,a:,,,USD,,7\nid,transfer,a,a:far,1,USD,,\nid,transfer,a,@far,1,USD,,\n"
	rows, bad := read(importer.OpenAccounts(importer.ReadCommands(strings.NewReader(text), importer.Options{}), overdrafts))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	var got []string
	for _, row := range rows {
		if row.Command.GetOperation() == opening {
			got = append(got, row.Command.GetCommandId()+" "+row.Command.GetOpen().GetFloor())
		}
	}
	if want := []string{"open:a -500", "open:a:b:c -725", "open:b ", "open:x 0", "id -100", "id -500", "open:a:far -500"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, s := range []string{"", "a", "=-1", "a=", "a=1", "a=nan", "a=-1e3", "a=--1"} {
		if o, err := importer.ParseOverdraft(s); err == nil {
			t.Errorf("%q: %v", s, o)
		}
	}
}
