package clickhouse_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// ask sends a request as curl would: a POST when there is a body, else a GET.
func ask(t *testing.T, ctx context.Context, params url.Values, body string) (status int, header http.Header, text string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+shared.Addr()+"/?"+params.Encode(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(content)
}

func TestCurlCanAskAndTell(t *testing.T) {
	t.Parallel()
	ctx, _, database := setup(t)
	in := func(pairs ...string) url.Values {
		params := url.Values{"database": {database}}
		for i := 0; i < len(pairs); i += 2 {
			params.Set(pairs[i], pairs[i+1])
		}
		return params
	}
	for _, step := range []struct {
		name   string
		params url.Values
		body   string
		want   string
	}{
		{"create", in(), "CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a", ""},
		{"rows in the statement", in(), "INSERT INTO t VALUES (1, 'x'), (2, 'format JSON')", ""},
		{"rows in the body", in("query", "INSERT INTO t FORMAT CSV"), "3,c\n4,\"d,d\"\n", ""},
		{"rows after the statement", in(), "INSERT INTO t FORMAT TSV\n5\te\n", ""},
		{"values in the body", in("query", "INSERT INTO t (a) VALUES"), "(6)", ""},
		{"get, TabSeparated by default", in("query", "SELECT a, s FROM t ORDER BY a"), "", "1\tx\n2\tformat JSON\n3\tc\n4\td,d\n5\te\n6\t\n"},
		{"statement in two parts", in("query", "SELECT a FROM t"), "WHERE a = 3", "3\n"},
		{"format clause", in(), "SELECT a FROM t WHERE a < 3 ORDER BY a FORMAT JSONEachRow", "{\"a\":1}\n{\"a\":2}\n"},
		{"format with a frame", in("query", "SELECT number FROM numbers(100000) ORDER BY number LIMIT 3 FORMAT CSVWithNames"), "", "\"number\"\n0\n1\n2\n"},
		{"default format", in("default_format", "CSV"), "SELECT s FROM t WHERE a = 1", "\"x\"\n"},
		{"parameter", in("param_who", "x", "max_threads", "1"), "SELECT a, getSetting('max_threads') FROM t WHERE s = {who:String}", "1\t1\n"},
		{"setting without effect on the next request", in("query", "SELECT getSetting('max_block_size')"), "", "65409\n"},
		{"comment before", in(), "-- why\nSELECT 1", "1\n"},
		{"empty result", in(), "SELECT a FROM t WHERE a = 99", ""},
	} {
		if status, _, text := ask(t, ctx, step.params, step.body); status != http.StatusOK || text != step.want {
			t.Fatalf("%s: status %d, %q, want %q", step.name, status, text, step.want)
		}
	}
}

func TestRefusalsHaveStatusCodeAndText(t *testing.T) {
	t.Parallel()
	ctx, _, _ := setup(t)
	for _, step := range []struct {
		params url.Values
		body   string
		status int
		code   string
	}{
		{url.Values{}, "SELECT * FROM nowhere", http.StatusNotFound, "60"},
		{url.Values{}, "SELEC 1", http.StatusBadRequest, "62"},
		{url.Values{"query": {"CREATE DATABASE by_get"}}, "", http.StatusInternalServerError, "164"},
		{url.Values{"session_id": {"s"}}, "SELECT 1", http.StatusNotImplemented, "48"},
		{url.Values{"wait_end_of_query": {"1"}}, "SELECT throwIf(number = 2000000) FROM numbers(3000000)", http.StatusInternalServerError, "395"},
		{url.Values{"decompress": {"1"}}, "SELECT 1 -- not compressed, whatever the parameter says", http.StatusBadRequest, "117"},
	} {
		status, header, text := ask(t, ctx, step.params, step.body)
		if status != step.status || header.Get("X-ClickHouse-Exception-Code") != step.code || !strings.HasPrefix(text, "Code: "+step.code+". DB::Exception: ") {
			t.Errorf("%v %s: %d %s %s", step.params, step.body, status, header.Get("X-ClickHouse-Exception-Code"), text)
		}
	}
}

func TestAnInsertThatBreaksOffInsertsNothing(t *testing.T) {
	t.Parallel()
	ctx, conn, database := setup(t)
	exec(t, ctx, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", shared.Addr())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(raw, "POST /?database=%s&async_insert=0&query=%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n1\n2\n3\n", database, url.QueryEscape("INSERT INTO t FORMAT TSV"))
	if err := raw.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	_ = raw.Close()
	if answer.StatusCode == http.StatusOK {
		t.Fatal("half an insert was accepted")
	}
	if n := count(t, ctx, conn, "SELECT count() FROM t"); n != 0 {
		t.Fatalf("half an insert left %d rows", n)
	}
}
