package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"time"
)

// ServeHTTP answers one request of ClickHouse's HTTP interface.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/ping" || r.URL.Path == "/replicas_status",
		r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.RawQuery == "":
		_, _ = io.WriteString(w, "Ok.\n")
	case r.URL.Path != "/":
		http.Error(w, "There is no handle "+r.URL.Path+", use / or /ping.", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		http.Error(w, "Use GET or POST.", http.StatusMethodNotAllowed)
	default:
		s.serveQuery(w, r)
	}
}

func (s *Server) serveQuery(w http.ResponseWriter, r *http.Request) {
	a := newAnswer(w, s.version)
	q, err := readRequest(r)
	if err != nil {
		a.fail(err)
		return
	}
	a.describe(q)
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		a.fail(exceptionf(codeAborted, "ABORTED", "Not started: %v", context.Cause(r.Context())))
		return
	}
	if err := s.run(r, q, a); err != nil {
		a.fail(err)
		return
	}
	a.finish()
}

// run gives the request a session of its own, brings it into the asked state and runs the statement.
func (s *Server) run(r *http.Request, q *request, a *answer) error {
	// log_comment carries the query id, because the engine makes its own ids: by it a query is found again when it has to be killed.
	q.settings["log_comment"] = q.queryID
	session, err := s.openSession()
	if err != nil {
		return err
	}
	defer session.close()
	if q.database != "" {
		if err := session.exec("USE " + quoteName(q.database)); err != nil {
			return err
		}
	}
	if err := session.exec(q.setSQL()); err != nil {
		return err
	}
	if q.helloRevision > 0 {
		block, err := helloBlock(q.helloRevision, s.version, s.timezone)
		if err != nil {
			return err
		}
		return a.write(block)
	}
	if q.body != nil {
		return runInsert(session, q, a)
	}
	until := r.Context()
	if q.changes {
		until = s.open
	}
	defer s.killAfter(until, q.queryID)()
	return runQuery(session, q, a)
}

// runInsert streams the body into the engine. A body that breaks off inserts nothing that is not yet written; for one block of
// Native that is nothing at all.
func runInsert(session *session, q *request, a *answer) error {
	rows, err := session.insert(q.stmt)
	if err != nil {
		return err
	}
	defer rows.close()
	if _, err := io.CopyBuffer(rows, q.body, make([]byte, insertChunkBytes)); err != nil {
		rows.cancel()
		var exception *Exception
		if errors.As(err, &exception) {
			return err
		}
		return exceptionf(codeIncorrectData, "INCORRECT_DATA", "Cannot read the rows to insert: %v", err)
	}
	done, err := rows.done()
	if err != nil {
		return err
	}
	defer done.free()
	a.summary(done)
	return nil
}

const insertChunkBytes = 1 << 20

// streamable formats are those whose result is the concatenation of its chunks' results. All others are built in memory first.
var streamable = []string{"Native", "RowBinary", "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "JSONEachRow", "JSONCompactEachRow", "JSONLines", "NDJSON", "LineAsString", "Null"}

var formatClause = regexp.MustCompile(`(?i)\bFORMAT\s+(\w+)`)

// mayStream says whether the result of the statement may be sent chunk by chunk. A FORMAT clause is only guessed: a word too
// many, as in a string literal, costs memory, never a wrong answer.
func mayStream(st statement) bool {
	for _, match := range formatClause.FindAllStringSubmatch(st.sql, -1) {
		if !slices.Contains(streamable, match[1]) {
			return false
		}
	}
	return slices.Contains(streamable, st.format)
}

// runQuery runs any statement whose rows, if it is an insert, are in its text.
func runQuery(session *session, q *request, a *answer) error {
	if mayStream(q.stmt) {
		rows, err := session.stream(q.stmt)
		if err == nil {
			defer rows.close()
			return sendStream(rows, a)
		}
		if !errors.Is(err, errNotStreamable) {
			return err
		}
	}
	whole, err := session.query(q.stmt)
	if err != nil {
		return err
	}
	defer whole.free()
	a.summary(whole)
	return a.write(whole.bytes())
}

func sendStream(rows *stream, a *answer) error {
	for {
		chunk, err := rows.next()
		if err != nil || chunk == nil {
			return err
		}
		err = a.write(chunk.bytes())
		chunk.free()
		if err != nil {
			return fmt.Errorf("send result: %w", err)
		}
	}
}

// killAfter kills the query when ctx ends: its client has gone away, or the server closes. The returned func ends the watch and waits for it.
func (s *Server) killAfter(ctx context.Context, queryID string) (stop func()) {
	ended, watchEnded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watchEnded)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		again := time.NewTicker(killInterval) // the first try may come before the engine has registered the query
		defer again.Stop()
		for {
			s.kill(queryID)
			select {
			case <-ended:
				return
			case <-again.C:
			}
		}
	}()
	return func() {
		close(ended)
		<-watchEnded
	}
}

const killInterval = 100 * time.Millisecond

func (s *Server) kill(queryID string) {
	session, err := s.openSession()
	if err != nil {
		return // the engine is out of memory or closing; the ticker tries again
	}
	defer session.close()
	_ = session.exec("KILL QUERY WHERE Settings['log_comment'] = " + quoteText(queryID) + " ASYNC")
}
