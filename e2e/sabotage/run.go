// Package sabotage damages a running ledger in every way that somebody thought of, and holds the reconciler to finding each damage,
// naming it, and settling or escalating it as promised, while a hot workload runs at full speed the whole time, and to not reporting anything else.
package sabotage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/projector"
	"github.com/hotledger/hotledger/reconciler"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

const (
	shards  = 4
	victims = 60
	funds   = 1_000_000
)

// ErrMissed says that a damage was not found, not settled, or that something was reported that nobody damaged.
var ErrMissed = errors.New("the reconciler did not do what it promises")

// Result is the last line of the suite.
type Result struct{ Damaged, Found, Settled, False int }

func (r Result) String() string {
	return fmt.Sprintf("damaged %d found %d settled %d false %d", r.Damaged, r.Found, r.Settled, r.False)
}

// suite is one run of the suite. One goroutine uses it, beside the traffic.
type suite struct {
	ledger        *stack.Ledger
	client        *producer.Client
	store         *lua.Store
	out           io.Writer
	ids           int
	restarts      int // of the projector; written by its supervisor
	stopProjector func()
	result        Result
	wave          []*damage       // what is damaged now: a break follows from one of these, or nobody caused it
	strange       map[string]bool // breaks that nobody caused, by id
}

// Run runs the suite, and prints a line per damage and the result at the end. nil only if nothing was missed and nothing was false.
func Run(ctx context.Context, out io.Writer, logger *zap.Logger, inProcess bool) (Result, error) {
	return run(ctx, out, logger, inProcess, (*suite).waves)
}

// Soak damages nothing: the same traffic, and reconciliations without a pause, for so long. nil only if none reported a single break.
func Soak(ctx context.Context, out io.Writer, logger *zap.Logger, inProcess bool, lasting time.Duration) (Result, error) {
	return run(ctx, out, logger, inProcess, func(s *suite, ctx context.Context) error { return s.soak(ctx, lasting) })
}

// soak reconciles incrementally, and every fifth time from the beginning.
func (s *suite) soak(ctx context.Context, lasting time.Duration) error {
	const full = 5
	runs := 0
	for end := time.Now().Add(lasting); time.Now().Before(end) || runs <= full; runs++ {
		s.ledger.Reconciler.Incremental = runs%full != 0
		if err := s.quiet(ctx, "in a soak"); err != nil {
			return err
		}
	}
	s.say("%d reconciliations\n", runs)
	return nil
}

func run(ctx context.Context, out io.Writer, logger *zap.Logger, inProcess bool, proof func(*suite, context.Context) error) (result Result, err error) {
	dir, err := os.MkdirTemp("", "hotledger-sabotage-")
	if err != nil {
		return result, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engines, err := stack.Start(ctx, stack.Options{Shards: shards, Kafka: true, Redis: true, ClickHouse: true, ClickHouseInProcess: inProcess, Dir: dir})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	s := &suite{out: out, strange: map[string]bool{}}
	if s.ledger, err = stack.Connect(engines, logger); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.ledger.Close()) }()
	s.store, s.stopProjector = lua.New(s.ledger.Redis), func() {}
	defer func() { s.stopProjector() }()
	if err := s.start(ctx); err != nil {
		return result, err
	}
	defer s.client.Close()
	stop := s.traffic(ctx)
	defer stop()
	if err := proof(s, ctx); err != nil {
		return s.result, err
	}
	sent := stop()
	s.say("%d commands went through the hot accounts meanwhile\n", sent)
	s.result.False = len(s.strange)
	s.say("%s\n", s.result)
	if r := s.result; r.Found != r.Damaged || r.Settled != r.Damaged || r.False != 0 {
		return r, fmt.Errorf("%w: %s", ErrMissed, r)
	}
	return s.result, nil
}

