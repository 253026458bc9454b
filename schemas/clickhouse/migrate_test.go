package clickhouse

import (
	"io/fs"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// That the migrations run, twice and from two processes at once, is tested on a real engine in e2e/finance_test.go.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two processes may run the same statement at the same time, or one process a second time after a crash.
func TestEveryStatementMayRunTwice(t *testing.T) {
	t.Parallel()
	for file, text := range migrationTexts(t, Databases{}) {
		if !strings.Contains(text, "-- +goose NO TRANSACTION\n") {
			t.Errorf("%s: ClickHouse has no transactions, say so", file)
		}
		for _, statement := range statements(text) {
			addsOnce := strings.HasPrefix(statement, "ALTER TABLE ") && strings.Contains(statement, " IF NOT EXISTS ")
			if !strings.HasPrefix(statement, "CREATE TABLE IF NOT EXISTS ") && !strings.HasPrefix(statement, "CREATE OR REPLACE VIEW ") && !addsOnce {
				t.Errorf("%s: may not run twice: %.60q", file, statement)
			}
		}
	}
}

func TestTheDatabasesAreTheCallers(t *testing.T) {
	t.Parallel()
	for file, text := range migrationTexts(t, Databases{Ledger: "l7", Finance: "f7"}) {
		if strings.Contains(text, "${") {
			t.Errorf("%s: a name is left open", file)
		}
		for _, statement := range statements(text) {
			name := strings.Fields(strings.NewReplacer("IF NOT EXISTS ", "", "OR REPLACE ", "").Replace(statement))[2]
			if !strings.HasPrefix(name, "l7.") && !strings.HasPrefix(name, "f7.") {
				t.Errorf("%s: %s is in neither database", file, name)
			}
		}
	}
}

// A reader who may see the finance database and nothing else must get by with its views alone.
func TestFinanceHoldsViewsThatReadForTheirReader(t *testing.T) {
	t.Parallel()
	for file, text := range migrationTexts(t, Databases{}) {
		for _, statement := range statements(text) {
			if !strings.Contains(strings.SplitN(statement, "\n", 2)[0], " finance.") {
				continue
			}
			if !strings.HasPrefix(statement, "CREATE OR REPLACE VIEW ") || !strings.Contains(statement, "\nDEFINER = CURRENT_USER SQL SECURITY DEFINER\n") {
				t.Errorf("%s: %.60q is no view that reads with its definer's rights", file, statement)
			}
		}
	}
}

func TestBadDatabaseNamesAreRefused(t *testing.T) {
	t.Parallel()
	for _, databases := range []Databases{
		{Ledger: "a b"}, {Ledger: "a;DROP"}, {Finance: "a.b"}, {Finance: "`a`"}, {Ledger: "1a"}, {Ledger: strings.Repeat("a", 65)}, {Ledger: "same", Finance: "same"}, {Ledger: "finance"},
	} {
		if databases.Validate() == nil {
			t.Errorf("%+v: want an error", databases)
		}
		if Migrate(t.Context(), nil, databases) == nil {
			t.Errorf("migrate %+v: want an error before anything is run", databases)
		}
	}
	for _, databases := range []Databases{{}, {Ledger: "ledger_2", Finance: "Finance"}} {
		if err := databases.Validate(); err != nil {
			t.Errorf("%+v: %v", databases, err)
		}
	}
}

func migrationTexts(t *testing.T, databases Databases) map[string]string {
	t.Helper()
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	named := namedFS{sub, databases.WithDefaults()}
	files, err := fs.Glob(named, "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	texts := make(map[string]string)
	for _, file := range files {
		text, err := fs.ReadFile(named, file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
	}
	return texts
}

// statements returns the statements of a migration without the comments between them.
func statements(text string) []string {
	var sql strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			sql.WriteString(line)
		}
	}
	parts := strings.Split(sql.String(), ";\n")
	all := make([]string, 0, len(parts))
	for _, statement := range parts {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, statement)
		}
	}
	return all
}
