package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/anishathalye/porcupine"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/e2e/workload"
	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/projector"
	"github.com/hotledger/hotledger/reconciler"
	"github.com/hotledger/hotledger/sandbox"
)

const (
	shards     = 4
	writersMax = 3
)

// world is the whole ledger of one seed: engines, proxies before two of them, services in processes of their own, and clients that see the
// engines as they are.
type world struct {
	plan    Plan
	dir     string
	shared  *sandbox.ClickHouse
	broker  *broker
	redis   *sandbox.Redis
	toRedis *sandbox.Proxy
	toRows  *sandbox.Proxy

	writers    []*service
	projectors []*service

	rdb        goredis.UniversalClient
	store      *lua.Store
	rows       driver.Conn
	sender     *kgo.Client
	admin      *kadm.Client
	client     *producer.Client
	writerCfg  writer.Config
	projectCfg projector.Config
	reconcile  reconciler.Config
	load       *workload.Workload
	historian  *historian

	started time.Time
	close   []func()
	spoiled []string                   // environment of whoever goes through the proxies
	runs    map[reconciler.Verdict]int // of watch, which writes it until it ends

	redisMu    sync.Mutex // one fault of Redis's process at a time
	rowsMu     sync.Mutex // the same for ClickHouse
	kafkaMu    sync.Mutex // and for Kafka
	storesMu   sync.Mutex
	stores     [][]byte // older states of Redis, the oldest first
	mu         sync.Mutex
	log        []string // the history of faults
	complaints []string
}

// environment of the services: everything short, so that what is taken down is noticed soon.
func (w *world) environment(redisAddr, rowsAddr string) []string {
	suffix := fmt.Sprintf("%d_%d", w.plan.Seed, time.Now().UnixNano())
	return []string{
		"KAFKA_BROKERS=" + w.broker.addr(), fmt.Sprintf("LEDGER_SHARDS=%d", shards), "REDIS_ADDRS=" + redisAddr, "CLICKHOUSE_ADDRS=" + rowsAddr,
		"CLICKHOUSE_DATABASE=ledger_" + suffix, "CLICKHOUSE_FINANCE_DATABASE=finance_" + suffix,
		"REDIS_TIMEOUT=300ms", "LEDGER_WRITER_REDIS_BUDGET=700ms", "LEDGER_WRITER_TRANSACTION_TIMEOUT=1200ms", "LEDGER_WRITER_SESSION_TIMEOUT=1800ms",
		"LEDGER_WRITER_IDLE_CHECK=1s", fmt.Sprintf("LEDGER_WRITER_BATCH_RECORDS=%d", w.plan.BatchRecords),
		"PROJECTOR_BATCH_WAIT=150ms", "PROJECTOR_INSERT_TIMEOUT=2s", "PROJECTOR_BATCH_ROWS=300",
		fmt.Sprintf("LEDGER_WRITER_REBUILD_FROM_CLICKHOUSE=%t", w.plan.FromClickHouse), fmt.Sprintf("LEDGER_WRITER_DEDUPE_WINDOW=%s", w.plan.Window),
		"PRODUCER_OUTCOME_TIMEOUT=3s", "PRODUCER_SOURCE=chaos", "RECONCILER_BARRIER_TIMEOUT=8s", "RECONCILER_OUTCOME_TIMEOUT=8s",
	}
}

// newWorld starts everything of a seed, healthy.
func newWorld(ctx context.Context, plan Plan, rows *sandbox.ClickHouse, programs binaries, dir string) (w *world, err error) {
	w = &world{plan: plan, dir: dir, shared: rows, load: workload.New(plan.Seed, shards), runs: map[reconciler.Verdict]int{}}
	w.load.ReplyTo, w.load.Strays, w.load.Expiring, w.load.Stamped = "chaos-workload", true, true, plan.Stamped
	defer func() {
		if err != nil {
			w.end()
		}
	}()
	if err := w.startEngines(ctx); err != nil {
		return w, err
	}
	direct := w.environment(w.redis.Addr(), w.shared.Addr())
	if err := w.connect(ctx, append(slices.Clone(direct), "REDIS_TIMEOUT=10s")); err != nil { // to look on is no hurry, and the machine may be busy
		return w, err
	}
	w.spoiled = append(append([]string{}, direct...), "REDIS_ADDRS="+w.toRedis.Addr(), "CLICKHOUSE_ADDRS="+w.toRows.Addr())
	for i := range writersMax {
		name := fmt.Sprintf("writer-%d", i)
		w.writers = append(w.writers, w.service(name, programs.writer, append(w.spoiled, "LEDGER_WRITER_INSTANCE_ID="+name)))
	}
	for i := range plan.Projectors {
		name := fmt.Sprintf("projector-%d", i)
		w.projectors = append(w.projectors, w.service(name, programs.projector, append(w.spoiled, "PROJECTOR_MIGRATE=false")))
	}
	for _, s := range append(append([]*service{}, w.writers[:plan.Writers]...), w.projectors...) {
		if err := s.start(""); err != nil {
			return w, err
		}
	}
	w.historian = &historian{store: w.store, reads: !plan.Forgets(), start: time.Now(), histories: map[string][]porcupine.Operation{}}
	return w, nil
}

