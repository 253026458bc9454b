package writer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/topics"
)

// A tenure is one membership of the group with one Kafka session. It ends when the outcome of a commit is unknown or the session is
// fenced: the next one begins with InitProducerID, which settles whatever the last one left open (rule 8).

// fetchWait is how long a broker holds back an empty answer. Shards whose offsets are known a moment later than the others' join the next
// fetch only, so this is also what a takeover may cost them; the library's default is 5 s.
const fetchWait = 500 * time.Millisecond

// errTenureOver ends a tenure; the next one follows at once.
var errTenureOver = errors.New("kafka session is over")

// shard is what the writer believes of one shard it owns. The loop alone uses it, and in a batch whoever works on the shard's part.
type shard struct {
	number int
	// at is where the log ended and Redis stood when they were last seen; meaningful only while not inDoubt.
	at lua.Point
	// inDoubt: recover before the next apply.
	inDoubt bool
	// corrupt: Redis holds a record that cannot be read; the recovery rebuilds.
	corrupt   bool
	checkedAt time.Time
	// expiries of its holds; nil after a recovery: they are read anew.
	expiries *expiries
	room     room // for its events
}

// ownership is which shards this writer has. Written by the group's callbacks and by the loop, hence the lock.
type ownership struct {
	mu         sync.Mutex
	shards     map[int]*shard
	memberID   string // of the generation that the shards are recovered in
	generation int32
}

func (w *Writer) tenure(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	defer w.end()
	beat := w.health.Heartbeat("ledger-writer loop", 4*w.cfg.SessionTimeout)
	defer beat.Stop()
	backoff := retry.Policy()
	for ctx.Err() == nil {
		beat.Beat()
		err := w.turn(ctx)
		if err == nil {
			backoff.Reset()
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if isDamaged(err) {
			return retry.Permanent(err)
		}
		w.logger.Warn("batch given up, its shards will be recovered", zap.Error(err))
		w.metrics.givenUp.Inc()
		w.pace.givenUp()
		if err := w.abort(context.WithoutCancel(ctx), err); err != nil {
			return err
		}
		select {
		case <-time.After(backoff.NextBackOff()):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// begin joins the group with a session of its own.
func (w *Writer) begin(ctx context.Context) error {
	common, err := kafka.ClientOptions(w.cfg.Kafka, w.logger)
	if err != nil {
		return retry.Permanent(err)
	}
	transactionalID, err := w.cfg.transactionalID()
	if err != nil {
		return retry.Permanent(err)
	}
	w.owned.reset()
	w.session, err = kgo.NewGroupTransactSession(append(common,
		kgo.ConsumerGroup(w.cfg.Group),
		kgo.ConsumeTopics(topics.Commands),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(w.cfg.TransactionTimeout),
		kgo.SessionTimeout(w.cfg.SessionTimeout),
		kgo.HeartbeatInterval(w.cfg.SessionTimeout/10),
		kgo.RebalanceTimeout(w.cfg.SessionTimeout),
		kgo.FetchMaxWait(fetchWait),
		// A shard must not change hands while its batch is between apply and commit.
		kgo.BlockRebalanceOnPoll(),
		// The partition is part of the contract: an event goes to its shard, whatever the key hashes to.
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// Shards that move are given up before anybody else gets them, and those that stay are never taken away in between.
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		// It runs once per generation, after what was lost was told, even when nothing new is assigned.
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
			memberID, generation := client.GroupMetadata()
			w.owned.enter(memberID, generation, assigned[topics.Commands])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
			w.owned.remove(revoked[topics.Commands])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { w.owned.remove(lost[topics.Commands]) }),
	)...)
	if err != nil {
		return retry.Permanent(fmt.Errorf("kafka session: %w", err))
	}
	w.admin = kadm.NewClient(w.session.Client())
	w.log = w.eventLog(w.admin)
	// InitProducerID now, before anything is read: it aborts or completes what an earlier tenure left (rule 8).
	if _, _, err := w.session.Client().ProducerID(ctx); err != nil {
		w.end()
		return fmt.Errorf("init producer id: %w", err)
	}
	return nil
}

func (w *Writer) end() {
	w.dismissAll()
	w.session.CloseAllowingRebalance()
	w.inTxn = false
	w.owned.reset()
}

// abort drops the open transaction and puts every shard in doubt (rule 8). It returns an error when the session itself is of no more use, which
// it also is when Kafka does not answer for as long as the transaction lives there: it is aborted by then.
func (w *Writer) abort(ctx context.Context, cause error) error {
	w.owned.doubtAll()
	if errors.Is(cause, errTenureOver) {
		return cause
	}
	if !w.inTxn {
		return nil
	}
	w.inTxn = false
	ctx, cancel := context.WithTimeout(ctx, w.cfg.TransactionTimeout)
	defer cancel()
	if _, err := w.session.End(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("%w: abort: %w", errTenureOver, err)
	}
	return nil
}

func (o *ownership) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shards, o.memberID, o.generation = map[int]*shard{}, "", -1
}

// enter begins a generation: the shards of the last one are in doubt, and so are the assigned ones (rule 6). The generation is noted here and
// nowhere else: the client has a new one as soon as its join is answered, before it tells what it lost.
func (o *ownership) enter(memberID string, generation int32, assigned []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.memberID, o.generation = memberID, generation
	for _, s := range o.shards {
		s.inDoubt = true
	}
	for _, p := range assigned {
		o.shards[int(p)] = &shard{number: int(p), inDoubt: true}
	}
}

func (o *ownership) remove(partitions []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range partitions {
		delete(o.shards, int(p))
	}
}

func (o *ownership) doubtAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.shards {
		s.inDoubt = true
	}
}

// all returns the owned shards; those in doubt first asked for with inDoubt.
func (o *ownership) all() []*shard {
	o.mu.Lock()
	defer o.mu.Unlock()
	shards := make([]*shard, 0, len(o.shards))
	for _, s := range o.shards {
		shards = append(shards, s)
	}
	return shards
}

func (o *ownership) get(number int) (*shard, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.shards[number]
	return s, ok
}
