package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A question is a heading with a number, then its query.
var question = regexp.MustCompile("(?m)^### (\\d+)\\. (.+)\n\n```sql\n((?s).+?)\n```$")

// cookbookRuns runs every query of the cookbook on a ledger that has a bit of everything. A query that finds nothing there finds nothing
// anywhere, unless it says that it looks for trouble.
func cookbookRuns(t *testing.T, w *whole) {
	text := read(t, "docs/cookbook.md")
	questions := question.FindAllStringSubmatch(text, -1)
	if len(questions) < 15 || len(questions) != strings.Count(text, "\n### ") || len(questions) != strings.Count(text, "```sql") {
		t.Fatalf("%d questions with a query; every heading needs one, and they are at least 15", len(questions))
	}
	for i, q := range questions {
		if want := i + 1; q[1] != strconv.Itoa(want) {
			t.Errorf("question %s stands at place %d", q[1], want)
		}
		rows, err := w.ClickHouse.Query(t.Context(), q[3])
		if err != nil {
			t.Errorf("%s. %s: %v", q[1], q[2], err)
			continue
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%s. %s: %v", q[1], q[2], err)
		}
		_ = rows.Close()
		if quiet := strings.HasPrefix(q[3], "-- no rows when all is well\n"); quiet != (n == 0) {
			t.Errorf("%s. %s: %d rows", q[1], q[2], n)
		}
	}
}

// glossaryPoints holds the glossary to its word: each column that it names is in that view.
func glossaryPoints(t *testing.T, w *whole) {
	names := regexp.MustCompile("`([a-z_]+)\\.([a-z_]+)`").FindAllStringSubmatch(read(t, "docs/glossary.md"), -1)
	if len(names) < 15 {
		t.Fatalf("only %d columns are named", len(names))
	}
	for _, n := range names {
		var found uint64
		query := "SELECT count() FROM system.tables WHERE database = 'finance' AND name = ? AND position(create_table_query, concat('`', ?, '` ')) > 0"
		if n[1] == "ledger" {
			query = "SELECT count() FROM system.tables WHERE database = ? AND name = ?"
		}
		if err := w.ClickHouse.QueryRow(t.Context(), query, n[1], n[2]).Scan(&found); err != nil {
			t.Fatal(err)
		}
		if found != 1 {
			t.Errorf("there is no %s.%s", n[1], n[2])
		}
	}
}
