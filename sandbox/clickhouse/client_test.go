package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	client "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/pressly/goose/v3"
	"github.com/shopspring/decimal"
)

func TestEveryColumnTypeOfTheLedgerComesBackAsWritten(t *testing.T) {
	t.Parallel()
	for _, method := range []client.CompressionMethod{client.CompressionNone, client.CompressionLZ4, client.CompressionZSTD, client.CompressionGZIP} {
		t.Run(method.String(), func(t *testing.T) {
			t.Parallel()
			ctx, _, database := setup(t)
			opt := options(shared.Addr(), database)
			opt.Compression = &client.Compression{Method: method, Level: 1}
			opt.Settings = client.Settings{"enable_http_compression": 1}
			conn := open(t, opt)
			exec(t, ctx, conn, `CREATE TABLE t (
				text String, number UInt64, delta Int64, wide Int128, status Enum8('applied'=1,'rejected'=2), at DateTime64(3,'UTC'),
				unit LowCardinality(String), fingerprint FixedString(4), metadata Map(String,String), amount Decimal(38,2), maybe Nullable(Int64), tags Array(String), flag Bool
			) ENGINE = MergeTree ORDER BY number`)
			wide, _ := new(big.Int).SetString("-170141183460469231731687303715884105728", 10)
			at := time.Date(2026, 3, 29, 1, 30, 0, 123e6, time.UTC)
			batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
			if err != nil {
				t.Fatal(err)
			}
			const rows = 10_000
			for i := range rows {
				if err := batch.Append(fmt.Sprint("line\n\t'\\", i), uint64(i), int64(-i), wide, "rejected", at, "USD/2", "\x00\x01\x02\xff",
					map[string]string{"k": "v"}, decimal.RequireFromString("999999999999999999.99"), nil, []string{"a", ""}, true); err != nil {
					t.Fatal(err)
				}
			}
			if err := batch.Send(); err != nil {
				t.Fatal(err)
			}
			result, err := conn.Query(ctx, "SELECT * FROM t ORDER BY number")
			if err != nil {
				t.Fatal(err)
			}
			defer result.Close()
			n := 0
			for ; result.Next(); n++ {
				var (
					text, status, unit, fingerprint string
					number                          uint64
					delta                           int64
					gotWide                         big.Int
					gotAt                           time.Time
					metadata                        map[string]string
					amount                          decimal.Decimal
					maybe                           *int64
					tags                            []string
					flag                            bool
				)
				if err := result.Scan(&text, &number, &delta, &gotWide, &status, &gotAt, &unit, &fingerprint, &metadata, &amount, &maybe, &tags, &flag); err != nil {
					t.Fatal(err)
				}
				if text != fmt.Sprint("line\n\t'\\", n) || number != uint64(n) || delta != int64(-n) || gotWide.Cmp(wide) != 0 || status != "rejected" || !gotAt.Equal(at) ||
					unit != "USD/2" || fingerprint != "\x00\x01\x02\xff" || metadata["k"] != "v" || amount.String() != "999999999999999999.99" || maybe != nil || len(tags) != 2 || !flag {
					t.Fatalf("row %d: %q %d %d %s %s %s %s %q %v %s %v %v", n, text, number, delta, gotWide.String(), status, gotAt, unit, fingerprint, metadata, amount, tags, flag)
				}
			}
			if err := result.Err(); err != nil || n != rows {
				t.Fatalf("got %d rows, error %v", n, err)
			}
		})
	}
}

