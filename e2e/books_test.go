package e2e

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/hotledger/hotledger/e2e/books"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/projector/export"
	"github.com/hotledger/hotledger/schemas/topics"
)

// TestOthersAgreeWithTheBooks lets hledger and beancount judge real and random input; then it damages one thing after the other, and
// they have to disagree.
func TestOthersAgreeWithTheBooks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.serve(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	if err := books.Fill(t.Context(), w.Ledger, books.Options{Seed: seed, Commands: 1500, Out: t.Output()}); err != nil {
		t.Fatal(err)
	}
	judge, dir := books.JudgeOf(w.Ledger), t.TempDir()
	verdict, err := judge.Check(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Accounts < 60 || verdict.Balances <= verdict.Accounts || verdict.Entries < 1500 || verdict.Currencies < 8 {
		t.Errorf("hardly anything was judged: %+v", verdict)
	}
	w.audit(t)
	beancountDisagrees(t, filepath.Join(dir, "books.beancount"))
	t.Run("exports of lines agree", func(t *testing.T) { exportsAgree(t, w) })
	t.Run("the cookbook's queries run", func(t *testing.T) { cookbookRuns(t, w) })
	t.Run("the glossary names what there is", func(t *testing.T) { glossaryPoints(t, w) })

	const account = "Assets:US:BofA:Checking"
	events := w.Projector.ClickHouse.Database + ".events"
	update := func(change, undo string) func() func() {
		run := func(change string) {
			if err := w.ClickHouse.Exec(t.Context(), "ALTER TABLE "+events+" UPDATE "+change+" WHERE account = '"+account+"' AND sequence = 100 SETTINGS mutations_sync = 2"); err != nil {
				t.Fatal(err)
			}
		}
		return func() func() { run(change); return func() { run(undo) } }
	}
	for name, damage := range map[string]func() func(){
		"a change is another":         update("delta = delta + 1", "delta = delta - 1"),
		"a stated balance is another": update("balance_after = balance_after - 1", "balance_after = balance_after + 1"),
		"a leg is another":            update("legs = arrayMap(l -> (l.1, l.2 + 1), legs)", "legs = arrayMap(l -> (l.1, l.2 - 1), legs)"),
		"a balance in Redis is another": func() func() {
			key := lua.AccountsKey(topics.ShardOf(account, 4))
			record := w.Redis.HGet(t.Context(), key, account).Val()
			set := func(record string) {
				if err := w.Redis.HSet(t.Context(), key, account, record).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set("1" + record)
			return func() { set(record) }
		},
	} {
		heal := damage()
		if _, err := judge.Check(t.Context(), t.TempDir()); !errors.Is(err, books.ErrDisagree) {
			t.Errorf("%s: the judge says %v", name, err)
		} else {
			t.Logf("%s: %.300v", name, err)
		}
		heal()
	}
	if _, err := judge.Check(t.Context(), t.TempDir()); err != nil {
		t.Errorf("healed: %v", err)
	}
}

// beancountDisagrees alters what the export of the books asserts about one balance, by the smallest unit.
func beancountDisagrees(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(text), "  3043.23 ~ 0 USD", "  3043.24 ~ 0 USD", 1)
	if wrong == string(text) {
		t.Fatal("the books do not assert the balance of the household's checking account")
	}
	if err := os.WriteFile(name, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "bean-check", "--no-cache", name).CombinedOutput()
	if err == nil || strings.Count(string(out), "Balance failed for 'Assets:Ledger:Assets-:US-:BofA-:Checking'") != 1 {
		t.Errorf("bean-check on a wrong balance: %v\n%s", err, out)
	}
}

// exportsAgree holds the exports of lines against each other and against the view.
func exportsAgree(t *testing.T, w *whole) {
	t.Helper()
	file := map[export.Format]*bytes.Buffer{}
	for _, format := range []export.Format{export.CSV, export.NDJSON, export.Parquet} {
		file[format] = new(bytes.Buffer)
		if err := export.Run(t.Context(), w.Projector.ClickHouse, export.Options{Format: format}, file[format]); err != nil {
			t.Fatal(err)
		}
	}
	one := func(query string) (text string) {
		t.Helper()
		ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_query_size": 1 << 28}))
		if err := w.ClickHouse.QueryRow(ctx, query).Scan(&text); err != nil {
			t.Fatalf("%.200s: %v", query, err)
		}
		return text
	}
	const sums = "toString((count(), sum(toInt128(amount_minor)), sum(cityHash64(account, counter_account, side, toInt64(amount_minor), transaction_id, command_id, toUInt16(leg), operation, reference, description, toUInt64(position)))))"
	want := one(fmt.Sprintf("SELECT %s FROM %s.postings", sums, w.Projector.ClickHouse.FinanceDatabase))
	for format, name := range map[export.Format]string{export.NDJSON: "JSONEachRow", export.Parquet: "Parquet"} {
		var literal strings.Builder
		for _, b := range file[format].Bytes() {
			fmt.Fprintf(&literal, `\x%02x`, b)
		}
		if got := one(fmt.Sprintf("SELECT %s FROM format(%s, '%s')", sums, name, literal.String())); got != want {
			t.Errorf("%s has %s, the view %s", format, got, want)
		}
	}
	lines, err := csv.NewReader(file[export.CSV]).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := one("SELECT toString(count()) FROM " + w.Projector.ClickHouse.FinanceDatabase + ".postings"); got != fmt.Sprint(len(lines)-1) {
		t.Errorf("csv has %d lines, the view %s", len(lines)-1, got)
	}
	for _, line := range lines[1:] {
		for _, text := range []string{line[0], line[1], line[10], line[11], line[14], line[15]} {
			if text != "" && strings.ContainsAny(text[:1], "=+-@\t\r") {
				t.Errorf("a spreadsheet would run %q", text)
			}
		}
	}
}
