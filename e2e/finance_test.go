package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/shopspring/decimal"

	"github.com/hotledger/hotledger/sandbox"
	"github.com/hotledger/hotledger/schemas/clickhouse"
	"github.com/hotledger/hotledger/schemas/money"
)

// TestFinance holds the tables and the finance views to what they promise, on a real ClickHouse: the one at CLICKHOUSE_ADDRS (HTTP),
// or the sandbox's. Each subtest has a pair of databases of its own.
func TestFinance(t *testing.T) {
	t.Parallel()
	addr := financeServer(t)
	t.Run("group", func(t *testing.T) { // ends when all of them have, and only then is the server stopped
		for name, test := range map[string]func(*testing.T, finance){
			"migrations may run again":                             migrateAgain,
			"every view and column is explained":                   explained,
			"views count an event once though it is there twice":   countedOnce,
			"totals go beyond 64 bits":                             beyond64Bits,
			"a statement's balance does not depend on the excerpt": statementExcerpt,
			"amounts follow the unit's exponent":                   exponents,
			"freshness tells gaps and duplicates":                  freshness,
			"the views read an account by the index":               byIndex,
			"rejections move nothing":                              rejectionsMoveNothing,
			"a group books each of its legs":                       groupsBookEveryLeg,
			"a balance at a time is the statement's up to it":      balanceAsOf,
			"a trial balance balances each currency alone":         trialBalance,
			"open holds add up to what is held":                    openHolds,
			"transit shows what is on the way":                     transit,
			"a balance of doubled rows is what the ledger said":    doubledRows,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newFinance(t, addr))
			})
		}
	})
}

// finance is one ledger in ClickHouse, empty.
type finance struct {
	db        *sql.DB
	databases clickhouse.Databases
}

