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
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// callsAhead is how many calls of a shard may be with Redis, wait for it, or wait to be published: one each, so that neither side waits for the other's
// slower ones.
const callsAhead = 3

// apply lets Redis decide the batch, all shards side by side.
func (w *Writer) apply(ctx context.Context, b *batch) error {
	// They share a transaction that the broker gives up after its timeout. What was decided when this ends is not lost: the recovery publishes it from
	// the outbox, and the rest of the batch begins anew.
	ctx, cancel := context.WithTimeout(ctx, (w.cfg.RedisBudget+w.cfg.TransactionTimeout)/2)
	defer cancel()
	parts, ctx := errgroup.WithContext(ctx)
	parts.SetLimit(w.cfg.Redis.PoolSize) // more would wait for a connection
	for _, p := range b.parts {
		parts.Go(func() error { return w.applyPart(ctx, b.out, p) })
	}
	return parts.Wait()
}

// applyPart lets Redis decide a shard's part, call by call; the next one starts from the head that the last one returned. While Redis works on one call,
// the answer of the last one is read and published, and the next one made ready.
func (w *Writer) applyPart(ctx context.Context, out *publisher, p *part) (err error) {
	ready, decided := make(chan *lua.Prepared, callsAhead), make(chan answer, callsAhead)
	go w.decideCalls(ctx, p.at.Head, ready, decided)
	defer func() { // what Redis was asked must not outlive this
		close(ready)
		for a := range decided {
			err = errors.Join(err, a.Err)
		}
	}()
	for ahead, more := 0, true; ; ahead-- {
		for more && ahead < callsAhead {
			call, err := w.prepareCall(p)
			if err != nil {
				return err
			}
			if more = call != nil; more {
				ready <- call
				ahead++
			}
		}
		if ahead == 0 {
			return nil
		}
		a := <-decided
		if a.Err != nil {
			return a.Err
		}
		if err := p.take(a); err != nil {
			return err
		}
		w.publishDecided(out, p)
	}
}

// prepareCall makes the next call of a shard ready; nil when its part is done.
func (w *Writer) prepareCall(p *part) (*lua.Prepared, error) {
	w.decode(p)
	next := p.commands[p.prepared:]
	if len(next) == 0 {
		return nil, nil
	}
	p.prepared = len(p.commands)
	call := lua.Call{Shard: p.shard.number, Now: time.Now(), Commands: next}
	if err := call.CheckClock(); err != nil {
		return nil, err
	}
	return w.store.Prepare(call)
}

// take notes what a call decided, and where it left Redis.
func (p *part) take(a answer) error {
	decisions, err := a.decisions()
	if err != nil {
		return err
	}
	p.decisions = append(p.decisions, decisions...)
	p.at.Head = a.Head
	p.shard.checkedAt = time.Now()
	if a.Entry != "" {
		p.entries = append(p.entries, a.Entry)
	}
	return nil
}

// answer is what became of a call. Some of its commands may be known to ClickHouse alone.
type answer struct {
	lua.Answer
	commands []lua.Command              // of the call, where known is not empty
	known    map[string]*ledgerv1.Event // by command id
}

// decisions reads what became of the commands, in their order.
func (a answer) decisions() ([]lua.Decision, error) {
	result := a.Result()
	if result.Err != nil || len(a.known) == 0 {
		return result.Decisions, result.Err
	}
	decisions := make([]lua.Decision, 0, len(a.commands))
	for _, c := range a.commands {
		if event := a.known[c.GetCommandId()]; event != nil {
			decisions = append(decisions, remembered(c, event))
			continue
		}
		decisions, result.Decisions = append(decisions, result.Decisions[0]), result.Decisions[1:]
	}
	return decisions, nil
}

// decideCalls decides one call after the other, until there are no more or one goes wrong. Head is where the shard stands before.
func (w *Writer) decideCalls(ctx context.Context, head lua.Head, ready <-chan *lua.Prepared, decided chan<- answer) {
	defer close(decided)
	for call := range ready {
		call.Expected, call.Now = head, time.Now()
		start := time.Now()
		a, err := w.decide(ctx, call)
		w.metrics.applySeconds.Observe(time.Since(start).Seconds())
		a.Err = err
		decided <- a
		if err != nil {
			return
		}
		head = a.Head
	}
}

// decide runs one call. What may be older than Redis remembers is looked up meanwhile, and asked again.
func (w *Writer) decide(ctx context.Context, call *lua.Prepared) (answer, error) {
	a, err := w.call(ctx, call)
	if old := (*lua.TooOldError)(nil); errors.As(err, &old) {
		return w.applyOld(ctx, call, old) // ends with its patience
	}
	if err != nil {
		w.logger.Debug("call given up", zap.Int("shard", call.Shard), zap.Error(err))
		return answer{}, fmt.Errorf("decide: %w", err)
	}
	return answer{Answer: a}, nil
}

// call sends a call. One whose reply was lost is sent again, the very same, with the same expected head (rule 4): if it had been executed after all,
// Redis answers OUT_OF_SYNC, which always means recover.
func (w *Writer) call(ctx context.Context, call *lua.Prepared) (a lua.Answer, err error) {
	budget, cancel := context.WithTimeout(ctx, w.cfg.RedisBudget)
	defer cancel()
	err = retry.Do(budget, w.logger, "apply", func(ctx context.Context) error {
		a = w.store.Decide(ctx, call)
		if a.Err == nil || redis.IsTransient(a.Err) {
			return a.Err
		}
		w.suspect(call.Shard, a.Err)
		return retry.Permanent(a.Err)
	})
	return a, err
}

// suspect notes that a shard needs more than a comparison of heads.
func (w *Writer) suspect(number int, err error) {
	if s, ok := w.owned.get(number); ok && errors.Is(err, lua.ErrCorrupt) {
		s.corrupt = true
	}
}
