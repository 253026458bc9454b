package writer

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// rebuild makes a shard anew: beside the live keys, swapped at once (rules 15 and 16), up to the log's last event. An interrupted one begins
// again. Its source is ClickHouse as far as that goes and then the log's tail, or the log alone; the result is the same to the byte.
type rebuild struct {
	logger  *zap.Logger
	store   *lua.Store
	log     *eventLog
	archive *archive // nil: the log alone
	shard   int
	last    lua.Point // of the log
	end     int64     // offset after all committed events
	// strict: what ClickHouse cannot give is an error, not a reason to read the whole log.
	strict bool
}

// Rebuilt is what a rebuild did.
type Rebuilt struct {
	From     string // FromLog or FromClickHouse
	Head     lua.Head
	Events   int // outcomes restored
	Accounts int // loaded from ClickHouse; those of the log are not counted
	Tail     int // events folded from the log
	Took     time.Duration
}

// Where a rebuild takes a shard from.
const (
	FromLog        = "log"
	FromClickHouse = "clickhouse"
)

// step is a chunk of a build with what it holds.
type step struct {
	chunk            lua.Chunk
	events, accounts int
	folded           bool // from the log
}

// stepsAhead is how many chunks are read and checked while Redis takes one.
const stepsAhead = 4

// rebuildProgress is how often a rebuild says how far it is.
const rebuildProgress = 5 * time.Second

// run rebuilds. ClickHouse that is away, lags too far to help, or disagrees costs a line in the log.
func (r *rebuild) run(ctx context.Context) (Rebuilt, error) {
	if r.archive != nil {
		done, err := r.fromClickHouse(ctx)
		if err == nil || ctx.Err() != nil || !isUnusable(err) || r.strict {
			return done, err
		}
		r.logger.Warn("clickhouse is not used for the rebuild", zap.Int("shard", r.shard), zap.Error(err))
	}
	return r.build(ctx, FromLog, func(ctx context.Context, build *lua.Build, send func(step) error) error {
		return r.tail(ctx, build, 0, send)
	})
}

func (r *rebuild) fromClickHouse(ctx context.Context) (Rebuilt, error) {
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	at, err := r.archive.seam(ctx, r.log, r.last, r.end)
	if err != nil {
		return Rebuilt{}, err
	}
	r.logger.Info("rebuilding from clickhouse and the log's tail", zap.Int("shard", r.shard), zap.Stringer("seam", at.at.Head), zap.Stringer("log", r.last.Head))
	return r.build(ctx, FromClickHouse, func(ctx context.Context, build *lua.Build, send func(step) error) error {
		if err := r.archive.load(ctx, build, at, send); err != nil {
			return err
		}
		return r.tail(ctx, build, at.next, send)
	})
}

// tail sends the events above the build's head, from a Kafka offset on.
func (r *rebuild) tail(ctx context.Context, build *lua.Build, next int64, send func(step) error) error {
	return r.log.after(ctx, r.shard, build.At().Link, next, r.end, func(events []*ledgerv1.Event) error {
		chunk, err := build.Events(events)
		if err != nil {
			return err
		}
		return send(step{chunk: chunk, events: len(events), folded: true})
	})
}

// build reads in one goroutine and sends in another, so that Redis and the source work at the same time.
func (r *rebuild) build(ctx context.Context, from string, read func(context.Context, *lua.Build, func(step) error) error) (Rebuilt, error) {
	start := time.Now()
	build, err := r.store.BeginBuild(ctx, r.shard, newGeneration())
	if err != nil {
		return Rebuilt{}, err
	}
	done := Rebuilt{From: from, Head: r.last.Head}
	steps := make(chan step, stepsAhead)
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { // ends with the source, or when the other one fails
		defer close(steps)
		return read(working, build, func(s step) error {
			select {
			case steps <- s:
				return nil
			case <-working.Done():
				return context.Cause(working)
			}
		})
	})
	group.Go(func() error { return r.send(working, build, steps, &done) }) // ends when steps is closed
	if err := group.Wait(); err != nil {
		return Rebuilt{}, err
	}
	if err := reachedLast(r.shard, build.At(), r.last); err != nil {
		return Rebuilt{}, err
	}
	if err := build.Swap(ctx); err != nil {
		return Rebuilt{}, err
	}
	hit(trapSwapped)
	done.Took = time.Since(start)
	r.logger.Info("shard rebuilt", append(done.fields(r.shard), zap.String("from", from), zap.Stringer("head", r.last.Head), zap.Duration("took", done.Took))...)
	return done, nil
}

// send puts the chunks into Redis in their order, and says now and then how far it is.
func (r *rebuild) send(ctx context.Context, build *lua.Build, steps <-chan step, done *Rebuilt) error {
	start, said := time.Now(), time.Now()
	for s := range steps {
		if err := build.Send(ctx, s.chunk); err != nil {
			return err
		}
		hit(trapBuilding)
		done.Events, done.Accounts, done.Took = done.Events+s.events, done.Accounts+s.accounts, time.Since(start)
		if s.folded {
			done.Tail += s.events
		}
		if time.Since(said) > rebuildProgress {
			said = time.Now()
			r.logger.Info("rebuilding", append(done.fields(r.shard), zap.Uint64("of", r.last.Head.Position))...)
		}
	}
	return nil
}

func (d Rebuilt) fields(shard int) []zap.Field {
	return []zap.Field{
		zap.Int("shard", shard), zap.Int("events", d.Events), zap.Int("accounts", d.Accounts), zap.Int("tail", d.Tail),
		zap.Float64("events_per_second", rate(d.Events, d.Took)), zap.Float64("accounts_per_second", rate(d.Accounts, d.Took)),
	}
}

func rate(n int, took time.Duration) float64 { return float64(n) / max(took.Seconds(), 1e-6) }

// rebuild is the job for one shard, with what this writer has.
func (w *Writer) rebuild(shard int, last lua.Point, end int64) *rebuild {
	r := &rebuild{logger: w.logger, store: w.store, log: w.log, shard: shard, last: last, end: end}
	if w.cfg.RebuildFromClickHouse {
		r.archive = &archive{conn: w.clickhouse, shard: shard}
	}
	return r
}

// String is for a person.
func (d Rebuilt) String() string {
	return fmt.Sprintf("%d events, %d accounts and a tail of %d events from %s in %s: %.0f events/s, %.0f accounts/s",
		d.Events, d.Accounts, d.Tail, d.From, d.Took.Round(time.Millisecond), rate(d.Events, d.Took), rate(d.Accounts, d.Took))
}
