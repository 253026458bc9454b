package projector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/schemas/topics"
)

// drainMax is how long a worker may take to finish an insert when its shard goes to somebody else or the process ends. After
// it the insert is dropped, which is safe (its intent is committed), and it is below chassis/run's drain of 25 s and the
// group's rebalance timeout of 60 s.
const drainMax = 15 * time.Second

var (
	errRevoked = errors.New("shard was revoked")
	errLost    = errors.New("shard was lost")
	errSlow    = errors.New("drain took too long")
)

// assignment is a running worker and the ways to end it.
type assignment struct {
	worker *worker
	stop   context.CancelCauseFunc // begin nothing new
	kill   context.CancelCauseFunc // drop everything
	done   chan struct{}           // closed when the worker has returned
}

// assigned starts a worker per shard. The group calls it, revoked and lost one at a time, and never at the same time.
func (p *Projector) assigned(_ context.Context, group *kgo.Client, partitions map[string][]int32) {
	for _, shard := range partitions[topics.Events] {
		// Not the callback's context: that ends with the group session, the worker ends with revoked, lost or drain.
		alive, kill := context.WithCancelCause(context.Background())
		ctx, stop := context.WithCancelCause(alive)
		w := &worker{
			cfg: p.cfg, logger: p.logger.With(zap.Int32("shard", shard)), metrics: p.metrics,
			group: group, clickhouse: p.clickhouse, shard: shard, alive: alive,
		}
		w.owned.Store(true)
		a := &assignment{worker: w, stop: stop, kill: kill, done: make(chan struct{})}
		p.mu.Lock()
		p.assignments[shard] = a
		p.mu.Unlock()
		go func() { // ends with stop or kill, or when the shard halts
			defer close(a.done)
			p.ended(shard, p.work(ctx, w))
		}()
	}
}

// revoked lets the workers finish what they began, and returns when the shards may go to another member.
func (p *Projector) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	p.release(partitions[topics.Events], errRevoked, false)
	p.forget(partitions[topics.Events])
}

// lost drops the workers: the group has given the shards to others already, a commit would be fenced.
func (p *Projector) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	p.release(partitions[topics.Events], errLost, true)
	p.forget(partitions[topics.Events])
}

// release ends the workers of the shards, all at once, and waits for them.
func (p *Projector) release(shards []int32, cause error, abandon bool) {
	var ending sync.WaitGroup
	for _, shard := range shards {
		p.mu.Lock()
		a := p.assignments[shard]
		delete(p.assignments, shard)
		p.mu.Unlock()
		if a == nil {
			continue
		}
		ending.Go(func() {
			if abandon {
				a.worker.owned.Store(false)
				a.kill(cause)
			}
			a.end(cause)
		})
	}
	ending.Wait()
}

// end stops the worker, kills it if it takes too long, and returns when it has returned.
func (a *assignment) end(cause error) {
	a.stop(cause)
	patience := time.NewTimer(drainMax)
	defer patience.Stop()
	select {
	case <-a.done:
	case <-patience.C:
		a.kill(errSlow)
		<-a.done
	}
	a.worker.owned.Store(false)
	a.kill(cause)
}
