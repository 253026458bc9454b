package projector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/sandbox"
	"github.com/hotledger/hotledger/schemas/topics"
)

// bench is what one test has: a Kafka of its own with topics, a database of its own, and a ledger that writes events.
type bench struct {
	t      testing.TB
	ctx    context.Context
	cfg    Config
	kafka  *sandbox.Kafka
	client *kgo.Client // transactional producer and admin
	admin  *kadm.Client
	rows   driver.Conn
	ledger *ledger
	logs   *observer.ObservedLogs
	logger *zap.Logger
	engine *sandbox.ClickHouse // only with ownClickHouse
}

const testShards = 3

var databases atomic.Int64

type option func(*bench)

// ownClickHouse gives the test a server that it may kill.
func ownClickHouse(b *bench) {
	var err error
	if b.engine, err = sandbox.StartClickHouse(b.ctx, sandbox.ClickHouseOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = b.engine.Stop() })
	b.cfg.ClickHouse.Addrs = []string{b.engine.Addr()}
}

func setup(t testing.TB, options ...option) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	core, logs := observer.New(zapcore.InfoLevel)
	b := &bench{t: t, ctx: ctx, ledger: newLedger(), logs: logs, logger: zap.New(core)}
	if err := config.Load("projector", &b.cfg, nil, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.printLogs)
	var err error
	if b.kafka, err = sandbox.StartKafka(sandbox.KafkaOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kafka.Close)
	b.cfg.Kafka.Brokers, b.cfg.Kafka.Shards = b.kafka.Addrs(), testShards
	b.cfg.BatchRows, b.cfg.BatchWait, b.cfg.InsertTimeout = 7, 20*time.Millisecond, 10*time.Second
	number := databases.Add(1)
	b.cfg.ClickHouse.Database, b.cfg.ClickHouse.FinanceDatabase = fmt.Sprintf("ledger_%d_%d", time.Now().UnixNano(), number), fmt.Sprintf("finance_%d_%d", time.Now().UnixNano(), number)
	for _, o := range options {
		o(b)
	}
	if b.engine == nil {
		if b.cfg.ClickHouse.Addrs, err = sharedClickHouseAddrs(); err != nil {
			t.Fatal(err)
		}
	}
	b.client, err = kafka.NewClient(b.cfg.Kafka, b.logger, kgo.TransactionalID("test"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	b.must(err)
	t.Cleanup(b.client.Close)
	b.admin = kadm.NewClient(b.client)
	_, err = kafka.EnsureTopics(ctx, b.cfg.Kafka, b.client)
	b.must(err)
	b.must(Migrate(ctx, b.cfg))
	b.rows, err = clickhouse.Open(b.cfg.ClickHouse)
	b.must(err)
	t.Cleanup(func() { _ = b.rows.Close() })
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) printLogs() {
	if !b.t.Failed() {
		return
	}
	for _, entry := range b.logs.All() {
		b.t.Log(entry.Time.Format("05.000"), entry.Level, entry.LoggerName, entry.Message, entry.ContextMap())
	}
}

// produce writes records in one transaction.
func (b *bench) produce(end kgo.TransactionEndTry, records ...*kgo.Record) {
	b.t.Helper()
	b.must(b.client.BeginTransaction())
	b.must(b.client.ProduceSync(b.ctx, records...).FirstErr())
	b.must(b.client.EndTransaction(b.ctx, end))
}

// book commits the next n events of each shard.
func (b *bench) book(n int, shards ...int32) {
	b.t.Helper()
	b.produce(kgo.TryCommit, b.ledger.records(b.t, n, shards...)...)
}

// running is a projector that runs.
type running struct {
	*Projector
	stop func() error // ends it as SIGTERM would, and returns what Run returned
}

func (b *bench) build(change ...func(*Config)) *Projector {
	b.t.Helper()
	cfg := b.cfg
	for _, c := range change {
		c(&cfg)
	}
	p, err := New(cfg, b.logger, prometheus.NewRegistry())
	b.must(err)
	return p
}

func (b *bench) start(change ...func(*Config)) *running {
	b.t.Helper()
	return b.run(b.build(change...))
}

func (b *bench) run(p *Projector) *running {
	ctx, cancel := context.WithCancelCause(b.ctx)
	ended := make(chan struct{})
	var result error
	go func() {
		defer close(ended)
		result = p.Run(ctx)
	}()
	r := &running{Projector: p, stop: func() error {
		cancel(errors.New("test stops it"))
		<-ended
		return result
	}}
	b.t.Cleanup(func() { _ = r.stop() })
	return r
}

// await returns when the condition returns nil.
func (b *bench) await(what string, condition func() error) {
	b.t.Helper()
	b.must(retry.Do(b.ctx, zap.NewNop(), what, func(context.Context) error { return condition() }))
}

// awaitRows returns when ClickHouse has all that was booked on the shards.
func (b *bench) awaitRows(shards ...int32) {
	b.t.Helper()
	for _, shard := range shards {
		want := b.ledger.links[shard].Position
		b.await(fmt.Sprintf("wait for position %d of shard %d", want, shard), func() error {
			if got := b.lastPosition(shard); got != want {
				return fmt.Errorf("ClickHouse has position %d", got)
			}
			return nil
		})
	}
}

func (b *bench) lastPosition(shard int32) (last uint64) {
	b.t.Helper()
	b.await("read position", func() error {
		return b.rows.QueryRow(b.ctx, "SELECT max(position) FROM events WHERE shard = ?", uint16(shard)).Scan(&last)
	})
	return last
}

// checkRows fails unless each shard has the positions 1 to what was booked, each once, with the ledger's chain and balance at the end.
func (b *bench) checkRows(shards ...int32) {
	b.t.Helper()
	for _, shard := range shards {
		var rows, distinct, first, last uint64
		var balance, delta int64
		var chain string
		b.must(b.rows.QueryRow(b.ctx, `SELECT count(), uniqExact(position), min(position), max(position), argMax(balance_after, position), sum(delta), lower(hex(argMax(chain, position)))
			FROM events WHERE shard = ? SETTINGS optimize_use_projections = 0`, uint16(shard)).Scan(&rows, &distinct, &first, &last, &balance, &delta, &chain))
		head := b.ledger.links[shard]
		want := head.Position
		if rows != want || distinct != want || first != 1 || last != want {
			b.t.Fatalf("shard %d: %d rows, %d positions from %d to %d, want 1 to %d once each", shard, rows, distinct, first, last, want)
		}
		if balance != b.ledger.balance[shard] || delta != balance || chain != head.Chain.String() {
			b.t.Fatalf("shard %d: balance %d, sum %d, chain %s; want %d and %s", shard, balance, delta, chain, b.ledger.balance[shard], head.Chain)
		}
	}
}

func (b *bench) exec(sql string) {
	b.t.Helper()
	b.must(b.rows.Exec(b.ctx, sql))
}

// mark is what Kafka remembers of the shard.
func (b *bench) mark(shard int32) *mark {
	b.t.Helper()
	offsets, err := b.admin.FetchOffsets(b.ctx, b.cfg.Group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	b.must(err)
	committed, _ := offsets.Lookup(topics.Events, shard)
	m, err := parseMark(committed.Metadata)
	b.must(err)
	return m
}

// awaitMark returns when everything that was booked on the shard is acknowledged.
func (b *bench) awaitMark(shard int32) {
	b.t.Helper()
	want := b.ledger.links[shard].Position
	b.await("wait for the last commit", func() error {
		if m := b.mark(shard); m == nil || m.intended() || m.Done != want {
			return fmt.Errorf("mark is %+v", m)
		}
		return nil
	})
}

func (b *bench) logged(message string) int {
	return b.logs.Filter(func(e observer.LoggedEntry) bool { return strings.Contains(e.Message, message) }).Len()
}

// hold returns a projector whose workers are handed over instead of run, one at a time; the test calls their steps.
func (b *bench) hold(change ...func(*Config)) (r *running, workers <-chan *worker) {
	p := b.build(change...)
	handed := make(chan *worker, testShards)
	p.work = func(ctx context.Context, w *worker) error {
		handed <- w
		<-ctx.Done()
		return nil
	}
	return b.run(p), handed
}

// worker waits for the worker of one shard.
func (b *bench) worker(workers <-chan *worker, shard int32) *worker {
	b.t.Helper()
	for {
		select {
		case w := <-workers:
			if w.shard == shard {
				return w
			}
		case <-b.ctx.Done():
			b.t.Fatal("no worker for the shard")
		}
	}
}

// timestampType says whose clock stamps the events that are produced from now on.
func (b *bench) timestampType(value string) {
	b.t.Helper()
	responses, err := b.admin.AlterTopicConfigs(b.ctx, []kadm.AlterConfig{{Name: "message.timestamp.type", Value: &value}}, topics.Events)
	b.must(err)
	for _, r := range responses {
		b.must(r.Err)
	}
}

// deleteRecords drops the log's records before an offset.
func (b *bench) deleteRecords(shard int32, before int64) {
	b.t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topics.Events, shard, before, -1)
	responses, err := b.admin.DeleteRecords(b.ctx, offsets)
	b.must(err)
	b.must(responses.Error())
}

// recreateEvents deletes the log and creates it again, empty.
func (b *bench) recreateEvents() {
	b.t.Helper()
	responses, err := b.admin.DeleteTopics(b.ctx, topics.Events)
	b.must(err)
	b.must(responses.Error())
	fresh, err := kafka.NewClient(b.cfg.Kafka, b.logger)
	b.must(err)
	defer fresh.Close()
	_, err = kafka.EnsureTopics(b.ctx, b.cfg.Kafka, fresh)
	b.must(err)
}
