package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// pollWait bounds one poll, so that a shard is recovered soon after it was assigned, commands or not, and an idle writer checks its
// shards now and then.
const pollWait = 100 * time.Millisecond

// batch is what one turn works on. Each step fills in its part.
type batch struct {
	records map[int][]*kgo.Record // by shard, from poll
	parts   map[int]*part         // by shard, from decode
	out     *publisher            // the batch's transaction
	derived []*ledgerv1.Command   // what the ledger asks for itself, besides what follows from the decisions
}

// part is one shard's share of a batch: commands in their order, and what became of them. One goroutine works on it.
type part struct {
	shard        *shard
	at           lua.Point // where Redis and the log will be, once all that is decided and published so far is committed
	calendar     calendar
	fingerprints lua.Fingerprints
	records      []*kgo.Record // to be decoded
	sources      []*kgo.Record // the record of each command
	commands     []lua.Command
	details      []string // what was wrong with a refused command, for its caller
	prepared     int      // commands
	decisions    []lua.Decision
	published    int      // decisions
	entries      []string // outbox entries that the decisions left
	letters      []*ledgerv1.DeadLetter
	replies      []*ledgerv1.Reply
	moved        []*kgo.Record // commands that landed on the wrong partition
}

func (b *batch) empty() bool { return len(b.records) == 0 && len(b.derived) == 0 }

// size is how many commands were polled.
func (b *batch) size() (n int) {
	for _, records := range b.records {
		n += len(records)
	}
	return n
}

// drop forgets the records of a shard: they will be polled again.
func (b *batch) drop(shard int) { delete(b.records, shard) }

// poll takes the next commands of the owned shards. No rebalance runs from here until AllowRebalance.
func (w *Writer) poll(ctx context.Context) (*batch, error) {
	wait, cancel := context.WithTimeout(ctx, pollWait)
	defer cancel()
	fetches := w.session.PollRecords(wait, w.pace.records)
	b := &batch{records: map[int][]*kgo.Record{}}
	if fetches.IsClientClosed() {
		return b, errTenureOver
	}
	for _, failed := range fetches.Errors() {
		switch err := failed.Err; {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		case isLogDamage(err):
			return b, errDamagedLog{fmt.Errorf("read commands of shard %d: %w", failed.Partition, err)}
		default:
			w.logger.Warn("fetch commands", zap.Int32("shard", failed.Partition), zap.Error(err))
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		shard := int(r.Partition)
		b.records[shard] = append(b.records[shard], r)
	})
	return b, nil
}

// isLogDamage tells the errors that no retry heals: commands that were not read are gone, or the topic is another one. Skipping would
// lose money, so the writer stops and a person decides.
func isLogDamage(err error) bool {
	var loss *kgo.ErrDataLoss
	return errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

// checkIdle compares Redis's head with what the writer believes, on shards without traffic: a rollback or wipe of an idle shard
// would otherwise never be healed (rule 17).
func (w *Writer) checkIdle(ctx context.Context) error {
	for _, s := range w.owned.all() {
		if s.inDoubt || time.Since(s.checkedAt) < w.cfg.IdleCheck {
			continue
		}
		state, err := w.store.Inspect(ctx, s.number)
		s.checkedAt = time.Now()
		if redis.IsTransient(err) {
			// Nothing is in doubt yet: the next command or the next check will tell.
			w.logger.Warn("idle check put off", zap.Int("shard", s.number), zap.Error(err))
			return nil
		}
		if err != nil {
			return err
		}
		// Nothing is in flight here, so entries in the outbox are of a Redis that was put back to the moment between an apply and its trim.
		if state.Condition != lua.Whole || state.Head != s.at.Head || len(state.Outbox) > 0 {
			w.logger.Warn("redis moved while idle", zap.Int("shard", s.number), zap.Stringer("believed", s.at.Head), zap.Stringer("found", state.Head))
			s.inDoubt = true
		}
	}
	return nil
}