func TestATokenInsertsItsRowsOnce(t *testing.T) {
	t.Parallel()
	ctx, conn, _ := setup(t)
	exec(t, ctx, conn, `CREATE TABLE events (account String, position UInt64) ENGINE = MergeTree ORDER BY account SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1`)
	send := func(token string, rows int) {
		t.Helper()
		inserting := client.Context(ctx, client.WithSettings(client.Settings{"async_insert": 0, "insert_deduplication_token": token, "max_partitions_per_insert_block": 1}))
		batch, err := conn.PrepareBatch(inserting, "INSERT INTO events (account, position)")
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if err := batch.Append("a", uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Send(); err != nil {
			t.Fatal(err)
		}
	}
	send("0:1-200000", 200_000)
	send("0:1-200000", 200_000)
	if n := count(t, ctx, conn, "SELECT count() FROM events"); n != 200_000 {
		t.Fatalf("the same token twice gave %d rows", n)
	}
	if n := count(t, ctx, conn, "SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active"); n != 1 {
		t.Fatalf("one batch made %d parts: it was split", n)
	}
	send("0:200001-200003", 3)
	if n := count(t, ctx, conn, "SELECT count() FROM events"); n != 200_003 {
		t.Fatalf("another token gave %d rows", n)
	}
}

func TestSettingsReachTheEngine(t *testing.T) {
	t.Parallel()
	ctx, conn, _ := setup(t)
	var async, threads, quoted string
	settings := client.Context(ctx, client.WithSettings(client.Settings{"async_insert": 0, "max_threads": 3, "format_csv_null_representation": `it's \ "it"`}))
	if err := conn.QueryRow(settings, "SELECT toString(getSetting('async_insert')), toString(getSetting('max_threads')), getSetting('format_csv_null_representation')").Scan(&async, &threads, &quoted); err != nil {
		t.Fatal(err)
	}
	if async != "false" || threads != "3" || quoted != `it's \ "it"` {
		t.Fatal(async, threads, quoted)
	}
	if err := conn.QueryRow(ctx, "SELECT toString(getSetting('async_insert'))").Scan(&async); err != nil || async != "true" {
		t.Fatalf("a setting leaked into the next request: %s %v", async, err)
	}
	exec(t, ctx, conn, "CREATE TABLE t (month Date) ENGINE = MergeTree PARTITION BY month ORDER BY month")
	batch, err := conn.PrepareBatch(client.Context(ctx, client.WithSettings(client.Settings{"async_insert": 0, "max_partitions_per_insert_block": 1})), "INSERT INTO t")
	if err != nil {
		t.Fatal(err)
	}
	for day := 1; day < 3; day++ {
		if err := batch.Append(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	requireCode(t, batch.Send(), 252)
	if n := count(t, ctx, conn, "SELECT count() FROM t"); n != 0 {
		t.Fatalf("a refused block left %d rows", n)
	}
	batch, err = conn.PrepareBatch(ctx, "INSERT INTO t (month)") // with the engine's default, async_insert
	if err != nil {
		t.Fatal(err)
	}
	if err := batch.Append(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, ctx, conn, "SELECT count() FROM t"); n != 1 {
		t.Fatalf("an acknowledged asynchronous insert shows %d rows", n)
	}
}

func requireCode(t *testing.T, err error, code int32) {
	t.Helper()
	var exception *client.Exception
	if !errors.As(err, &exception) || exception.Code != code {
		t.Fatalf("got %v, want code %d", err, code)
	}
}

func TestErrorsCarryTheCodeOfClickHouse(t *testing.T) {
	t.Parallel()
	for _, method := range []client.CompressionMethod{client.CompressionNone, client.CompressionLZ4} {
		t.Run(method.String(), func(t *testing.T) {
			t.Parallel()
			ctx, _, database := setup(t)
			opt := options(shared.Addr(), database)
			opt.Compression = &client.Compression{Method: method}
			conn := open(t, opt)
			exec(t, ctx, conn, "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
			for query, code := range map[string]int32{
				"SELEC 1": 62, "SELECT * FROM nowhere": 60, "SELECT b FROM t": 47, "SELECT * FROM nowhere.t": 81, "SELECT nofunc(1)": 46,
				"SELECT throwIf(1)": 395, "SELECT {x:UInt8}": 456, "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a": 57,
			} {
				rows, err := conn.Query(ctx, query)
				if err == nil {
					_ = rows.Close()
				}
				requireCode(t, err, code)
			}
			requireCode(t, conn.Exec(ctx, "INSERT INTO t SELECT throwIf(1)"), 395)
			settings := client.Context(ctx, client.WithSettings(client.Settings{"no_such_setting": 1}))
			requireCode(t, conn.Exec(settings, "SELECT 1"), 115)

			missing := options(shared.Addr(), "no_such_database")
			requireCode(t, open(t, missing).Ping(ctx), 81)
		})
	}
}

func TestAFailureInMidStreamIsAnErrorNotAShortResult(t *testing.T) {
	t.Parallel()
	for _, method := range []client.CompressionMethod{client.CompressionNone, client.CompressionLZ4, client.CompressionGZIP} {
		t.Run(method.String(), func(t *testing.T) {
			t.Parallel()
			ctx, _, database := setup(t)
			opt := options(shared.Addr(), database)
			opt.Compression = &client.Compression{Method: method, Level: 1}
			opt.Settings = client.Settings{"enable_http_compression": 1}
			conn := open(t, opt)
			rows, err := conn.Query(ctx, "SELECT number, throwIf(number = 2000000) FROM numbers(3000000) SETTINGS max_threads = 1")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			n := 0
			for rows.Next() {
				n++
			}
			requireCode(t, rows.Err(), 395)
			if n == 0 {
				t.Fatal("nothing was streamed before the failure")
			}
		})
	}
}

func TestGooseMigratesAndLedgerSchemaFeaturesWork(t *testing.T) {
	t.Parallel()
	ctx, conn, database := setup(t)
	other := database + "_finance"
	migrations := fstest.MapFS{
		"001_events.sql": {Data: []byte(`-- +goose Up
CREATE TABLE events (
  account String, sequence UInt64, shard UInt16, position UInt64, delta Int64, status Enum8('applied'=1,'rejected'=2), log_time DateTime64(3,'UTC'),
  metadata Map(String,String), fingerprint FixedString(16), ingested_at DateTime64(3,'UTC') DEFAULT now64(3),
  PROJECTION watermark (SELECT shard, count(), max(position), sum(toInt128(delta)) GROUP BY shard)
) ENGINE = MergeTree PARTITION BY toYYYYMM(log_time) ORDER BY (account, sequence, position) SETTINGS non_replicated_deduplication_window = 100000;
CREATE TABLE latest (account String, balance Int64, sequence UInt64) ENGINE = ReplacingMergeTree(sequence) ORDER BY account;
-- +goose Down
DROP TABLE events;
DROP TABLE latest;
`)},
		"002_views.sql": {Data: []byte(`-- +goose Up
CREATE DATABASE ` + other + `;
CREATE VIEW ` + other + `.statement AS SELECT sequence, delta FROM ` + database + `.events WHERE account = {account:String} ORDER BY sequence COMMENT 'one account';
-- +goose Down
DROP DATABASE ` + other + `;
`)},
	}
	db := openDB(t, options(shared.Addr(), database))
	provider, err := goose.NewProvider(goose.DialectClickHouse, db, migrations)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := provider.Up(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if version, err := provider.GetDBVersion(ctx); err != nil || version != 2 {
		t.Fatal(version, err)
	}

	exec(t, ctx, conn,
		"INSERT INTO events (account, sequence, shard, position, delta, log_time) SELECT concat('a', toString(number % 3)), intDiv(number, 3) + 1, 1, number + 1, number, now() FROM numbers(30)",
		"INSERT INTO latest VALUES ('a', 1, 1), ('b', 5, 1)", "INSERT INTO latest VALUES ('a', 2, 2)")
	if n := count(t, ctx, conn, "SELECT max(position) FROM events WHERE shard = 1 SETTINGS force_optimize_projection = 1"); n != 30 {
		t.Fatal("projection", n)
	}
	if n := count(t, ctx, conn, "SELECT toUInt64(balance) FROM latest FINAL WHERE account = 'a'"); n != 2 {
		t.Fatal("final", n)
	}
	if n := count(t, ctx, conn, "SELECT count() FROM "+other+".statement(account='a1')"); n != 10 {
		t.Fatal("parameterised view", n)
	}
	bound := client.Context(ctx, client.WithParameters(client.Parameters{"who": "a2", "from": "3"}))
	if n := count(t, bound, conn, "SELECT count() FROM events WHERE account = {who:String} AND sequence >= {from:UInt64}"); n != 8 {
		t.Fatal("query parameters", n)
	}
	if n := count(t, ctx, conn, "SELECT count() FROM events WHERE account = ? AND sequence >= ?", "a2", 3); n != 8 {
		t.Fatal("positional parameters", n)
	}
	if n := count(t, ctx, conn, "SELECT count() FROM "+other+".statement(account={who:String})", client.Named("who", "a0")); n != 10 {
		t.Fatal("named parameter of a view", n)
	}
}

func TestQueriesRunSideBySide(t *testing.T) {
	t.Parallel()
	ctx, conn, _ := setup(t)
	exec(t, ctx, conn, "CREATE TABLE t (worker UInt64, a UInt64) ENGINE = MergeTree ORDER BY a")
	const workers, rounds, rows = 8, 10, 500
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	for worker := range workers {
		wg.Go(func() {
			errs <- func() error {
				for round := range rounds {
					batch, err := conn.PrepareBatch(client.Context(ctx, client.WithSettings(client.Settings{"async_insert": 0})), "INSERT INTO t")
					if err != nil {
						return err
					}
					for i := range rows {
						if err := batch.Append(uint64(worker), uint64(round*rows+i)); err != nil {
							return err
						}
					}
					if err := batch.Send(); err != nil {
						return err
					}
					var n uint64
					if err := conn.QueryRow(ctx, "SELECT count() FROM t WHERE worker = ?", worker).Scan(&n); err != nil {
						return err
					}
					if want := uint64((round + 1) * rows); n != want {
						return fmt.Errorf("worker %d sees %d of its own rows, want %d", worker, n, want)
					}
				}
				return nil
			}()
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, ctx, conn, "SELECT count() FROM t"); n != workers*rounds*rows {
		t.Fatal(n)
	}
}

func TestALargeResultStreams(t *testing.T) {
	t.Parallel()
	ctx, conn, _ := setup(t)
	rows, err := conn.Query(ctx, "SELECT number, repeat('x', 100) FROM numbers(1000000)")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var sum, n uint64
	for rows.Next() {
		var number uint64
		var text string
		if err := rows.Scan(&number, &text); err != nil {
			t.Fatal(err)
		}
		sum += number
		n++
	}
	if rows.Err() != nil || n != 1_000_000 || sum != 499_999_500_000 {
		t.Fatal(n, sum, rows.Err())
	}
}

func TestAClientThatHangsUpEndsItsQueryAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"while it computes": "SELECT count() AS computes FROM numbers(1000000000000) WHERE sipHash64(number) = 1",
		"while it sends":    "SELECT number AS sends FROM numbers(1000000000000)",
		"in memory":         "SELECT count() AS memory FROM numbers(1000000000000) WHERE sipHash64(number) = 1 FORMAT JSON",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, conn, database := setup(t)
			queryCtx, hangUp := context.WithCancel(ctx)
			defer hangUp()
			ended := make(chan error, 1)
			go func() { ended <- conn.Exec(queryCtx, query) }()
			running := func() uint64 {
				return count(t, ctx, conn, "SELECT count() FROM system.processes WHERE current_database = ? AND query LIKE ? AND query NOT LIKE '%system.processes%'",
					database, "SELECT % FROM numbers(1000000000000)%")
			}
			for running() == 0 {
				if err := ctx.Err(); err != nil {
					t.Fatal(err)
				}
			}
			hangUp()
			<-ended // Exec of this client also returns nil when the answer had begun
			for running() != 0 {
				if err := ctx.Err(); err != nil {
					t.Fatal("the query still runs after its client is gone")
				}
			}
		})
	}
}
