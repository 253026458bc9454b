package clickhouse_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/sandbox"
)

// shared is one server for all tests that do not stop it; each test has a database of its own.
var shared *sandbox.ClickHouse

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the first start builds the command
	var err error
	shared, err = sandbox.StartClickHouse(ctx, sandbox.ClickHouseOptions{})
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(ended{m, shared})
}

// ended stops the shared server between the last test and the search for leaked goroutines.
type ended struct {
	tests  *testing.M
	server *sandbox.ClickHouse
}

func (e ended) Run() int {
	code := e.tests.Run()
	if err := e.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var databases atomic.Int64

func options(addr, database string) *client.Options {
	return &client.Options{
		Protocol: client.HTTP, Addr: []string{addr}, Auth: client.Auth{Database: database},
		MaxOpenConns: 16, DialTimeout: 5 * time.Second, ReadTimeout: time.Minute,
	}
}

func open(t *testing.T, opt *client.Options) driver.Conn {
	t.Helper()
	conn, err := client.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func openDB(t *testing.T, opt *client.Options) *sql.DB {
	t.Helper()
	opt.MaxOpenConns, opt.ConnMaxLifetime = 0, 0 // OpenDB wants these set on the DB
	db := client.OpenDB(opt)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// setup makes a database and connects to it with the client's defaults.
func setup(t *testing.T) (context.Context, driver.Conn, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	database := fmt.Sprintf("test_%d", databases.Add(1))
	admin := open(t, options(shared.Addr(), ""))
	exec(t, ctx, admin, "CREATE DATABASE "+database)
	return ctx, open(t, options(shared.Addr(), database)), database
}

func exec(t *testing.T, ctx context.Context, conn driver.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", strings.Join(strings.Fields(statement), " "), err)
		}
	}
}

func count(t *testing.T, ctx context.Context, conn driver.Conn, query string, args ...any) uint64 {
	t.Helper()
	var n uint64
	if err := conn.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
