package clickhouse

import (
	"errors"
	"testing"
)

func TestAnInsertWithoutRowsTakesThemFromTheBody(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][2]string{
		"INSERT INTO t FORMAT Native":                              {"INSERT INTO t", "Native"},
		"  insert  into a.t (x, y)\nformat CSV ;\n":                {"  insert  into a.t (x, y)", "CSV"},
		"INSERT INTO t SETTINGS async_insert = 0 FORMAT Native":    {"INSERT INTO t SETTINGS async_insert = 0", "Native"},
		"INSERT INTO t (x) VALUES":                                 {"INSERT INTO t (x)", "Values"},
		"INSERT INTO t VALUES (1)":                                 {"", ""},
		"INSERT INTO t SELECT 1 FORMAT Native":                     {"", ""},
		"SELECT 'INSERT INTO t FORMAT Native' FORMAT TabSeparated": {"", ""},
		"": {"", ""},
	} {
		statement, format, ok := insertOf(sql)
		if statement != want[0] || format != want[1] || ok != (want[1] != "") {
			t.Errorf("%q: %q %q %v", sql, statement, format, ok)
		}
	}
}

func TestOnlyReadingStatementsEndWithTheirClient(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"SELECT 1": true, "\n-- why\n/* how */ (WITH 1 AS x SELECT x)": true, "show tables": true, "EXPLAIN SELECT 1": true,
		"INSERT INTO t SELECT 1": false, "/* SELECT */ DROP TABLE t": false, "": false, "SELECTED": false,
	} {
		if got := reading.MatchString(sql); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
}

func TestOnlyFormatsWithoutAFrameAreStreamed(t *testing.T) {
	t.Parallel()
	for st, want := range map[[2]string]bool{
		{"SELECT 1", "Native"}: true, {"SELECT 1", "JSON"}: false, {"SELECT 1 FORMAT JSON", "Native"}: false,
		{"SELECT 1 FORMAT CSV", "TabSeparated"}: true, {"SELECT ' format Pretty'", "Native"}: false, {"SELECT 1", "CSVWithNames"}: false,
	} {
		if got := mayStream(statement{sql: st[0], format: st[1]}); got != want {
			t.Errorf("%v: %v", st, got)
		}
	}
}

func TestAnErrorWithoutACodeStillHasOne(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]int{
		"Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)":        60,
		"Error: Code: 62. DB::Exception: Syntax error. (SYNTAX_ERROR)\n": 62,
		"the lights went out": codeUnknown,
	} {
		if exception := parseException(text); exception.Code != code || !exceptionCode.MatchString(exception.Text) {
			t.Errorf("%q: %+v", text, exception)
		}
	}
	if exception := asException(errors.New("x")); exception.Code != codeUnknown {
		t.Error(exception)
	}
}
