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

// roundsAhead is how many rounds may be with Redis, wait for it, or wait to be published: one each, so that neither side waits for the other's slower
// rounds.
const roundsAhead = 3

// apply lets Redis decide the batch, in rounds: each sends one call per shard, and a shard's next call starts from the head that its last
// one returned. While Redis works on one round, the answers of the last one are read and published, and the calls of the next one made ready.
func (w *Writer) apply(ctx context.Context, b *batch) (err error) {
	// The rounds share a transaction that the broker gives up after its timeout. What was decided when this ends is not lost: the recovery
	// publishes it from the outbox, and the rest of the batch begins anew.
	ctx, cancel := context.WithTimeout(ctx, (w.cfg.RedisBudget+w.cfg.TransactionTimeout)/2)
	defer cancel()
	ready, decided := make(chan []*lua.Prepared, roundsAhead), make(chan round, roundsAhead)
	go w.decideRounds(ctx, b.heads(), ready, decided)
	defer func() { // what Redis was asked must not outlive this
		close(ready)
		for r := range decided {
			err = errors.Join(err, r.err)
		}
	}()
	for ahead, more := 0, true; ; ahead-- {
		for more && ahead < roundsAhead {
			calls, err := w.prepareCalls(b)
			if err != nil {
				return err
			}
			if more = len(calls) > 0; more {
				ready <- calls
				ahead++
			}
		}
		if ahead == 0 {
			return nil
		}
		r := <-decided
		if r.err != nil {
			return r.err
		}
		for _, a := range r.answers {
			if err := b.parts[a.shard].take(a); err != nil {
				return err
			}
		}
		w.publishDecided(b)
	}
}

// heads are where Redis stands before the batch, by shard.
func (b *batch) heads() map[int]lua.Head {
	heads := make(map[int]lua.Head, len(b.parts))
	for shard, p := range b.parts {
		heads[shard] = p.at.Head
	}
	return heads
}

// prepareCalls makes the next calls of all shards ready; none when the batch is done.
func (w *Writer) prepareCalls(b *batch) (calls []*lua.Prepared, err error) {
	w.decode(b)
	for _, p := range b.parts {
		next := p.commands[p.prepared:]
		if len(next) == 0 {
			continue
		}
		p.prepared = len(p.commands)
		call := lua.Call{Shard: p.shard.number, Now: time.Now(), Commands: next}
		if err := call.CheckClock(); err != nil {
			return nil, err
		}
		ready, err := w.store.Prepare(call)
		if err != nil {
			return nil, err
		}
		calls = append(calls, ready)
	}
	return calls, nil
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
	shard    int
	commands []lua.Command              // of the call
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

// round is what became of one call per shard.
type round struct {
	answers []answer
	err     error
}

// decideRounds decides one round after the other, until there are no more or one goes wrong. Heads are where the shards stand before.
func (w *Writer) decideRounds(ctx context.Context, heads map[int]lua.Head, ready <-chan []*lua.Prepared, decided chan<- round) {
	defer close(decided)
	for calls := range ready {
		for _, call := range calls {
			call.Expected, call.Now = heads[call.Shard], time.Now()
		}
		start := time.Now()
		answers, err := w.decide(ctx, calls)
		w.metrics.applySeconds.Observe(time.Since(start).Seconds())
		decided <- round{answers, err}
		if err != nil {
			return
		}
		for _, a := range answers {
			heads[a.shard] = a.Head
		}
	}
}

// decide runs one round. What may be older than Redis remembers is looked up meanwhile, shard by shard, and asked again.
func (w *Writer) decide(ctx context.Context, calls []*lua.Prepared) ([]answer, error) {
	answers, err := w.call(ctx, calls)
	if err != nil {
		w.logger.Debug("round given up", zap.Int("calls", len(calls)), zap.Error(err))
		return nil, fmt.Errorf("decide: %w", err)
	}
	var lookUps errgroup.Group
	for i := range answers {
		if old := (*lua.TooOldError)(nil); errors.As(answers[i].Err, &old) {
			lookUps.Go(func() (err error) { // ends with its patience
				answers[i], err = w.applyOld(ctx, calls[i], old)
				return err
			})
		}
	}
	return answers, lookUps.Wait()
}

// call sends one call per shard. One whose reply was lost is sent again, the very same, with the same expected head (rule 4): if it had been
// executed after all, Redis answers OUT_OF_SYNC, which always means recover.
func (w *Writer) call(ctx context.Context, calls []*lua.Prepared) ([]answer, error) {
	answers := make([]answer, len(calls))
	pending := make([]int, len(calls))
	for i := range calls {
		pending[i] = i
	}
	budget, cancel := context.WithTimeout(ctx, w.cfg.RedisBudget)
	defer cancel()
	return answers, retry.Do(budget, w.logger, "apply", func(ctx context.Context) error {
		round := make([]*lua.Prepared, len(pending))
		for i, at := range pending {
			round[i] = calls[at]
		}
		var failed []int
		var last error
		for i, a := range w.store.Decide(ctx, round...) {
			answers[pending[i]] = answer{Answer: a, shard: round[i].Shard, commands: round[i].Commands}
			switch old := (*lua.TooOldError)(nil); {
			case a.Err == nil, errors.As(a.Err, &old):
			case redis.IsTransient(a.Err):
				failed, last = append(failed, pending[i]), a.Err
			default:
				w.suspect(round[i].Shard, a.Err)
				return retry.Permanent(a.Err)
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
