package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// BenchmarkFinanceViews takes the time of each view over a log of 10 million events (or LEDGER_BENCH_EVENTS), half of which are on one account:
//
//	go test -run xxx -bench FinanceViews -benchtime 5x .
func BenchmarkFinanceViews(b *testing.B) {
	events := 10_000_000
	if text := os.Getenv("LEDGER_BENCH_EVENTS"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	f := newFinance(b, financeServer(b))
	f.generate(b, events)
	const day = "from = '2026-10-20', to = '2026-10-21'"
	f.expect(b, "SELECT is_proven, sequence FROM finance.balances WHERE account = 'main'", fmt.Sprint("true ", events/2))
	f.expect(b, "SELECT countIf(NOT is_balanced) FROM finance.trial_balance(as_of = '2100-01-01')", "0")
	for _, view := range []struct{ name, query string }{
		{"statement of the main account, a day", "SELECT * FROM finance.account_statement(account = 'main', " + day + ")"},
		{"statement of the main account, the last line", "SELECT * FROM finance.account_statement(account = 'main', from = '2026-10-20 23:59:59', to = '2026-10-21')"},
		{"statement of another account, all", "SELECT * FROM finance.account_statement(account = 'a000007', from = '2000-01-01', to = '2100-01-01')"},
		{"balance of the main account", "SELECT * FROM finance.balances WHERE account = 'main'"},
		{"balance of the main account at a time", "SELECT * FROM finance.balance_as_of(account = 'main', time = '2026-10-21')"},
		{"balances of all accounts", "SELECT * FROM finance.balances"},
		{"trial balance", "SELECT * FROM finance.trial_balance(as_of = '2100-01-01')"},
		{"postings of a day, added up", "SELECT account, currency, sum(amount_minor) FROM finance.postings WHERE business_date = '2026-10-20' GROUP BY account, currency"},
		{"all postings, added up", "SELECT account, currency, sum(amount_minor) FROM finance.postings GROUP BY account, currency"},
		{"journal of a day", "SELECT * FROM finance.journal WHERE booked_at >= '2026-10-20' AND booked_at < '2026-10-21'"},
		{"one command", "SELECT * FROM finance.journal WHERE command_id = 'cmd-777777'"},
		{"open holds", "SELECT * FROM finance.open_holds"},
		{"transit", "SELECT * FROM finance.transit"},
		{"rejections", "SELECT * FROM finance.rejections"},
		{"freshness", "SELECT * FROM finance.freshness_overall"},
	} {
		b.Run(view.name, func(b *testing.B) {
			for range b.N {
				f.exec(b, view.query+" FORMAT Null")
			}
		})
	}
}

// generate fills the log, a third of a second from one event to the next: half of them on the account main, the others on 100,000 accounts in turn. What
// an odd change puts on an account, the next one takes off.
func (f finance) generate(tb testing.TB, events int) {
	tb.Helper()
	const batch = 500_000
	for from := 0; from < events; from += batch {
		f.exec(tb, fmt.Sprintf(`INSERT INTO ledger.events (account, sequence, shard, position, log_offset, log_time, decided_at, effective_at, business_date, command_id,
			operation, status, counter_account, legs, unit, delta, balance_after, sequence_after, account_status, reference, source, fingerprint, chain)
			WITH number %% 2 = 0 AS main, intDiv(number, 2) AS k, if(main, k, intDiv(k, 100000)) + 1 AS n, n %% 2 = 1 AS up, 100 + intDiv(n - 1, 2) %% 50 AS amount,
				toDateTime64('2026-10-01', 3, 'UTC') + number / 3 AS at, concat('@shop-', toString(number %% 7)) AS shop
			SELECT if(main, 'main', concat('a', leftPad(toString(k %% 100000), 6, '0'))), n, 0, number + 1, number * 2, at, at, at, toDate(at), concat('cmd-', toString(number)),
				if(up, 'credit', 'debit'), 'applied', shop, [(shop, amount)], 'EUR/2', if(up, 1, -1) * toInt64(amount), if(up, amount, 0), n, 'active', concat('order ', toString(number)), 'bench',
				unhex(hex(MD5(toString(number)))), unhex(hex(SHA1(toString(number))))
			FROM numbers(%d, %d) SETTINGS max_insert_threads = 1, max_partitions_per_insert_block = 10, async_insert = 0`, from, min(batch, events-from)))
	}
}
