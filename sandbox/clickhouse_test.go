package sandbox_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	client "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hotledger/hotledger/sandbox"
)

func startClickHouse(t *testing.T, ctx context.Context) (*sandbox.ClickHouse, driver.Conn) {
	t.Helper()
	server, err := sandbox.StartClickHouse(ctx, sandbox.ClickHouseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := client.Open(&client.Options{Protocol: client.HTTP, Addr: []string{server.Addr()}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return server, conn
}

func TestClickHouseKeepsRowsAndTokensOverKillAndStop(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server, conn := startClickHouse(t, ctx)
	for _, statement := range []string{
		"CREATE DATABASE ledger",
		"CREATE TABLE ledger.events (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100, fsync_after_insert = 1, fsync_part_directory = 1",
		"CREATE VIEW ledger.v AS SELECT count() AS n FROM ledger.events",
	} {
		if err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	insert := func(token string) {
		t.Helper()
		batch, err := conn.PrepareBatch(client.Context(ctx, client.WithSettings(client.Settings{"async_insert": 0, "insert_deduplication_token": token})), "INSERT INTO ledger.events")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if err := batch.Append(uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Send(); err != nil {
			t.Fatal(err)
		}
	}
	requireRows := func(want uint64) {
		t.Helper()
		var n uint64
		if err := conn.QueryRow(ctx, "SELECT n FROM ledger.v").Scan(&n); err != nil || n != want {
			t.Fatalf("%d rows, want %d, error %v", n, want, err)
		}
	}
	insert("first")
	server.Kill()
	if err := conn.Ping(ctx); err == nil {
		t.Fatal("killed, and still there")
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	requireRows(1000)
	insert("first")
	requireRows(1000)
	insert("second")
	if err := server.Restart(ctx); err != nil { // stops it in good order first
		t.Fatal(err)
	}
	insert("second")
	requireRows(2000)
}

func TestClickHouseRefusesADirectoryThatIsInUse(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server, conn := startClickHouse(t, ctx)
	second, err := sandbox.StartClickHouse(ctx, sandbox.ClickHouseOptions{Dir: server.Dir()})
	if err == nil {
		_ = second.Stop()
		t.Fatal("two servers on one directory")
	}
	t.Log(err)
	if err := conn.Ping(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAMissingLibrarySaysHowToInstallIt(t *testing.T) {
	t.Setenv("CHDB_LIB_PATH", "/nowhere/libchdb.so")
	_, err := sandbox.StartClickHouse(testContext(t), sandbox.ClickHouseOptions{})
	if err == nil || !strings.Contains(err.Error(), "scripts/install-engines.sh") {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("not the error of the process: %v", err)
	}
}
