package clickhouse

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unsafe"
)

// session is one connection to the engine: it has its own settings, current database and temporary tables, and runs one
// statement at a time. Opening one costs about 0.2 ms, so every request gets a fresh one and nothing leaks between requests.
//
// The engine keeps per-thread state between the calls of one statement. Whoever opens a session therefore stays on its
// operating-system thread until close.
type session struct {
	api    *api
	handle *unsafe.Pointer
}

func openSession(a *api, args ...string) (*session, error) {
	runtime.LockOSThread()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args = append([]string{"clickhouse"}, args...)
	handle := a.connect(int32(len(args)), cArgs(&pinner, args))
	if handle == nil {
		runtime.UnlockOSThread()
		return nil, errors.New("open the data directory: the engine refused, it may be open in another process")
	}
	return &session{api: a, handle: handle}, nil
}

func (s *session) close() {
	s.api.close(s.handle)
	runtime.UnlockOSThread()
}

// statement is an SQL text with what a call into the engine needs beside it.
type statement struct {
	sql    string
	format string            // of the result, or of the rows of an insert
	params map[string]string // {name:Type} placeholders; values in TabSeparated escaping, as on ClickHouse's HTTP interface
}

// bind lays the parameters out as C arrays, pinned.
func (st statement) bind(pinner *runtime.Pinner) (names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) {
	if len(st.params) == 0 {
		return nil, nil, nil, nil, 0
	}
	keys := slices.Sorted(maps.Keys(st.params))
	pointers, lengths := make([]*byte, 2*len(keys)), make([]uintptr, 2*len(keys))
	for i, key := range keys {
		pointers[i], lengths[i] = pinned(pinner, key), uintptr(len(key))
		value := st.params[key]
		pointers[len(keys)+i], lengths[len(keys)+i] = pinned(pinner, value), uintptr(len(value))
	}
	pinner.Pin(&pointers[0])
	pinner.Pin(&lengths[0])
	return &pointers[0], &lengths[0], &pointers[len(keys)], &lengths[len(keys)], uintptr(len(keys))
}

// query runs a statement of any kind and returns its whole result, which the caller frees.
func (s *session) query(st statement) (*result, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	names, nameLens, values, valueLens, count := st.bind(&pinner)
	r := &result{api: s.api, handle: s.api.query(*s.handle, pinned(&pinner, st.sql), uintptr(len(st.sql)),
		pinned(&pinner, st.format), uintptr(len(st.format)), names, nameLens, values, valueLens, count)}
	if err := r.err(); err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// exec runs a statement whose result is of no interest.
func (s *session) exec(sql string) error {
	r, err := s.query(statement{sql: sql, format: "Null"})
	if err != nil {
		return err
	}
	r.free()
	return nil
}

// stream is a running SELECT whose result is fetched chunk by chunk.
type stream struct {
	session *session
	handle  unsafe.Pointer
	ended   bool
}

// errNotStreamable is returned for statements that the engine only runs to their end, such as DDL and INSERT. Nothing was executed.
var errNotStreamable = errors.New("statement has no streaming form")

func (s *session) stream(st statement) (*stream, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	names, nameLens, values, valueLens, count := st.bind(&pinner)
	handle := s.api.stream(*s.handle, pinned(&pinner, st.sql), uintptr(len(st.sql)),
		pinned(&pinner, st.format), uintptr(len(st.format)), names, nameLens, values, valueLens, count)
	if text := goString(s.api.resultError(handle)); text != "" {
		s.api.resultDestroy(handle)
		if strings.HasPrefix(text, "Code: 36. DB::Exception: Streaming query is not supported") {
			return nil, errNotStreamable
		}
		return nil, parseException(text)
	}
	return &stream{session: s, handle: handle}, nil
}

// next returns the next chunk, or nil at the end. A chunk of a row format holds whole rows, one of Native whole blocks.
func (st *stream) next() (*result, error) {
	r := &result{api: st.session.api, handle: st.session.api.fetch(*st.session.handle, st.handle)}
	if err := r.err(); err != nil {
		st.ended = true
		r.free()
		return nil, err
	}
	if len(r.bytes()) == 0 {
		st.ended = true
		r.free()
		return nil, nil
	}
	return r, nil
}

// close frees the stream and stops the query if it still runs.
func (st *stream) close() {
	if !st.ended {
		st.session.api.cancel(*st.session.handle, st.handle)
	}
	st.session.api.resultDestroy(st.handle)
}

// insert is a running INSERT to which rows are appended in the statement's format. Chunk borders are free.
type insert struct {
	session *session
	handle  unsafe.Pointer
}

func (s *session) insert(st statement) (*insert, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	names, nameLens, values, valueLens, count := st.bind(&pinner)
	i := &insert{session: s, handle: s.api.insert(*s.handle, pinned(&pinner, st.sql), uintptr(len(st.sql)),
		pinned(&pinner, st.format), uintptr(len(st.format)), names, nameLens, values, valueLens, count)}
	if err := i.err(); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

func (i *insert) err() error {
	if text := goString(i.session.api.insertError(i.handle)); text != "" {
		return parseException(text)
	}
	return nil
}

// Write appends rows. It blocks while the engine is behind.
func (i *insert) Write(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&data[0])
	if state := i.session.api.insertAppend(i.handle, &data[0], uintptr(len(data))); state != 0 {
		if err := i.err(); err != nil {
			return 0, err
		}
		return 0, errors.New("append rows: the insert has ended")
	}
	return len(data), nil
}

// done ends the rows and waits until they are written.
func (i *insert) done() (*result, error) {
	r := &result{api: i.session.api, handle: i.session.api.insertDone(i.handle)}
	if err := r.err(); err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// cancel drops what is not yet written.
func (i *insert) cancel() { i.session.api.insertCancel(i.handle) }

func (i *insert) close() { i.session.api.insertDestroy(i.handle) }

// result is memory of the engine: bytes is valid until free.
type result struct {
	api    *api
	handle unsafe.Pointer
}

func (r *result) bytes() []byte {
	if buffer := r.api.resultBuffer(r.handle); buffer != nil {
		return unsafe.Slice(buffer, r.api.resultLen(r.handle)) //nolint:gosec // pointer and length of one buffer of the engine
	}
	return nil
}

func (r *result) err() error {
	if r.handle == nil {
		return errors.New("run statement: the engine gave no result")
	}
	if text := goString(r.api.resultError(r.handle)); text != "" {
		return parseException(text)
	}
	return nil
}

func (r *result) free() {
	if r.handle != nil {
		r.api.resultDestroy(r.handle)
		r.handle = nil
	}
}
