// Package reconciler compares the actual balances in Redis with the theoretical ones that ClickHouse rebuilds from the log, each
// account at the same sequence, and issues a repair where the log says what Redis should hold. Every run leaves evidence.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// ErrCouldNotTell is in the chain of every error of Run: the run neither found the ledger clean nor compared it to the end.
var ErrCouldNotTell = errors.New("could not tell")

// Reconciler runs reconciliations, one at a time. Close ends it.
type Reconciler struct {
	cfg        Config
	logger     *zap.Logger
	metrics    *runMetrics
	redis      goredis.UniversalClient
	store      *lua.Store
	clickhouse driver.Conn
	kafka      *kgo.Client // lists offsets and topics
	policy     *Policy
}

// New builds a reconciler. It does not connect: an engine that is away makes a run that could not tell. A nil logger is silent; a nil
// registry measures nothing. The error is about the configuration, or about metrics that reg has already.
func New(cfg Config, logger *zap.Logger, reg prometheus.Registerer) (*Reconciler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration of the reconciler: %w", err)
	}
	if logger == nil {
		logger = zap.NewNop()
	}
	policy, err := LoadPolicy(cfg.PolicyFile)
	if err != nil {
		return nil, err
	}
	measured, err := newRunMetrics(reg)
	if err != nil {
		return nil, err
	}
	rdb, err := redis.NewClient(cfg.Redis)
	if err != nil {
		return nil, fmt.Errorf("build Redis client: %w", err)
	}
	conn, err := clickhouse.Open(cfg.ClickHouse)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	client, err := kafka.NewClient(cfg.Kafka, logger)
	if err != nil {
		return nil, errors.Join(err, rdb.Close(), conn.Close())
	}
	return &Reconciler{
		cfg: cfg, logger: logger, metrics: measured, redis: rdb, store: lua.New(rdb), clickhouse: conn, kafka: client, policy: policy,
	}, nil
}

// Close closes the connections.
func (r *Reconciler) Close() error {
	r.kafka.Close()
	return errors.Join(r.redis.Close(), r.clickhouse.Close())
}

// reconciliation is one run. One goroutine uses it, except that read fills scans and trouble, one element per goroutine.
type reconciliation struct {
	*Reconciler
	id                 string
	report             *Report
	scans              []*scan             // by shard
	trouble            []*Break            // by shard; nil where Redis, Kafka and ClickHouse each have what the others had before
	doubts             []doubt             // by shard
	readings           []*reading          // by shard
	approved, accepted map[string]decision // by break
	bounds             []string            // where each slice of accounts begins
	ahead              *ahead              // what is compared already; nil for nothing
	checkpoint         string              // what an incremental run starts from; empty = the beginning
	cuts               []uint64            // by shard: the positions that the checkpoint stands for
	resumed            *progress           // what an earlier life of this run left; nil for a new run
	version            uint64              // of the row in reconciliation_runs
	clock              time.Time
	began              time.Time // by the clock; the report's times only grow from run to run
}

// Run reconciles the whole ledger once. The report is never nil. The error is nil for a clean ledger and for one with breaks alike
// (Report.Verdict tells them apart), and wraps ErrCouldNotTell otherwise: an engine was away, ClickHouse did not catch up, a shard
// has no head, or the evidence could not be written.
func (r *Reconciler) Run(ctx context.Context) (*Report, error) {
	started := time.Now().UTC().Truncate(time.Millisecond)
	run := &reconciliation{Reconciler: r, id: uuid.Must(uuid.NewV7()).String(), began: time.Now()}
	run.report = &Report{RunID: run.id, Verdict: CouldNotTell, Started: started, DryRun: r.cfg.DryRun, Phases: map[string]time.Duration{}}
	run.report.Why = "the run did not come to its end"
	run.report.Mode, run.report.Policy, run.report.BusinessDate = run.mode(), r.policy.Version, r.cfg.BusinessDate
	run.logger = r.logger.With(zap.String("run", run.id))
	err := run.conclude(ctx, run.steps(ctx))
	r.metrics.observe(run.report)
	return run.report, err
}

