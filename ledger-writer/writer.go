package writer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/lua"
)

// Writer owns some shards and decides their commands, in order. One goroutine runs its loop, and in a batch one more for each shard.
type Writer struct {
	cfg        Config
	logger     *zap.Logger
	metrics    *counters
	health     *metrics.Health
	rdb        goredis.UniversalClient
	store      *lua.Store
	clickhouse driver.Conn // nil: nothing is forgotten, and rebuilds are from the log alone
	calendar   calendar
	topics     map[string]kadm.TopicID // from EnsureTopics

	evicting    atomic.Pointer[redis.PolicyError] // written by watchPolicy, read by readiness checks; nil: no master would evict
	policyCheck time.Duration                     // the constant of that name; less in a test

	// Of one tenure (see tenure.go); used by the loop alone, except ownership, which the group's callbacks write.
	session *kgo.GroupTransactSession
	admin   *kadm.Client
	log     *eventLog
	owned   ownership
	inTxn   bool
	pace    pace
	besides map[int]*beside // by shard
	// besideEvents is the constant of that name; less in a test.
	besideEvents uint64
}

// New builds a writer. It connects to nothing yet; Run does. health may serve /livez and /readyz.
func New(cfg Config, logger *zap.Logger, reg prometheus.Registerer, health *metrics.Health) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	days, err := newCalendar(cfg.TimeZone, cfg.DayEnds)
	if err != nil {
		return nil, err
	}
	rdb, err := redis.NewClient(cfg.Redis)
	if err != nil {
		return nil, fmt.Errorf("redis client: %w", err)
	}
	w := &Writer{
		cfg: cfg, logger: logger, metrics: newCounters(reg), health: health,
		rdb: rdb, store: lua.New(rdb).Remembering(cfg.DedupeWindow), besideEvents: besideEvents, besides: map[int]*beside{},
		policyCheck: policyCheck, calendar: days, pace: newPace(cfg.BatchRecords),
	}
	health.Check("redis eviction policy", w.policyReady)
	if cfg.RebuildFromClickHouse || cfg.DedupeWindow > 0 {
		if w.clickhouse, err = clickhouse.Open(cfg.ClickHouse); err != nil {
			return nil, errors.Join(err, rdb.Close())
		}
	}
	return w, nil
}

// Run decides commands until ctx ends, then finishes the batch it is in, leaves the group and returns nil. It returns an error only for
// what a person must mend: topics that contradict the ledger's contract, an evicting Redis, a log that lost its beginning.
func (w *Writer) Run(ctx context.Context) error {
	defer w.close()
	if err := w.prepare(ctx); err != nil {
		return ending(ctx, err)
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { w.watchPolicy(watching) })
	err := retry.Do(ctx, w.logger, "own shards", w.tenure)
	stop()
	watch.Wait()
	return ending(ctx, err)
}

func (w *Writer) close() {
	_ = w.rdb.Close()
	if w.clickhouse != nil {
		_ = w.clickhouse.Close()
	}
}

// ending turns the end of ctx into a clean return.
func ending(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // what was cut short was meant to be
	}
	return err
}

// prepare waits for Kafka and Redis, and refuses what would lose money.
func (w *Writer) prepare(ctx context.Context) error {
	client, err := kafka.NewClient(w.cfg.Kafka, w.logger)
	if err != nil {
		return err
	}
	defer client.Close()
	err = retry.Do(ctx, w.logger, "check topics", func(ctx context.Context) error {
		var err error
		w.topics, err = kafka.EnsureTopics(ctx, w.cfg.Kafka, client)
		return err
	})
	if err != nil {
		return err
	}
	return retry.Do(ctx, w.logger, "check redis", func(ctx context.Context) error {
		err := redis.CheckPolicy(ctx, w.rdb)
		if policy := (*redis.PolicyError)(nil); errors.As(err, &policy) {
			return retry.Permanent(err)
		}
		return err
	})
}

// turn is the loop: what happens to one batch. An error means that nothing of it counts until the shards are recovered.
func (w *Writer) turn(ctx context.Context) error {
	batch, err := w.poll(ctx)
	defer w.session.AllowRebalance()
	if err != nil {
		return err
	}
	work := context.WithoutCancel(ctx) // a batch that has begun is finished
	if err := w.recover(work, batch); err != nil {
		return err
	}
	w.expire(work, batch)
	if batch.empty() {
		return w.checkIdle(work)
	}
	begun := time.Now()
	w.share(batch)
	if batch.out, err = w.open(); err != nil {
		return err
	}
	if err := w.apply(work, batch); err != nil {
		return err
	}
	hit(trapApplied)
	if err := w.publish(work, batch); err != nil {
		return err
	}
	if err := w.commit(work, nil); err != nil {
		return err
	}
	hit(trapCommitted)
	w.trim(work, batch)
	w.pace.took(batch.size(), time.Since(begun))
	return nil
}
