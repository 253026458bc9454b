package reconciler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
	migrations "github.com/hotledger/hotledger/schemas/clickhouse"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

const testShards = 3

var worlds atomic.Int64

// world is a ledger without services: Redis decides through the scripts, and the test plays ledger-writer and projector.
type world struct {
	t     testing.TB
	ctx   context.Context
	cfg   Config
	store *lua.Store
	rdb   goredis.UniversalClient
	rows  driver.Conn
	kafka *kgo.Client
	redis *sandbox.Redis

	mu        sync.Mutex        // one ledger-writer: guards all below
	points    []lua.Point       // ends of the log
	waiting   []*ledgerv1.Event // decided, not yet projected
	log       [testShards][]*ledgerv1.Event
	projector bool                  // false: events wait
	forge     func(*ledgerv1.Event) // changes what is published

	waitingCommands []*ledgerv1.Command // of a benchmark
}

func setup(t testing.TB) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, points: make([]lua.Point, testShards), projector: true}
	w.must(config.Load("reconciler", &w.cfg, nil, nil))
	w.cfg.BarrierTimeout, w.cfg.OutcomeTimeout = 20*time.Second, 20*time.Second
	w.cfg.Kafka.Shards = testShards
	w.startEngines()
	for shard := range w.points {
		build, err := w.store.BeginBuild(ctx, shard, "g1")
		w.must(err)
		w.must(build.Swap(ctx))
		w.points[shard] = lua.Origin
	}
	return w
}

func (w *world) startEngines() {
	cluster, err := sandbox.StartKafka(sandbox.KafkaOptions{})
	w.must(err)
	w.t.Cleanup(cluster.Close)
	w.cfg.Kafka.Brokers = cluster.Addrs()
	w.kafka, err = kafka.NewClient(w.cfg.Kafka, zap.NewNop(), kgo.ConsumeTopics(topics.Commands), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.must(err)
	w.t.Cleanup(w.kafka.Close)
	_, err = kafka.EnsureTopics(w.ctx, w.cfg.Kafka, w.kafka)
	w.must(err)

	w.redis, err = sandbox.StartRedis(w.ctx, sandbox.RedisOptions{})
	w.must(err)
	w.t.Cleanup(func() { _ = w.redis.Stop() })
	w.cfg.Redis.Addrs = []string{w.redis.Addr()}
	w.rdb, err = redis.NewClient(w.cfg.Redis)
	w.must(err)
	w.t.Cleanup(func() { _ = w.rdb.Close() })
	w.store = lua.New(w.rdb)

	w.cfg.ClickHouse.Addrs, err = clickHouseAddrs()
	w.must(err)
	name := fmt.Sprintf("%d_%d", time.Now().UnixNano(), worlds.Add(1))
	w.cfg.ClickHouse.Database, w.cfg.ClickHouse.FinanceDatabase = "ledger_"+name, "finance_"+name
	db, err := clickhouse.OpenDB(w.cfg.ClickHouse)
	w.must(err)
	defer func() { _ = db.Close() }()
	w.must(migrations.Migrate(w.ctx, db, migrations.Databases{Ledger: w.cfg.ClickHouse.Database, Finance: w.cfg.ClickHouse.FinanceDatabase}))
	w.rows, err = clickhouse.Open(w.cfg.ClickHouse)
	w.must(err)
	w.t.Cleanup(func() { _ = w.rows.Close() })
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// run runs one reconciliation with its own Reconciler.
func (w *world) run(change ...func(*Config)) (*Report, error) {
	w.t.Helper()
	cfg := w.cfg
	for _, c := range change {
		c(&cfg)
	}
	r, err := New(cfg, zap.NewNop(), prometheus.NewRegistry())
	w.must(err)
	defer func() { w.must(r.Close()) }()
	return r.Run(w.ctx)
}

// mustRun wants a run that could tell.
func (w *world) mustRun(change ...func(*Config)) *Report {
	w.t.Helper()
	report, err := w.run(change...)
	w.must(err)
	return report
}

func open(account, currency string) *ledgerv1.Command {
	return &ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_OPEN, Account: account, Currency: currency}
}

func credit(account string, amount int64, currency string) *ledgerv1.Command {
	return &ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: account, Amount: strconv.FormatInt(amount, 10), Currency: currency}
}

