// Package clickhouse serves ClickHouse's HTTP interface from libchdb, the ClickHouse engine as a library.
//
// Unmodified clients work: clickhouse-go/v2 with Protocol: clickhouse.HTTP, and curl. One process holds one engine with one
// data directory. There are no users, no sessions, no native protocol and no replication.
package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Options of a server in this process.
type Options struct {
	// Dir holds the data and is created when missing. Every server of one process must use the same.
	Dir string
	// Addr to listen on, host:port; port 0 takes a free one. Default 127.0.0.1:0. There is no login: keep it on the loopback.
	Addr string
	// QueriesMax that run at the same time; more wait. Default 64: each holds an operating-system thread.
	QueriesMax int
}

// Server is the engine behind an HTTP listener.
type Server struct {
	api      *api
	dir      string
	version  string   // of the engine
	timezone string   // of the engine
	keeper   *session // keeps the engine up between requests; used by nobody else
	slots    chan struct{}

	listener net.Listener
	http     *http.Server
	open     context.Context // ends when Close has waited long enough for running queries; parent of every request's context
	cancel   context.CancelCauseFunc
	served   chan struct{} // closed when Serve has returned
	close    func() error
}

const (
	queriesMaxDefault = 64
	drainMax          = 10 * time.Second // how long Close waits for running queries before it kills them
	headerReadMax     = 10 * time.Second
)

var errServerClosing = errors.New("server is closing")

// New opens the engine on the directory, starts to listen and serves in the background until Close.
func New(options Options) (*Server, error) {
	a, err := loadLibrary()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	slots := options.QueriesMax
	if slots <= 0 {
		slots = queriesMaxDefault
	}
	s := &Server{api: a, dir: dir, slots: make(chan struct{}, slots), served: make(chan struct{})}
	if err := s.openKeeper(); err != nil {
		return nil, err
	}
	s.listener, err = net.Listen("tcp", firstOf(options.Addr, "127.0.0.1:0"))
	if err != nil {
		s.api.close(s.keeper.handle)
		return nil, fmt.Errorf("listen: %w", err)
	}
	s.open, s.cancel = context.WithCancelCause(context.Background())
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: headerReadMax, BaseContext: func(net.Listener) context.Context { return s.open }}
	s.close = sync.OnceValue(s.shutdown)
	go func() {
		defer close(s.served)
		_ = s.http.Serve(s.listener) // ErrServerClosed after Close; a broken listener shows as refused connections
	}()
	return s, nil
}

// openKeeper boots the engine. The keeper runs no statement after this, so its thread is given back at once.
func (s *Server) openKeeper() error {
	keeper, err := s.openSession()
	if err != nil {
		return err
	}
	defer runtime.UnlockOSThread()
	answer, err := keeper.query(statement{sql: "SELECT version(), timezone()", format: "TSVRaw"})
	if err != nil {
		s.api.close(keeper.handle)
		return fmt.Errorf("ask the engine who it is: %w", err)
	}
	s.version, s.timezone, _ = strings.Cut(strings.TrimSpace(string(answer.bytes())), "\t")
	answer.free()
	s.keeper = keeper
	return nil
}

// openSession connects to the engine, with clickhouse-local's own habits turned back to those of the server.
func (s *Server) openSession(settings ...string) (*session, error) {
	return openSession(s.api, append([]string{"--path=" + s.dir, "--implicit_select=0"}, settings...)...)
}

// Addr is host:port of the HTTP interface.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close stops listening, lets running queries end for some seconds, kills the rest and closes the engine.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	err := s.http.Shutdown(ctx)
	s.cancel(errServerClosing)
	for range cap(s.slots) { // every query gives its slot back when it has ended
		s.slots <- struct{}{}
	}
	_ = s.http.Close()
	<-s.served
	s.api.close(s.keeper.handle)
	if err != nil {
		return fmt.Errorf("close server: %w", err)
	}
	return nil
}
