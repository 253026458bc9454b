package stack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/redis"
	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/projector"
	"github.com/hotledger/hotledger/reconciler"
)

// Ledger is the services over some engines, with the clients that a caller needs.
type Ledger struct {
	Environ    []string
	Writer     writer.Config
	Projector  projector.Config
	Reconciler reconciler.Config
	Redis      goredis.UniversalClient
	ClickHouse driver.Conn
	Logger     *zap.Logger

	running []func() error
}

// Connect reads every service's configuration from the engines' environment and extra, and makes the clients. It starts no service.
func Connect(engines *Engines, logger *zap.Logger, extra ...string) (*Ledger, error) {
	l := &Ledger{Environ: append(append([]string{}, engines.Environ...), extra...), Logger: logger}
	for service, cfg := range map[string]any{"ledger-writer": &l.Writer, "projector": &l.Projector, "reconciler": &l.Reconciler} {
		if err := config.Load(service, cfg, nil, l.Environ); err != nil {
			return nil, err
		}
	}
	var err error
	if l.Redis, err = redis.NewClient(l.Writer.Redis); err != nil {
		return nil, err
	}
	if l.ClickHouse, err = clickhouse.Open(l.Projector.ClickHouse); err != nil {
		return nil, errors.Join(err, l.Redis.Close())
	}
	return l, nil
}

// EnsureTopics creates the topics, as every service does at its start: whoever asks for them before needs them now.
func (l *Ledger) EnsureTopics(ctx context.Context) error {
	client, err := kafka.NewClient(l.Writer.Kafka, l.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kafka.EnsureTopics(ctx, l.Writer.Kafka, client)
	return err
}

// StartWriter runs a ledger-writer until the returned func is called, or Close.
func (l *Ledger) StartWriter() (stop func() error, err error) {
	w, err := writer.New(l.Writer, l.Logger.Named("ledger-writer"), prometheus.NewRegistry(), metrics.NewHealth())
	if err != nil {
		return nil, err
	}
	return l.start(w.Run), nil
}

// StartProjector runs a projector until the returned func is called, or Close.
func (l *Ledger) StartProjector() (stop func() error, err error) {
	p, err := projector.New(l.Projector, l.Logger.Named("projector"), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	return l.start(p.Run), nil
}

// start runs a service in the background; stop ends it and returns what it returned, once.
func (l *Ledger) start(run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	l.running = append(l.running, stop)
	return stop
}

// Producer makes a client for commands. The caller closes it.
func (l *Ledger) Producer(ctx context.Context, source string) (*producer.Client, error) {
	var cfg producer.Config
	if err := config.Load("producer", &cfg, nil, append(l.Environ, "PRODUCER_SOURCE="+source)); err != nil {
		return nil, err
	}
	return producer.New(ctx, cfg, l.Logger.Named("producer"))
}

// Reconcile runs one reconciliation.
func (l *Ledger) Reconcile(ctx context.Context) (*reconciler.Report, error) {
	r, err := reconciler.New(l.Reconciler, l.Logger.Named("reconciler"), nil)
	if err != nil {
		return nil, err
	}
	report, err := r.Run(ctx)
	return report, errors.Join(err, r.Close())
}

// AwaitProjected waits until ClickHouse has every event up to the given positions, by shard.
func (l *Ledger) AwaitProjected(ctx context.Context, positions []uint64) error {
	const look = 50 * time.Millisecond
	query := fmt.Sprintf("SELECT max(position) FROM %s.events WHERE shard = ?", l.Projector.ClickHouse.Database)
	for shard, want := range positions {
		for {
			var have uint64
			err := l.ClickHouse.QueryRow(ctx, query, shard).Scan(&have)
			if err == nil && have >= want {
				break
			}
			select {
			case <-time.After(look):
			case <-ctx.Done():
				return fmt.Errorf("wait until shard %d is projected: position %d of %d: %w", shard, have, want, errors.Join(context.Cause(ctx), err))
			}
		}
	}
	return nil
}

// Close stops what is running, the last started first, and closes the clients.
func (l *Ledger) Close() error {
	var problems []error
	for i := len(l.running) - 1; i >= 0; i-- {
		problems = append(problems, l.running[i]())
	}
	return errors.Join(append(problems, l.Redis.Close(), l.ClickHouse.Close())...)
}