func debit(account string, amount int64, currency string) *ledgerv1.Command {
	return &ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: account, Amount: strconv.FormatInt(amount, 10), Currency: currency}
}

var commandNumber atomic.Int64

// submit plays the ledger-writer: decides the commands in Redis, shard by shard, and projects their events if the projector runs.
// It returns the outcomes by command id.
func (w *world) submit(commands ...*ledgerv1.Command) map[string]*ledgerv1.Outcome {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	byShard := map[int][]lua.Command{}
	for _, c := range commands {
		if c.GetCommandId() == "" {
			c.CommandId = fmt.Sprintf("c%d", commandNumber.Add(1))
		}
		shard := topics.ShardOf(c.GetAccount(), testShards)
		body, err := proto.Marshal(c)
		w.must(err)
		byShard[shard] = append(byShard[shard], lua.Command{Command: c, Fingerprint: lua.FingerprintOf(c), Body: body})
	}
	outcomes := map[string]*ledgerv1.Outcome{}
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		for part := range slices.Chunk(byShard[shard], lua.CommandsMax) {
			w.decide(shard, part, outcomes)
		}
	}
	w.must(w.kafka.Flush(w.ctx))
	if w.projector {
		w.insert(w.waiting)
		w.waiting = nil
	}
	return outcomes
}

func (w *world) decide(shard int, commands []lua.Command, outcomes map[string]*ledgerv1.Outcome) {
	w.t.Helper()
	result := w.store.Apply(w.ctx, lua.Call{Shard: shard, Expected: w.points[shard].Head, Now: time.Now(), Commands: commands})
	w.must(result.Err)
	w.points[shard].Head = result.Head
	if result.Entry != "" {
		w.must(w.store.Trim(w.ctx, shard, []string{result.Entry}))
	}
	for i, d := range result.Decisions {
		outcome := d.Outcome
		if d.Kind == lua.Reused {
			outcome = &ledgerv1.Outcome{CommandId: outcome.GetCommandId(), Status: ledgerv1.Status_STATUS_REJECTED, Reason: ledgerv1.Reason_REASON_COMMAND_ID_REUSED}
		}
		outcomes[outcome.GetCommandId()] = outcome
		if d.Kind != lua.Decided {
			continue
		}
		event, link, err := w.points[shard].Link.Event(commands[i], d)
		w.must(err)
		w.points[shard].Link = link
		event.Outcome.BusinessDate = event.GetOutcome().GetDecidedAt().AsTime().Format(time.DateOnly)
		if w.forge != nil {
			w.forge(event)
		}
		w.publish(shard, event)
		w.waiting = append(w.waiting, event)
		w.log[shard] = append(w.log[shard], event)
	}
}

// publish appends an event to the log in Kafka. Nobody else does, so its offset is its position less one.
func (w *world) publish(shard int, event *ledgerv1.Event) {
	w.t.Helper()
	value, err := proto.Marshal(event)
	w.must(err)
	w.kafka.Produce(w.ctx, &kgo.Record{Topic: topics.Events, Partition: int32(shard), Key: []byte(event.GetOutcome().GetAccount()), Value: value},
		func(_ *kgo.Record, err error) {
			if err != nil && w.ctx.Err() == nil {
				w.t.Error(err)
			}
		})
}

// stopProjector keeps events back; startProjector lets them out.
func (w *world) stopProjector() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.projector = false
}

func (w *world) startProjector() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.projector = true
	w.insert(w.waiting)
	w.waiting = nil
}