func (w *world) startEngines(ctx context.Context) (err error) {
	if w.broker, err = startBroker(ctx, w.plan.Apache); err != nil {
		return err
	}
	w.close = append(w.close, w.broker.close)
	if w.redis, err = sandbox.StartRedis(ctx, sandbox.RedisOptions{Dir: filepath.Join(w.dir, "redis")}); err != nil {
		return err
	}
	w.close = append(w.close, func() { _ = w.redis.Stop() })
	if w.toRedis, err = sandbox.StartProxy(w.redis.Addr()); err != nil {
		return err
	}
	w.close = append(w.close, w.toRedis.Close)
	if w.toRows, err = sandbox.StartProxy(w.shared.Addr()); err != nil {
		return err
	}
	w.close = append(w.close, w.toRows.Close)
	return nil
}

// connect makes the clients, the topics and the tables.
func (w *world) connect(ctx context.Context, environ []string) (err error) {
	var producerCfg producer.Config
	for service, cfg := range map[string]any{"ledger-writer": &w.writerCfg, "projector": &w.projectCfg, "reconciler": &w.reconcile, "producer": &producerCfg} {
		if err := config.Load(service, cfg, nil, environ); err != nil {
			return err
		}
	}
	if w.rdb, err = redis.NewClient(w.writerCfg.Redis); err != nil {
		return err
	}
	w.store = lua.New(w.rdb)
	w.close = append(w.close, func() { _ = w.rdb.Close() })
	if w.rows, err = clickhouse.Open(w.projectCfg.ClickHouse); err != nil {
		return err
	}
	w.close = append(w.close, func() { w.dropTables(); _ = w.rows.Close() })
	if w.sender, err = kafka.NewClient(w.writerCfg.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		return err
	}
	w.close = append(w.close, w.sender.Close)
	w.admin = kadm.NewClient(w.sender)
	if _, err := kafka.EnsureTopics(ctx, w.writerCfg.Kafka, w.sender); err != nil {
		return err
	}
	if w.client, err = producer.New(ctx, producerCfg, nil); err != nil {
		return err
	}
	w.close = append(w.close, w.client.Close)
	return projector.Migrate(ctx, w.projectCfg)
}

// dropTables keeps the shared ClickHouse small.
func (w *world) dropTables() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, database := range []string{w.projectCfg.ClickHouse.FinanceDatabase, w.projectCfg.ClickHouse.Database} {
		_ = w.rows.Exec(ctx, "DROP DATABASE IF EXISTS "+database) // what stays is removed with the server's directory
	}
}

func (w *world) service(name, binary string, environ []string) *service {
	return &service{name: name, binary: binary, environ: append(append([]string{}, environ...), "LOG_LEVEL=info"), logFile: filepath.Join(w.dir, name+".log"), complain: w.complain}
}

// end stops everything, the services first.
func (w *world) end() {
	var ending sync.WaitGroup
	for _, s := range append(append([]*service{}, w.writers...), w.projectors...) {
		ending.Go(s.close)
	}
	ending.Wait()
	for i := len(w.close) - 1; i >= 0; i-- {
		w.close[i]()
	}
}

// note adds to the history of the seed.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%7.3f s  ", time.Since(w.started).Seconds())+fmt.Sprintf(format, args...))
}

// complain notes a violation.
func (w *world) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complaints = append(w.complaints, fmt.Sprintf(format, args...))
}

// remember keeps the state of Redis now and then, for restores, until ctx ends.
func (w *world) remember(ctx context.Context) {
	const every = 400 * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		w.redisMu.Lock()
		err := w.rdb.Save(ctx).Err()
		var state []byte
		if err == nil {
			state, err = os.ReadFile(w.rdbFile())
		}
		w.redisMu.Unlock()
		if err == nil {
			w.storesMu.Lock()
			w.stores = append(w.stores, state)
			w.storesMu.Unlock()
		}
	}
}

func (w *world) rdbFile() string { return filepath.Join(w.redis.Dir(), "dump.rdb") }

var errNothingKept = errors.New("no older state was kept yet")

// older returns one of the states that were kept.
func (w *world) older(which int) ([]byte, error) {
	w.storesMu.Lock()
	defer w.storesMu.Unlock()
	if len(w.stores) == 0 {
		return nil, errNothingKept
	}
	return w.stores[which%len(w.stores)], nil
}
