package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// wide inserts rows that give more than an entry can: each text is "column = value" pairs; the rest has the column's default.
func (f finance) wide(t *testing.T, rows ...map[string]string) {
	t.Helper()
	for _, row := range rows {
		columns, values := make([]string, 0, len(row)), make([]string, 0, len(row))
		for column, value := range row {
			columns, values = append(columns, column), append(values, value)
		}
		f.exec(t, fmt.Sprintf("INSERT INTO ledger.events (%s) SELECT %s SETTINGS async_insert = 0", strings.Join(columns, ", "), strings.Join(values, ", ")))
	}
}

func groupsBookEveryLeg(t *testing.T, f finance) {
	f.insert(t, entry{account: "payroll", sequence: 1, position: 1, op: "credit", unit: "EUR/2", delta: 1000, after: 1000})
	f.wide(t, map[string]string{
		"account": "'payroll'", "sequence": "2", "position": "2", "log_time": "'2026-02-01'", "command_id": "'salaries'", "operation": "'debit'", "status": "'applied'",
		"legs": "[('@ann', 300), ('@ben', 299), ('@tax', 1)]", "unit": "'EUR/2'", "delta": "-600", "balance_after": "400",
	})
	check := func() {
		t.Helper()
		f.expect(t, "SELECT leg, account, counter_account, side, amount FROM finance.postings WHERE command_id = 'salaries' ORDER BY leg, account",
			"1 @ann payroll credit 3", "1 payroll @ann debit -3", "2 @ben payroll credit 2.99", "2 payroll @ben debit -2.99", "3 @tax payroll credit 0.01", "3 payroll @tax debit -0.01")
		f.expect(t, "SELECT line, counterparty, debit, running_balance FROM finance.account_statement(account = 'payroll', from = '2000-01-01', to = '2100-01-01') ORDER BY line",
			"1 @world 0 10", "2 @ann, @ben, @tax 6 4")
		f.expect(t, "SELECT account, debits, credits, balance, is_balanced FROM finance.trial_balance(as_of = '2100-01-01') ORDER BY account",
			"@ann 0 3 3 true", "@ben 0 2.99 2.99 true", "@tax 0 0.01 0.01 true", "@world 10 0 -10 true", "payroll 6 10 4 true")
	}
	check()
	f.exec(t, "INSERT INTO ledger.events SELECT * FROM ledger.events SETTINGS insert_deduplicate = 0")
	check()
	// Legs that do not add up to what the account lost: the trial balance is the view that says so.
	f.wide(t, map[string]string{
		"account": "'payroll'", "sequence": "3", "position": "3", "log_time": "'2026-02-02'", "operation": "'debit'", "status": "'applied'",
		"legs": "[('@ann', 1), ('@ben', 1)]", "unit": "'EUR/2'", "delta": "-3", "balance_after": "397",
	})
	f.expect(t, "SELECT DISTINCT is_balanced FROM finance.trial_balance(as_of = '2026-02-02')", "true")
	f.expect(t, "SELECT DISTINCT is_balanced FROM finance.trial_balance(as_of = '2026-02-03')", "false")
}

func balanceAsOf(t *testing.T, f finance) {
	f.insert(t, small...)
	for _, at := range []string{"2026-01-31 23:59:57", "2026-01-31 23:59:58", "2026-02-01", "2026-02-01 00:00:01.001", "2030-01-01"} {
		balance := f.rows(t, fmt.Sprintf("SELECT balance FROM finance.balance_as_of(account = 'alice', time = '%s')", at))
		running := f.rows(t, fmt.Sprintf("SELECT running_balance FROM finance.account_statement(account = 'alice', from = '2000-01-01', to = '%s') ORDER BY line DESC LIMIT 1", at))
		if len(running) == 0 {
			running = []string{"0"}
		}
		if len(balance) != 1 || balance[0] != running[0] {
			t.Errorf("at %s: balance %v, statement %v", at, balance, running)
		}
	}
	f.expect(t, "SELECT balance, held, available, status, is_proven, sequence FROM finance.balance_as_of(account = 'alice', time = '2026-02-01')", "10 0 60  true 3")
	f.expect(t, "SELECT * FROM finance.balance_as_of(account = 'alice', time = '2026-01-31')")
	f.expect(t, "SELECT * FROM finance.balance_as_of(account = '@world', time = '2030-01-01')")
}

func trialBalance(t *testing.T, f finance) {
	f.insert(t, small...)
	check := func() {
		t.Helper()
		f.expect(t, "SELECT currency, account, kind, debits, credits, balance, is_balanced FROM finance.trial_balance(as_of = '2100-01-01') ORDER BY currency, account",
			"POINTS @world external 7 0 -7 true", "POINTS bob controlled 0 7 7 true",
			"USD @shop external 0 2.5 2.5 true", "USD @world external 12.5 0.01 -12.49 true", "USD alice controlled 2.51 12.5 9.99 true")
		f.expect(t, "SELECT account, balance FROM finance.trial_balance(as_of = '2026-01-31 23:59:58') WHERE currency = 'USD' ORDER BY account", "@world -12.5", "alice 12.5")
		f.expect(t, "SELECT * FROM finance.trial_balance(as_of = '2026-01-01')")
	}
	check()
	f.insert(t, small...)
	f.insert(t, small[2])
	check()
}