func (w *world) insert(events []*ledgerv1.Event) {
	w.t.Helper()
	if len(events) == 0 {
		return
	}
	var rows []map[string]any
	for _, e := range events {
		shard := int(e.GetOutcome().GetShard())
		event, err := rowOf(logged{event: e, shard: shard, key: []byte(e.GetOutcome().GetAccount()), offset: int64(e.GetOutcome().GetPosition()) - 1, at: time.Now()})
		w.must(err)
		rows = append(rows, event.columns(shard))
	}
	columns := sortedKeys(rows[0])
	batch, err := w.rows.PrepareBatch(w.ctx, "INSERT INTO events ("+strings.Join(columns, ", ")+")")
	w.must(err)
	defer func() { _ = batch.Close() }()
	for _, values := range rows {
		row, err := inOrder(values, columns)
		w.must(err)
		w.must(batch.Append(row...))
	}
	w.must(batch.Send())
}

// query reads one value.
func (w *world) query(sql string, into ...any) {
	w.t.Helper()
	w.must(w.rows.QueryRow(w.ctx, sql).Scan(into...))
}

// alter changes ledger.events behind everybody's back.
func (w *world) alter(sql string) {
	w.t.Helper()
	w.must(w.rows.Exec(w.ctx, sql+" SETTINGS mutations_sync = 2"))
}

// tamper rewrites an account's record behind everybody's back.
func (w *world) tamper(account string, change func(*lua.Account)) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	shard := topics.ShardOf(account, testShards)
	a, ok, err := w.store.Account(w.ctx, shard, account)
	w.must(err)
	if !ok {
		w.t.Fatalf("account %q is not in Redis", account)
	}
	change(&a)
	w.setRecord(account, a.Record())
}

func (w *world) setRecord(account, record string) {
	w.t.Helper()
	w.must(w.rdb.HSet(w.ctx, lua.AccountsKey(topics.ShardOf(account, testShards)), account, record).Err())
}

func (w *world) forget(account string) {
	w.t.Helper()
	w.must(w.rdb.HDel(w.ctx, lua.AccountsKey(topics.ShardOf(account, testShards)), account).Err())
}

func (w *world) account(account string) lua.Account {
	w.t.Helper()
	a, ok, err := w.store.Account(w.ctx, topics.ShardOf(account, testShards), account)
	w.must(err)
	if !ok {
		w.t.Fatalf("account %q is not in Redis", account)
	}
	return a
}

// serve plays the ledger-writer for what comes through ledger.commands, until the test ends: decide, project, reply.
func (w *world) serve() {
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			w.kafka.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
				command := &ledgerv1.Command{}
				if err := proto.Unmarshal(record.Value, command); err != nil {
					w.t.Error(err)
					return
				}
				outcome := w.submit(command)[command.GetCommandId()]
				value, err := proto.Marshal(&ledgerv1.Reply{ReplyTo: command.GetReplyTo(), Outcome: outcome})
				if err != nil {
					w.t.Error(err)
				}
				reply := &kgo.Record{
					Topic: topics.Replies, Partition: topics.PartitionOf(command.GetReplyTo(), testShards), Key: []byte(command.GetCommandId()), Value: value,
				}
				if err := w.kafka.ProduceSync(ctx, reply).FirstErr(); err != nil && ctx.Err() == nil {
					w.t.Error(err)
				}
			})
		}
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

// commands counts what lies in ledger.commands.
func (w *world) commandsSent() int {
	w.t.Helper()
	client, err := kafka.NewClient(w.cfg.Kafka, zap.NewNop())
	w.must(err)
	defer client.Close()
	return countRecords(w, client)
}

// traffic submits commands of a kind for as long as the test lets it, and returns how to stop it.
func (w *world) traffic(next func(i int) []*ledgerv1.Command) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { // ends with ctx
		for i := 0; ctx.Err() == nil; i++ {
			w.submit(next(i)...)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return stop
}

// rebuild puts a shard's keys back as the log says, as a recovery of the ledger-writer does, under a new generation.
func (w *world) rebuild(shard int, generation string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	build, err := w.store.BeginBuild(w.ctx, shard, generation)
	w.must(err)
	begun := 0
	for i, e := range w.log[shard] {
		if _, ends := lua.PointOf(e); ends { // one call after the other
			w.must(build.Add(w.ctx, w.log[shard][begun:i+1]))
			begun = i + 1
		}
	}
	w.must(build.Swap(w.ctx))
}
