package clickhouse

import (
	"compress/gzip"
	"compress/zlib"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// request is one HTTP request in the engine's terms.
type request struct {
	queryID  string
	database string            // "" = the session's default
	settings map[string]string // every parameter of the URL that is not named below
	stmt     statement
	body     io.Reader // rows of an insert; nil when the statement has none

	helloRevision int // above 0: answer clickhouse-go's hello in the form of this revision

	// changes is true for a statement that does more than read. Like ClickHouse, the server ends it even when its client is gone.
	changes bool

	compressNative string // "", "LZ4" or "ZSTD": result in ClickHouse's own compressed frames
	compressGZIP   bool
	waitEnd        bool // answer only when the whole result is known
}

// Limits of one request.
const (
	sqlBytesMax = 16 << 20 // SQL text without the rows of an insert that come in the body of their own
)

// notSettings are parameters of ClickHouse's HTTP interface that say how to answer, or that mean nothing without users and sessions.
var notSettings = []string{"query", "database", "default_format", "query_id", "user", "password", "quota_key", "role", "client_protocol_version",
	"compress", "decompress", "wait_end_of_query", "buffer_size", "stacktrace", "session_timeout", "session_check"}

// readRequest reads everything but the rows of an insert.
func readRequest(r *http.Request) (*request, error) {
	params := r.URL.Query()
	if params.Get("session_id") != "" {
		return nil, exceptionf(codeNotImplemented, "NOT_IMPLEMENTED", "Sessions are not kept by this server, leave out session_id")
	}
	q := &request{
		queryID:  firstOf(params.Get("query_id"), rand.Text()),
		database: firstOf(params.Get("database"), r.Header.Get("X-ClickHouse-Database")),
		settings: map[string]string{},
		stmt:     statement{params: map[string]string{}},
		waitEnd:  isOn(params.Get("wait_end_of_query")),
	}
	for name, values := range params {
		value := values[len(values)-1]
		if param, ok := strings.CutPrefix(name, "param_"); ok {
			q.stmt.params[param] = value
		} else if !slices.Contains(notSettings, name) {
			q.settings[name] = value
		}
	}
	if isOn(params.Get("compress")) {
		q.compressNative = firstOf(strings.ToUpper(params.Get("network_compression_method")), "LZ4")
	}
	if r.Method == http.MethodGet && q.settings["readonly"] == "" {
		q.settings["readonly"] = "2" // as ClickHouse does: a GET changes nothing
	}
	q.compressGZIP = isOn(params.Get("enable_http_compression")) && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")

	body, err := decodeBody(r, isOn(params.Get("decompress")))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return nil, exceptionf(codeNotImplemented, "NOT_IMPLEMENTED", "External tables are not taken by this server")
	}
	return q, q.readStatement(params, body, firstOf(params.Get("default_format"), r.Header.Get("X-ClickHouse-Format"), "TabSeparated"))
}

// readStatement joins the query of the URL and the body: an insert in the URL takes the body as its rows, any other text
// goes on in the body.
func (q *request) readStatement(params url.Values, body io.Reader, defaultFormat string) error {
	sql := params.Get("query")
	if insertSQL, format, ok := insertOf(sql); ok {
		q.stmt.sql, q.stmt.format, q.body, q.changes = insertSQL, format, body, true
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(body, sqlBytesMax+1))
	if err != nil {
		return exceptionf(codeIncorrectData, "INCORRECT_DATA", "Cannot read the request's body: %v", err)
	}
	if len(text) > sqlBytesMax {
		return exceptionf(codeBadArguments, "BAD_ARGUMENTS", "The statement is longer than %d bytes, send the rows of an insert in the body and INSERT INTO ... FORMAT ... in the query parameter", sqlBytesMax)
	}
	if sql != "" && len(text) > 0 {
		sql += "\n"
	}
	q.stmt.sql, q.stmt.format = sql+string(text), defaultFormat
	q.changes = !reading.MatchString(q.stmt.sql)
	if revision, ok := isHello(params, q.stmt.sql); ok {
		q.helloRevision = revision
	}
	return nil
}

var (
	reading      = regexp.MustCompile(`(?is)^(\s|--[^\n]*\n|/\*.*?\*/|\()*(SELECT|WITH|SHOW|DESC|DESCRIBE|EXPLAIN|EXISTS)\b`)
	insertStart  = regexp.MustCompile(`(?is)^\s*INSERT\s+INTO\s`)
	insertFormat = regexp.MustCompile(`(?is)\sFORMAT\s+(\w+)\s*;?\s*$`)
	insertValues = regexp.MustCompile(`(?is)\sVALUES\s*;?\s*$`)
	insertSelect = regexp.MustCompile(`(?is)\b(SELECT|VALUES)\b`)
)

// insertOf recognises an INSERT whose rows are not part of the text and separates its FORMAT clause, which the engine takes on its own.
func insertOf(sql string) (statement, format string, ok bool) {
	if !insertStart.MatchString(sql) {
		return "", "", false
	}
	if match := insertFormat.FindStringSubmatchIndex(sql); match != nil && !insertSelect.MatchString(sql[:match[0]]) {
		return sql[:match[0]], sql[match[2]:match[3]], true
	}
	if at := insertValues.FindStringIndex(sql); at != nil {
		return sql[:at[0]], "Values", true
	}
	return "", "", false
}

// decodeBody undoes Content-Encoding and ClickHouse's own compressed frames.
func decodeBody(r *http.Request, frames bool) (io.Reader, error) {
	var body io.Reader = r.Body
	var err error
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		body, err = gzip.NewReader(r.Body)
	case "deflate":
		body, err = zlib.NewReader(r.Body)
	default:
		return nil, exceptionf(codeNotImplemented, "NOT_IMPLEMENTED", "Content-Encoding %s is not taken by this server", encoding)
	}
	if err != nil {
		return nil, exceptionf(codeIncorrectData, "INCORRECT_DATA", "Cannot decompress the request's body: %v", err)
	}
	if frames {
		body = &frameReader{reader: compress.NewReader(body)}
	}
	return body, nil
}

// frameReader gives the end of the frames as a plain io.EOF.
type frameReader struct{ reader *compress.Reader }

func (f *frameReader) Read(p []byte) (int, error) {
	n, err := f.reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	return n, err
}

// setSQL is the SET statement for the request's settings, or "".
func (q *request) setSQL() string {
	assignments := make([]string, 0, len(q.settings))
	for _, name := range slices.Sorted(maps.Keys(q.settings)) {
		assignments = append(assignments, fmt.Sprintf("%s = %s", quoteName(name), quoteText(q.settings[name])))
	}
	if len(assignments) == 0 {
		return ""
	}
	return "SET " + strings.Join(assignments, ", ")
}

func quoteName(name string) string { return "`" + escape(name, "`") + "`" }

func quoteText(text string) string { return "'" + escape(text, "'") + "'" }

func escape(text, quote string) string {
	return strings.NewReplacer(`\`, `\\`, quote, `\`+quote).Replace(text)
}

func isOn(value string) bool { return value == "1" || strings.EqualFold(value, "true") }

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
