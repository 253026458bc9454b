package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/lua"
)

// apply lets Redis decide the batch, in rounds: each sends one call per shard, and a shard's next call starts from the head that its last
// one returned. While Redis works on one round, the outcomes of the last one are published, and the commands of the next one decoded.
func (w *Writer) apply(ctx context.Context, b *batch) error {
	// The rounds share a transaction that the broker gives up after its timeout. What was decided when this ends is not lost: the recovery
	// publishes it from the outbox, and the rest of the batch begins anew.
	ctx, cancel := context.WithTimeout(ctx, (w.cfg.RedisBudget+w.cfg.TransactionTimeout)/2)
	defer cancel()
	w.decode(b)
	for {
		calls, parts, err := b.calls()
		if err != nil {
			return err
		}
		if len(calls) == 0 {
			return nil
		}
		deciding := w.decideBeside(ctx, calls)
		w.publishDecided(b)
		w.decode(b)
		round := <-deciding
		if round.err != nil {
			return round.err
		}
		for i, r := range round.results {
			parts[i].take(r)
		}
	}
}

// calls are the next calls of all shards; none when the batch is done.
func (b *batch) calls() (calls []lua.Call, parts []*part, err error) {
	for _, p := range b.parts {
		next := p.commands[len(p.decisions):]
		if len(next) == 0 {
			continue
		}
		call := lua.Call{Shard: p.shard.number, Expected: p.at.Head, Now: time.Now(), Commands: next}
		if err := call.CheckClock(); err != nil {
			return nil, nil, err
		}
		calls, parts = append(calls, call), append(parts, p)
	}
	return calls, parts, nil
}

func (p *part) take(r lua.Result) {
	p.at.Head = r.Head
	p.shard.checkedAt = time.Now()
	p.decisions = append(p.decisions, r.Decisions...)
	if r.Entry != "" {
		p.entries = append(p.entries, r.Entry)
	}
}

// round is what became of one call per shard.
type round struct {
	results []lua.Result
	err     error
}

// decideBeside runs one round in a goroutine, which ends with it; whoever starts it waits for its answer.
func (w *Writer) decideBeside(ctx context.Context, calls []lua.Call) <-chan round {
	done := make(chan round, 1)
	go func() {
		start := time.Now()
		results, err := w.decide(ctx, calls)
		w.metrics.applySeconds.Observe(time.Since(start).Seconds())
		done <- round{results, err}
	}()
	return done
}

// decide runs one round. What may be older than Redis remembers is looked up meanwhile, shard by shard, and asked again.
func (w *Writer) decide(ctx context.Context, calls []lua.Call) ([]lua.Result, error) {
	results, err := w.call(ctx, calls)
	if err != nil {
		w.logger.Debug("round given up", zap.Int("calls", len(calls)), zap.Error(err))
		return nil, fmt.Errorf("decide: %w", err)
	}
	var lookUps errgroup.Group
	for i := range results {
		if old := (*lua.TooOldError)(nil); errors.As(results[i].Err, &old) {
			lookUps.Go(func() (err error) { // ends with its patience
				results[i], err = w.applyOld(ctx, calls[i], old)
				return err
			})
		}
	}
	return results, lookUps.Wait()
}

// call sends one call per shard. One whose reply was lost is sent again, the very same, with the same expected head (rule 4): if it had been
// executed after all, Redis answers OUT_OF_SYNC, which always means recover.
func (w *Writer) call(ctx context.Context, calls []lua.Call) ([]lua.Result, error) {
	results := make([]lua.Result, len(calls))
	pending := make([]int, len(calls))
	for i := range calls {
		pending[i] = i
	}
	budget, cancel := context.WithTimeout(ctx, w.cfg.RedisBudget)
	defer cancel()
	return results, retry.Do(budget, w.logger, "apply", func(ctx context.Context) error {
		round := make([]lua.Call, len(pending))
		for i, at := range pending {
			round[i] = calls[at]
		}
		var failed []int
		var last error
		for i, r := range w.store.Apply(ctx, round...) {
			results[pending[i]] = r
			switch old := (*lua.TooOldError)(nil); {
			case r.Err == nil, errors.As(r.Err, &old):
			case redis.IsTransient(r.Err):
				failed, last = append(failed, pending[i]), r.Err
			default:
				w.suspect(calls[pending[i]].Shard, r.Err)
				return retry.Permanent(r.Err)
			}
		}
		pending = failed
		return last
	})
}

// suspect notes that a shard needs more than a comparison of heads.
func (w *Writer) suspect(number int, err error) {
	if s, ok := w.owned.get(number); ok && errors.Is(err, lua.ErrCorrupt) {
		s.corrupt = true
	}
}