// steps are the run. Whatever goes wrong in them, the run could not tell.
func (r *reconciliation) steps(ctx context.Context) error {
	defer r.dropAhead()
	for _, step := range []struct {
		phase string
		do    func(context.Context) error
	}{
		{"write", r.comeLast},      // evidence.go: whatever the clock says
		{"write", r.resume},        // mark.go: has this run begun before?
		{"write", r.writeRun},      // evidence.go: from here on the run is on record
		{"write", r.checkSize},     // below: is this the whole ledger?
		{"write", r.loadDecisions}, // decision.go: what did people decide?
		{"read", r.readAll},        // barrier.go, snapshot.go: Redis, and ClickHouse as far as Redis and Kafka
		{"read", r.chooseCheckpoint},
		{"log", r.checkWholeLog}, // check.go, stream.go: is the log whole, and is ClickHouse what the log says?
		{"compare", r.compare},   // compare.go: the accounts, at the same sequence; much of it was compared while the log was read
		{"invariants", r.checkInvariants},
		{"write", r.classify}, // finish.go: ids, ages, severities
		{"settle", r.settle},  // settle.go: repairs, and what two people approved
		{"write", r.writeListed},
		{"write", r.writeProjected},
		{"write", r.writeMarks},
		{"write", r.dropOldSnapshots},
	} {
		started := time.Now()
		err := step.do(ctx)
		r.report.Phases[step.phase] += time.Since(started)
		if err != nil {
			return err
		}
	}
	return nil
}

// conclude gives the verdict, and writes it down. A verdict that could not be written is none.
func (r *reconciliation) conclude(ctx context.Context, err error) error {
	for _, s := range r.scans {
		if s != nil {
			r.report.Shards = append(r.report.Shards, ShardReport{
				Shard: s.shard, Position: s.end.Position, Chain: s.end.Chain, Generation: s.generation,
			})
		}
	}
	r.report.Finished = r.report.Started.Add(time.Since(r.began)).Truncate(time.Millisecond)
	if r.resumed != nil {
		r.report.Finished = laterThan(r.report.Started)
	}
	switch {
	case err != nil:
		r.report.Verdict, r.report.Why = CouldNotTell, err.Error()
	case r.report.BreaksFound > 0:
		r.report.Verdict, r.report.Why = Breaks, ""
	default:
		r.report.Verdict, r.report.Why = Clean, ""
	}
	ctx, cancel := evidenceContext(ctx)
	defer cancel()
	if writeErr := r.writeRun(ctx); writeErr != nil {
		err = errors.Join(err, writeErr)
		r.report.Verdict, r.report.Why = CouldNotTell, err.Error()
	}
	r.logger.Info("reconciliation ended", zap.String("verdict", string(r.report.Verdict)), zap.Uint64("breaks", r.report.BreaksFound),
		zap.Uint64("accounts", r.report.AccountsCompared), zap.String("why", r.report.Why))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCouldNotTell, err)
	}
	return nil
}

// checkSize refuses to compare a part of the ledger and call it the whole: the number of shards must be Kafka's and ClickHouse's.
func (r *reconciliation) checkSize(ctx context.Context) error {
	// The client retries for as long as the context lives.
	asking, cancel := context.WithTimeoutCause(ctx, logTimeout, errKafkaSilent)
	defer cancel()
	details, err := kadm.NewClient(r.kafka).ListTopics(asking, topics.Events)
	if err == nil {
		err = details[topics.Events].Err
	}
	if err != nil {
		if cause := context.Cause(asking); cause != nil {
			err = cause
		}
		return fmt.Errorf("look up topic %s: %w", topics.Events, err)
	}
	if n := len(details[topics.Events].Partitions); n != r.cfg.Kafka.Shards {
		return fmt.Errorf("topic %s has %d partitions, but LEDGER_SHARDS is %d", topics.Events, n, r.cfg.Kafka.Shards)
	}
	var last uint16
	if err := r.clickhouse.QueryRow(ctx, "SELECT max(shard) FROM events").Scan(&last); err != nil {
		return fmt.Errorf("look up shards in ClickHouse: %w", err)
	}
	if int(last) >= r.cfg.Kafka.Shards {
		return fmt.Errorf("ClickHouse has events of shard %d, but LEDGER_SHARDS is %d", last, r.cfg.Kafka.Shards)
	}
	return nil
}
