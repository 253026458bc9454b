// Package projector copies the log into ClickHouse: every event once, in the order of the log, whole batches or nothing, however
// often it is killed. The protocol is in worker.go (loop); each step has a file of its own.
package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/schemas/topics"
)

// GCPercent is how far a projector's heap grows over what is live, a batch and two fetches per shard, before it is collected; see run.TuneGC.
const GCPercent = 300

// Projector is the service. New builds it, Run runs it once.
type Projector struct {
	cfg        Config
	logger     *zap.Logger
	registry   *prometheus.Registry
	metrics    *instruments
	health     *metrics.Health
	clickhouse driver.Conn
	work       func(ctx context.Context, w *worker) error // (*worker).run; tests stop between its steps

	mu          sync.Mutex
	assignments map[int32]*assignment // by shard; written by the group's callbacks and the drain
	halted      map[int32]error       // by shard; written by workers, read by readiness and Run
}

// New builds a projector from a valid Config. It connects to nothing. Its metrics go to reg, which must not have them yet.
func New(cfg Config, logger *zap.Logger, reg *prometheus.Registry) (*Projector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(cfg.ClickHouse)
	if err != nil {
		return nil, err
	}
	p := &Projector{
		cfg: cfg, logger: logger, registry: reg, metrics: newInstruments(reg), health: metrics.NewHealth(), clickhouse: conn,
		work:        func(ctx context.Context, w *worker) error { return w.run(ctx) },
		assignments: map[int32]*assignment{}, halted: map[int32]error{},
	}
	p.health.Check("clickhouse", func(ctx context.Context) error { return clickhouse.Ping(ctx, cfg.ClickHouse, conn) })
	p.health.Check("shards", func(context.Context) error { return p.haltedError() })
	return p, nil
}

// Health is ready while ClickHouse answers and no shard is halted. It is always live: whatever a worker waits for, a restart
// would not bring it sooner.
func (p *Projector) Health() *metrics.Health { return p.health }

// Run projects until ctx ends, then finishes the inserts in flight, commits and leaves the group. It waits for engines that are
// not there yet. It returns nil after a clean drain; the HaltError of every halted shard, joined; or what made a start
// impossible (a topic that contradicts the ledger).
//
// A halted shard does not end Run: the others go on, while the log, the metric and the readiness tell.
func (p *Projector) Run(ctx context.Context) error {
	defer p.clickhouse.Close() //nolint:errcheck // nothing is in flight any more
	stopServing := p.serve(ctx)
	defer stopServing()
	if err := p.prepare(ctx); err != nil {
		return err
	}
	group, err := p.join()
	if err != nil {
		return err
	}
	defer group.Close()
	p.watch(ctx, group)
	p.drain(context.Cause(ctx))
	return p.haltedError()
}

// prepare brings ClickHouse up to date and checks the topics. It waits for engines that are not there yet.
func (p *Projector) prepare(ctx context.Context) error {
	if p.cfg.Migrate {
		if err := retry.Do(ctx, p.logger, "migrate", func(ctx context.Context) error { return Migrate(ctx, p.cfg) }); err != nil {
			return err
		}
	}
	client, err := kafka.NewClient(p.cfg.Kafka, p.logger)
	if err != nil {
		return err
	}
	defer client.Close()
	return retry.Do(ctx, p.logger, "ensure topics", func(ctx context.Context) error {
		_, err := kafka.EnsureTopics(ctx, p.cfg.Kafka, client)
		return err
	})
}

// join enters the group. Its client hands out shards and keeps offsets; it fetches nothing (poll.go does).
func (p *Projector) join() (*kgo.Client, error) {
	group, err := kafka.NewClient(p.cfg.Kafka, p.logger,
		kgo.ConsumerGroup(p.cfg.Group),
		kgo.ConsumeTopics(topics.Events),
		// A commit is a step of the protocol.
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(p.assigned),
		kgo.OnPartitionsRevoked(p.revoked),
		kgo.OnPartitionsLost(p.lost),
	)
	if err != nil {
		return nil, err
	}
	group.PauseFetchTopics(topics.Events)
	return group, nil
}

// watch logs what goes wrong with the group, until ctx ends. The library rejoins by itself.
func (p *Projector) watch(ctx context.Context, group *kgo.Client) {
	var measuring sync.WaitGroup
	defer measuring.Wait()
	measuring.Go(func() { p.measureLag(ctx, group) })
	for ctx.Err() == nil {
		group.PollFetches(ctx).EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				p.logger.Warn("consumer group", zap.Error(err))
			}
		})
	}
}

// drain ends all workers; each finishes what it began.
func (p *Projector) drain(cause error) {
	p.mu.Lock()
	shards := make([]int32, 0, len(p.assignments))
	for shard := range p.assignments {
		shards = append(shards, shard)
	}
	p.mu.Unlock()
	p.logger.Info("draining", zap.NamedError("cause", cause), zap.Int("shards", len(shards)))
	p.release(shards, cause, false)
}

// ended notes why a worker returned.
func (p *Projector) ended(shard int32, err error) {
	if err == nil {
		return
	}
	var halt *HaltError
	if !errors.As(err, &halt) {
		halt = &HaltError{Shard: shard, Reason: "unexpected", Err: err}
	}
	p.mu.Lock()
	p.halted[shard] = halt
	p.mu.Unlock()
	p.metrics.halted(shard, halt.Reason)
	p.logger.Error("shard halted, an operator has to look; other shards go on", zap.Int32("shard", shard), zap.String("reason", halt.Reason), zap.Error(halt.Err))
}

// forget drops what this process knows of shards that are somebody else's now.
func (p *Projector) forget(shards []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, shard := range shards {
		delete(p.halted, shard)
		p.metrics.released(shard)
	}
}

// haltedError joins the halts of the shards that this process has or had, in the order of the shards.
func (p *Projector) haltedError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	shards := make([]int32, 0, len(p.halted))
	for shard := range p.halted {
		shards = append(shards, shard)
	}
	slices.Sort(shards)
	all := make([]error, 0, len(shards))
	for _, shard := range shards {
		all = append(all, p.halted[shard])
	}
	return errors.Join(all...)
}

// serve answers probes and scrapes until the returned func is called, which is after the drain.
func (p *Projector) serve(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := metrics.Serve(ctx, p.cfg.Metrics.Addr, p.registry, p.health); err != nil {
			p.logger.Error("metrics are not served", zap.Error(fmt.Errorf("serve: %w", err)))
		}
	}()
	return func() {
		cancel()
		<-served
	}
}