// hold makes the row of an event of a hold.
func hold(sequence, held, remaining int, op, more string) map[string]string {
	row := map[string]string{
		"account": "'alice'", "sequence": fmt.Sprint(sequence), "position": fmt.Sprint(sequence), "log_time": fmt.Sprintf("toDateTime64('2026-02-01', 3, 'UTC') + %d", sequence),
		"operation": "'" + op + "'", "status": "'applied'", "unit": "'EUR/2'", "balance_after": "1000", "held_after": fmt.Sprint(held),
		"hold_remaining": fmt.Sprint(remaining), "hold_counter_account": "'@shop'",
	}
	for pair := range strings.SplitSeq(more, ";") {
		column, value, _ := strings.Cut(pair, "=")
		row[column] = value
	}
	return row
}

func openHolds(t *testing.T, f finance) {
	rows := []map[string]string{
		hold(1, 300, 300, "hold", "hold_id='h1';hold_expires_at='2026-02-03';reference='booking'"),
		hold(2, 350, 50, "hold", "hold_id='h2';hold_counter_account=''"),
		hold(3, 250, 200, "capture", "hold_id='h1';hold_expires_at='2026-02-03';delta=-100"),
		hold(4, 240, 40, "release", "hold_id='h2';hold_counter_account=''"),
		hold(5, 340, 100, "hold", "hold_id='h3';hold_expires_at='2099-01-01'"),
		hold(6, 240, 0, "release", "hold_id='h3';hold_expires_at='2099-01-01'"),
		hold(0, 240, 40, "capture", "hold_id='h2';status='rejected';reason='HOLD_EXCEEDED';position=7"),
	}
	f.wide(t, rows...)
	check := func() {
		t.Helper()
		f.expect(t, "SELECT account, hold_id, state, remaining, amount, currency, opened_at, age, expires_at, counter_account, reference, last_change_at FROM finance.open_holds ORDER BY hold_id",
			"alice h1 expired 2 3 EUR 2026-02-01T00:00:01.000 > 7 d 2026-02-03T00:00:00.000 @shop booking 2026-02-01T00:00:03.000",
			"alice h2 open 0.4 0.5 EUR 2026-02-01T00:00:02.000 > 7 d <nil> @world  2026-02-01T00:00:04.000")
		f.expect(t, "SELECT sum(remaining_minor) = any(held_minor) FROM finance.open_holds AS o JOIN finance.balances AS b USING account", "1")
	}
	check()
	f.wide(t, rows[0], rows[3], rows[5])
	check()
}

// end makes the row of one end of a transfer; amount is the near end's loss.
func end(id, account, op, amount, more string) map[string]string {
	row := map[string]string{
		"command_id": "'" + id + "'", "account": "'" + account + "'", "operation": "'" + op + "'", "status": "'applied'", "unit": "'EUR/2'", "sequence": "1",
		"counter_account": "'@transit'", "delta": amount, "legs": "[('@transit', abs(" + amount + "))]", "log_time": "toDateTime64('2026-02-01', 3, 'UTC')", "position": "cityHash64('" + id + "')",
	}
	for pair := range strings.SplitSeq(more, ";") {
		if column, value, ok := strings.Cut(pair, "="); ok {
			row[column] = value
		}
	}
	return row
}

func transit(t *testing.T, f finance) {
	f.wide(t,
		end("t1", "alice", "transfer", "-100", "transfer_to='bob'"), end("@credit/t1", "bob", "credit", "100", "transfer_account='alice'"), // arrived
		end("t2", "alice", "transfer", "-70", "transfer_to='bob'"),                                                    // on the way
		end("t3", "alice", "transfer", "-30", "transfer_to='nobody'"), end("@return/t3", "alice", "return", "30", ""), // refused
		end("r1", "bob", "reverse", "-40", "transfer_account='alice';reversed_command_id='@credit/t1'"), // on the way back
	)
	check := func() {
		t.Helper()
		f.expect(t, "SELECT transaction_id, from_account, to_account, amount, currency, left_at, age_seconds > 0 FROM finance.transit ORDER BY transaction_id",
			"r1 bob alice 0.4 EUR 2026-02-01T00:00:00.000 1", "t2 alice bob 0.7 EUR 2026-02-01T00:00:00.000 1")
		f.expect(t, "SELECT balance, is_balanced FROM finance.trial_balance(as_of = '2100-01-01') WHERE kind = 'transit'", "1.1 true")
		f.expect(t, "SELECT sum(amount) FROM finance.transit", "1.1")
		f.expect(t, "SELECT account, operation, counterparty, amount FROM finance.journal WHERE transaction_id = 't1' ORDER BY account", "alice transfer bob -1", "bob credit alice 1")
	}
	check()
	f.exec(t, "INSERT INTO ledger.events SELECT * FROM ledger.events WHERE account = 'bob' OR command_id = 't2' SETTINGS insert_deduplicate = 0")
	check()
}

func doubledRows(t *testing.T, f finance) {
	f.insert(t, small...)
	proven := "SELECT balance, is_proven FROM finance.balances WHERE account = 'alice'"
	f.expect(t, proven, "9.99 true")
	f.insert(t, small[2])
	f.expect(t, proven, "9.99 false")
	f.expect(t, "SELECT running_balance FROM finance.account_statement(account = 'alice', from = '2026-02-01', to = '2100-01-01')", "9.99")
	f.exec(t, "ALTER TABLE ledger.events DELETE WHERE account = 'alice' AND sequence = 3 SETTINGS mutations_sync = 2")
	f.expect(t, proven, "9.99 false") // a missing row takes nothing away either
	f.insert(t, small[2], small[7])   // the one row alone would be the block that was inserted before
	f.expect(t, proven, "9.99 true")
	f.exec(t, "ALTER TABLE ledger.events UPDATE delta = delta + 5 WHERE account = 'alice' AND sequence = 2 SETTINGS mutations_sync = 2")
	f.expect(t, proven, "10.04 false") // its rows add up to something that the ledger never said
}