func financeServer(t testing.TB) string {
	t.Helper()
	if addrs := os.Getenv("CLICKHOUSE_ADDRS"); addrs != "" {
		return strings.Split(addrs, ",")[0]
	}
	server, err := sandbox.StartClickHouse(t.Context(), sandbox.ClickHouseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server.Addr()
}

var financeCount atomic.Int64

func newFinance(t testing.TB, addr string) finance {
	t.Helper()
	db := ch.OpenDB(&ch.Options{Protocol: ch.HTTP, Addr: []string{addr}, DialTimeout: 5 * time.Second, ReadTimeout: time.Minute})
	name := fmt.Sprintf("e2e_%d_%d_", os.Getpid(), financeCount.Add(1))
	f := finance{db, clickhouse.Databases{Ledger: name + "ledger", Finance: name + "finance"}}
	t.Cleanup(func() {
		for _, database := range []string{f.databases.Finance, f.databases.Ledger} {
			if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE IF EXISTS "+database); err != nil {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	// Two at once, as two processes that start together would.
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := clickhouse.Migrate(t.Context(), db, f.databases); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return f
}

// named puts the names of this ledger's databases into the text.
func (f finance) named(text string) string {
	return strings.NewReplacer("ledger.", f.databases.Ledger+".", "finance.", f.databases.Finance+".").Replace(text)
}

func (f finance) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), f.named(text), args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// rows returns each row as its values joined by blanks, decimals with all their digits.
func (f finance) rows(t testing.TB, text string) []string {
	t.Helper()
	rows, err := f.db.QueryContext(t.Context(), f.named(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		texts := make([]string, len(values))
		for i, value := range values {
			texts[i] = valueText(*value.(*any)) //nolint:forcetypeassert // made above
		}
		all = append(all, strings.Join(texts, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return all
}

func valueText(value any) string {
	switch v := value.(type) {
	case decimal.Decimal:
		return v.String()
	case big.Int:
		return v.String()
	case *time.Time:
		if v == nil {
			return "<nil>"
		}
		return v.UTC().Format("2006-01-02T15:04:05.000")
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000")
	default:
		return fmt.Sprint(v)
	}
}

func (f finance) expect(t testing.TB, text string, want ...string) {
	t.Helper()
	got := f.rows(t, text)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\n got\n  %s\nwant\n  %s", text, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// entry is a row of the log as these tests write it.
type entry struct {
	account  string
	sequence uint64
	shard    uint16
	position uint64
	op       string
	reason   string // "" is applied
	counter  string
	unit     string
	delta    int64
	after    int64
	floor    int64
}

func (f finance) insert(t *testing.T, entries ...entry) {
	t.Helper()
	values := make([]string, len(entries))
	for i, e := range entries {
		status := "applied"
		if e.reason != "" {
			status = "rejected"
		}
		// One second per position from the start of 2026, so that a log of more than one month has more than one partition.
		at := time.Date(2026, 1, 31, 23, 59, 55, 0, time.UTC).Add(time.Duration(e.position) * time.Second).Format("2006-01-02 15:04:05")
		counter, legs := e.counter, "[]"
		if e.delta != 0 && counter == "" {
			counter = "@world"
		} else if e.delta != 0 && counter != "@world" {
			legs = fmt.Sprintf("[('%s',abs(%d))]", counter, e.delta)
		}
		values[i] = fmt.Sprintf("('%s',%d,%d,%d,%d,'%s','%s','%s','%s','cmd-%d-%d','%s','%s','%s','%s',%s,'%s',%d,%d,%d)",
			e.account, e.sequence, e.shard, e.position, e.position*2, at, at, at, at[:10], e.shard, e.position, e.op, status, e.reason, counter, legs, e.unit, e.delta, e.after, e.floor)
	}
	f.exec(t, `INSERT INTO ledger.events (account, sequence, shard, position, log_offset, log_time, decided_at, effective_at, business_date, command_id,
		operation, status, reason, counter_account, legs, unit, delta, balance_after, floor_after) SETTINGS async_insert = 0 VALUES `+strings.Join(values, ","))
}

// small is a log of two accounts in two shards and two months, with every kind of event.
var small = []entry{
	{"alice", 1, 0, 1, "open", "", "", "USD/2", 0, 0, -5000},
	{"alice", 2, 0, 2, "credit", "", "@world", "USD/2", 1250, 1250, -5000},
	{"alice", 3, 0, 3, "debit", "", "@shop", "USD/2", -250, 1000, -5000},
	{"alice", 0, 0, 4, "debit", "INSUFFICIENT_FUNDS", "@shop", "USD/2", 0, 1000, -5000},
	{"alice", 4, 0, 5, "repair", "", "", "USD/2", 0, 1000, -5000},
	{"alice", 5, 0, 6, "debit", "", "", "USD/2", -1, 999, -5000},
	{"bob", 1, 1, 1, "open", "", "", "POINTS/0", 0, 0, 0},
	{"bob", 2, 1, 2, "credit", "", "@world", "POINTS/0", 7, 7, 0},
	{"nobody", 0, 1, 3, "debit", "ACCOUNT_UNKNOWN", "@shop", "", 0, 0, 0},
}

func migrateAgain(t *testing.T, f finance) {
	f.insert(t, small...)
	for range 2 {
		if err := clickhouse.Migrate(t.Context(), f.db, f.databases); err != nil {
			t.Fatal(err)
		}
	}
	f.expect(t, "SELECT count() FROM ledger.events", "9")
	f.expect(t, "SELECT max(version_id) >= 6 FROM ledger.schema_migrations", "1")
}

func explained(t *testing.T, f finance) {
	f.expect(t, fmt.Sprintf("SELECT name FROM system.tables WHERE database = '%s' ORDER BY name", f.databases.Finance),
		"account_statement", "balance_as_of", "balances", "freshness", "freshness_overall", "journal", "open_holds", "postings", "rejections", "transit", "trial_balance")
	f.expect(t, fmt.Sprintf("SELECT name FROM system.tables WHERE database = '%s' AND (comment = '' OR engine != 'View')", f.databases.Finance))
	f.expect(t, fmt.Sprintf("SELECT table, name FROM system.columns WHERE database = '%s' AND comment = ''", f.databases.Finance))
	f.expect(t, fmt.Sprintf(`SELECT table, name FROM system.columns WHERE database = '%s' AND comment = ''
		AND table IN ('events', 'reconciliation_runs', 'account_snapshots', 'breaks', 'compensations')`, f.databases.Ledger))
	// ClickHouse lists no columns of a parameterised view, so its text is read: a comment on every line of the list.
	for name, want := range map[string]int{"account_statement": 22, "balance_as_of": 13, "trial_balance": 11} {
		text := f.rows(t, fmt.Sprintf("SELECT create_table_query FROM system.tables WHERE database = '%s' AND name = '%s'", f.databases.Finance, name))
		columns, _, _ := strings.Cut(text[0], "DEFINER")
		if got := strings.Count(columns, " COMMENT '"); got != want {
			t.Errorf("%s: %d comments on columns, want %d: %s", name, got, want, columns)
		}
	}
}

func countedOnce(t *testing.T, f finance) {
	f.insert(t, small...)
	check := func() {
		t.Helper()
		f.expect(t, "SELECT account, currency, balance_minor, balance, held, floor, available_minor, available, sequence, shard FROM finance.balances ORDER BY account",
			"alice USD 999 9.99 0 -50 5999 59.99 5 0",
			"bob POINTS 7 7 0 0 7 7 2 1")
		f.expect(t, "SELECT account, currency, sum(amount_minor), sum(amount), count() FROM finance.postings GROUP BY account, currency ORDER BY account, currency",
			"@shop USD 250 2.5 1", "@world POINTS -7 -7 1", "@world USD -1249 -12.49 2", "alice USD 999 9.99 3", "bob POINTS 7 7 1")
		f.expect(t, "SELECT shard, position, count(), sum(amount_minor) FROM finance.postings GROUP BY shard, position HAVING count() != 2 OR sum(amount_minor) != 0")
		f.expect(t, "SELECT count(), uniqExact(shard, position), countIf(operation = 'repair'), countIf(status = 'rejected') FROM finance.journal", "9 9 1 2")
		f.expect(t, "SELECT line, sequence, debit, credit, running_balance FROM finance.account_statement(account = 'alice', from = '2000-01-01', to = '2100-01-01') ORDER BY line",
			"1 2 0 12.5 12.5", "2 3 2.5 0 10", "3 5 0.01 0 9.99")
		f.expect(t, "SELECT account, reason FROM finance.rejections ORDER BY account", "alice INSUFFICIENT_FUNDS", "nobody ACCOUNT_UNKNOWN")
	}
	check()
	f.insert(t, small[1], small[2], small[3], small[7]) // another block, so the server takes it
	f.insert(t, small[2], small[1])
	f.expect(t, "SELECT count() FROM ledger.events", "15")
	check()
	f.exec(t, "OPTIMIZE TABLE ledger.events FINAL")
	f.expect(t, "SELECT count() FROM ledger.events", "15") // visible to the audit for ever
	check()
}

func beyond64Bits(t *testing.T, f finance) {
	entries := make([]entry, 0, 40)
	for i := range uint64(20) {
		entries = append(entries,
			entry{account: fmt.Sprintf("a%d", i), sequence: 1, position: 2*i + 1, op: "open", unit: "POINTS/0"},
			entry{account: fmt.Sprintf("a%d", i), sequence: 2, position: 2*i + 2, op: "credit", unit: "POINTS/0", delta: money.Max, after: money.Max})
	}
	f.insert(t, entries...)
	total := new(big.Int).Mul(big.NewInt(20), big.NewInt(money.Max)).String() // 2 * 10^19 - 20, beyond a UInt64
	f.expect(t, "SELECT sum(balance_minor), sum(balance) FROM finance.balances", total+" "+total)
	f.expect(t, "SELECT account, sum(amount_minor) FROM finance.postings WHERE account = '@world' GROUP BY account", "@world -"+total)
	f.expect(t, "SELECT sum(amount_minor) FROM finance.journal", total)
	f.expect(t, "SELECT max(amount_minor), max(amount) FROM finance.account_statement(account = 'a1', from = '2000-01-01', to = '2100-01-01')", "999999999999999999 999999999999999999")
}

func statementExcerpt(t *testing.T, f finance) {
	f.insert(t, small...)
	f.expect(t, "SELECT line, running_balance_minor FROM finance.account_statement(account = 'alice', from = '2000-01-01', to = '2100-01-01') WHERE sequence >= 3 ORDER BY line", "2 1000", "3 999")
	f.expect(t, "SELECT line, sequence, running_balance FROM finance.account_statement(account = 'alice', from = '2000-01-01', to = '2100-01-01') WHERE operation = 'debit' AND booked_at >= '2026-02-01 00:00:01'", "3 5 9.99")
	// The period's own lines, from its first moment on and before its last, in February alone, and over the end of January.
	f.expect(t, "SELECT line, sequence, running_balance FROM finance.account_statement(account = 'alice', from = '2026-02-01', to = '2026-03-01')", "1 5 9.99")
	f.expect(t, "SELECT line, sequence, running_balance FROM finance.account_statement(account = 'alice', from = '2026-01-31 23:59:58', to = '2026-02-01 00:00:01')", "1 3 10")
	f.expect(t, "SELECT * FROM finance.account_statement(account = 'alice', from = '2026-02-01 00:00:02', to = '2026-03-01')")
	f.expect(t, "SELECT line, running_balance FROM finance.account_statement(account = 'alice', from = '2000-01-01', to = '2100-01-01') ORDER BY line DESC LIMIT 1", "3 9.99")
	f.expect(t, "SELECT * FROM finance.account_statement(account = 'nobody', from = '2000-01-01', to = '2100-01-01')")
	f.expect(t, "SELECT * FROM finance.account_statement(account = 'x'' OR 1 = 1 --', from = '2000-01-01', to = '2100-01-01')")
}

func exponents(t *testing.T, f finance) {
	units := []string{"POINTS/0", "USD/2", "KWD/3", "CLF/4", "ETH/18"}
	for i, unit := range units {
		f.insert(t, entry{account: unit, sequence: 1, position: uint64(i) + 1, op: "credit", unit: unit, delta: money.Max, after: money.Max})
		f.insert(t, entry{account: unit, sequence: 2, position: uint64(i) + 100, op: "debit", unit: unit, delta: -1, after: money.Max - 1})
	}
	for _, s := range units {
		unit, err := money.ParseUnit(s)
		if err != nil {
			t.Fatal(err)
		}
		large, small := money.FormatMajor(money.Max, unit), money.FormatMajor(-1, unit)
		f.expect(t, fmt.Sprintf("SELECT amount, currency, exponent FROM finance.journal WHERE account = '%s' ORDER BY sequence", s),
			fmt.Sprintf("%s %s %d", large, unit.Code, unit.Exponent), fmt.Sprintf("%s %s %d", small, unit.Code, unit.Exponent))
		f.expect(t, fmt.Sprintf("SELECT balance FROM finance.balances WHERE account = '%s'", s), money.FormatMajor(money.Max-1, unit))
	}
}

func freshness(t *testing.T, f finance) {
	f.expect(t, "SELECT state, complete_through, events, shards FROM finance.freshness_overall", "empty <nil> 0 0")
	const query = "SELECT shard, state, complete_through, last_position, events FROM finance.freshness ORDER BY shard SETTINGS force_optimize_projection = 1"
	f.insert(t, small...)
	f.expect(t, query, "0 complete 2026-02-01T00:00:01.000 6 6", "1 complete 2026-01-31T23:59:58.000 3 3")
	f.expect(t, "SELECT state, complete_through, events, shards FROM finance.freshness_overall", "complete 2026-01-31T23:59:58.000 9 2")
	f.insert(t, small[2])
	f.expect(t, "SELECT state, complete_through, events, shards FROM finance.freshness_overall", "duplicate 2026-01-31T23:59:58.000 10 2")
	f.expect(t, query, "0 duplicate 2026-02-01T00:00:01.000 6 7", "1 complete 2026-01-31T23:59:58.000 3 3")
	f.insert(t, entry{account: "bob", sequence: 3, shard: 1, position: 5, op: "debit", unit: "POINTS/0", delta: -1, after: 6},
		entry{account: "late", sequence: 1, shard: 2, position: 2, op: "open", unit: "USD/2"})
	f.expect(t, query, "0 duplicate 2026-02-01T00:00:01.000 6 7", "1 gap <nil> 5 4", "2 gap <nil> 2 1")
	// One missing and one twice: the count alone would not tell.
	f.insert(t, entry{account: "odd", sequence: 1, shard: 3, position: 1, op: "open", unit: "USD/2"},
		entry{account: "odd", sequence: 2, shard: 3, position: 3, op: "credit", unit: "USD/2", delta: 1, after: 1})
	f.insert(t, entry{account: "odd", sequence: 2, shard: 3, position: 3, op: "credit", unit: "USD/2", delta: 1, after: 1})
	f.expect(t, "SELECT state FROM finance.freshness WHERE shard = 3", "gap")
	f.expect(t, "SELECT state, complete_through, events, shards FROM finance.freshness_overall", "gap <nil> 15 4")
}

// A view that hid the table's order from the planner would read the whole log for one account.
func byIndex(t *testing.T, f finance) {
	f.exec(t, `INSERT INTO ledger.events (account, sequence, shard, position, log_time, operation, status, unit, delta)
		SELECT 'a' || leftPad(toString(number), 6, '0'), 1, 0, number + 1, '2026-01-01', 'credit', 'applied', 'USD/2', 1 FROM numbers(100000)`)
	for _, query := range []string{
		"SELECT * FROM finance.balances WHERE account = 'a050000'",
		"SELECT * FROM finance.journal WHERE account = 'a050000'",
		"SELECT * FROM finance.account_statement(account = 'a050000', from = '2000-01-01', to = '2100-01-01')",
	} {
		f.expect(t, "SELECT count() FROM ("+query+")", "1")
		plan := strings.Join(f.rows(t, "EXPLAIN indexes = 1 "+query), "\n")
		if !strings.Contains(plan, "Condition: (account in ['a050000', 'a050000'])") {
			t.Errorf("%s reads without the index:\n%s", query, plan)
		}
	}
	for query, index := range map[string]string{
		"SELECT * FROM finance.journal WHERE command_id = 'cmd-777'":                        "command_id_bloom",
		"SELECT * FROM finance.postings WHERE transaction_id = 'cmd-777'":                   "transaction_id_bloom",
		"SELECT * FROM finance.journal WHERE booked_at >= '2026-01-02'":                     "log_time_minmax",
		"SELECT sum(amount_minor) FROM finance.postings WHERE business_date = '2026-01-01'": "business_date_minmax",
	} {
		if plan := strings.Join(f.rows(t, "EXPLAIN indexes = 1 "+query), "\n"); !strings.Contains(plan, "Name: "+index) {
			t.Errorf("%s reads without %s:\n%s", query, index, plan)
		}
	}
	// Over the whole log the de-duplication has to stream: the other transform keeps every key in memory.
	pipeline := strings.Join(f.rows(t, "EXPLAIN PIPELINE SELECT account, sum(delta) FROM ledger.events_once GROUP BY account"), "\n")
	if !strings.Contains(pipeline, "LimitBySortedStreamTransform") || strings.Contains(pipeline, "LimitByTransform") {
		t.Errorf("events_once does not stream:\n%s", pipeline)
	}
}

func rejectionsMoveNothing(t *testing.T, f finance) {
	f.insert(t, small...)
	f.expect(t, "SELECT account, booked_at, command_id, operation, reason, counter_account, balance, currency, position FROM finance.rejections ORDER BY account",
		"alice 2026-01-31T23:59:59.000 cmd-0-4 debit INSUFFICIENT_FUNDS @shop 10 USD 4",
		"nobody 2026-01-31T23:59:58.000 cmd-1-3 debit ACCOUNT_UNKNOWN @shop 0  3")
	f.expect(t, "SELECT count() FROM finance.balances WHERE account = 'nobody'", "0")
	f.expect(t, "SELECT count() FROM finance.postings WHERE command_id IN (SELECT command_id FROM finance.rejections)", "0")
}