func (s *suite) start(ctx context.Context) error {
	if err := s.ledger.EnsureTopics(ctx); err != nil {
		return err
	}
	if _, err := s.ledger.StartWriter(); err != nil {
		return err
	}
	s.ledger.Reconciler.BarrierTimeout = barrier
	s.superviseProjector(ctx)
	var err error
	if s.client, err = s.ledger.Producer(ctx, "sabotage"); err != nil {
		return err
	}
	for i := range victims {
		account := victim(i)
		for _, c := range []*ledgerv1.Command{
			s.command(account, ledgerv1.Operation_OPERATION_OPEN, ""), s.command(account, ledgerv1.Operation_OPERATION_CREDIT, fmt.Sprint(funds)),
			s.command(account, ledgerv1.Operation_OPERATION_DEBIT, "100"), s.command(account, ledgerv1.Operation_OPERATION_DEBIT, "999999999"),
		} {
			if _, err := s.client.Submit(ctx, c); err != nil {
				return fmt.Errorf("prepare %s: %w", account, err)
			}
		}
	}
	for i := range hotAccounts {
		// Rich enough that invented money is never spent: what is spent is a break of its own, and has its own place in the suite.
		for _, c := range []*ledgerv1.Command{
			s.command(hot(i), ledgerv1.Operation_OPERATION_OPEN, ""), s.command(hot(i), ledgerv1.Operation_OPERATION_CREDIT, fmt.Sprint(funds*funds)),
		} {
			if _, err := s.client.Submit(ctx, c); err != nil {
				return fmt.Errorf("prepare %s: %w", hot(i), err)
			}
		}
	}
	return s.settleLog(ctx)
}

// barrier is short here: a projector that stands still, because its rows are damaged, is part of the suite.
const barrier = 20 * time.Second

// restartPause is a supervisor's.
const restartPause = time.Second

// superviseProjector starts a projector again whenever it ends, as a supervisor does: it refuses to go on from damaged rows.
func (s *suite) superviseProjector(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			p, err := projector.New(s.ledger.Projector, s.ledger.Logger.Named("projector"), prometheus.NewRegistry())
			if err == nil {
				err = p.Run(ctx)
			}
			if err != nil && ctx.Err() == nil {
				s.restarts++
				select {
				case <-time.After(restartPause):
				case <-ctx.Done():
				}
			}
		}
	})
	s.stopProjector = func() { cancel(); wg.Wait() }
}

func victim(i int) string { return fmt.Sprintf("victim-%02d", i) }

func (s *suite) command(account string, operation ledgerv1.Operation, amount string) *ledgerv1.Command {
	s.ids++
	return &ledgerv1.Command{CommandId: fmt.Sprintf("s-%d", s.ids), Operation: operation, Account: account, Amount: amount, Currency: "EUR"}
}

// settleLog waits until ClickHouse has what Kafka has now.
func (s *suite) settleLog(ctx context.Context) error {
	positions, err := s.client.Positions(ctx)
	if err != nil {
		return err
	}
	return s.ledger.AwaitProjected(ctx, positions)
}

// waves damages several things at once, lets the reconciler run, and judges.
func (s *suite) waves(ctx context.Context) error {
	began := time.Now()
	if err := s.quiet(ctx, "before any damage"); err != nil {
		return err
	}
	for _, wave := range []struct {
		name    string
		damages []*damage
	}{
		{"accounts in Redis", redisDamages()}, {"holds in Redis", holdDamages()}, {"rows in ClickHouse", clickHouseDamages()}, {"shards, outcomes and the outbox", shardDamages()}, {"the log's own truth", logDamages()},
	} {
		s.say("\n== %s\n", wave.name)
		s.wave = wave.damages
		for _, d := range wave.damages {
			s.result.Damaged++
			if err := d.do(ctx, s, d); err != nil {
				return fmt.Errorf("damage %q: %w", d.name, err)
			}
		}
		if err := s.judge(ctx, wave.damages); err != nil {
			return err
		}
	}
	s.say("\n")
	if err := s.quiet(ctx, "after everything"); err != nil {
		return err
	}
	s.say("%.0f s\n", time.Since(began).Seconds())
	return nil
}

// quiet wants a run without a break that counts.
func (s *suite) quiet(ctx context.Context, when string) error {
	report, err := s.reconcile(ctx)
	if err != nil {
		return err
	}
	for _, b := range report.Breaks {
		if b.Settled == "" {
			s.strange[b.ID] = true
			s.say("FALSE %s: %s %s shard %d %s\n", when, b.Class, b.Account, b.Shard, b.Detail)
		}
	}
	return nil
}

// reconcile runs until a run could tell: one that meets a recovery says that it could not.
func (s *suite) reconcile(ctx context.Context) (*reconciler.Report, error) {
	const tries = 5
	for try := 1; ; try++ {
		report, err := s.ledger.Reconcile(ctx)
		s.say("  run of %s: %d events, %v\n", report.Finished.Sub(report.Started).Round(time.Millisecond), report.Events, report.Phases)
		if err == nil || try == tries || ctx.Err() != nil {
			return report, err
		}
		s.say("  could not tell (%s), again\n", report.Why)
	}
}

func (s *suite) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func shardOf(account string) int { return topics.ShardOf(account, shards) }
