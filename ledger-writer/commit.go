package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/schemas/topics"
)

var errOtherGeneration = errors.New("the group moved to another generation since the shards were recovered")

// commit ends the transaction of a batch: what was published, and the command offsets, in one. unchanged, unless nil, names the offsets
// that are committed instead, as they are: a recovery that publishes the outbox reads no command, but must be fenced like one that does
// (rule 13). What was polled meanwhile is not decided yet, and must not count as read.
// nil means confirmed. Whoever waits for an outcome learns it from ledger.replies, which shows it only now (rule 7).
func (w *Writer) commit(ctx context.Context, unchanged map[int]kgo.EpochOffset) error {
	start := time.Now()
	ctx = kgo.PreTxnCommitFnContext(ctx, func(request *kmsg.TxnOffsetCommitRequest) error {
		w.owned.mu.Lock()
		memberID, generation := w.owned.memberID, w.owned.generation
		w.owned.mu.Unlock()
		if request.MemberID != memberID || request.Generation != generation {
			return errOtherGeneration // rule 6
		}
		if unchanged != nil {
			request.Topics = []kmsg.TxnOffsetCommitRequestTopic{w.commandOffsets(unchanged)}
		}
		return nil
	})
	// The library waits for a heartbeat before it ends a transaction. Where the session has timed out meanwhile, there is none until this writer
	// allows the rebalance, which it does after the commit: without an end the two wait for each other. After the transaction timeout there is
	// nothing left to commit.
	ctx, cancel := context.WithTimeout(ctx, w.cfg.TransactionTimeout)
	defer cancel()
	hit(trapPublished)
	w.inTxn = false
	committed, err := w.session.End(ctx, kgo.TryCommit)
	switch {
	case errors.Is(err, errOtherGeneration):
		return err // End has aborted
	case err != nil:
		return fmt.Errorf("%w: the outcome of a commit is unknown: %w", errTenureOver, err)
	case !committed:
		return errors.New("commit: transaction aborted, the group is rebalancing")
	}
	w.metrics.commitSeconds.Observe(time.Since(start).Seconds())
	return nil
}

func (w *Writer) commandOffsets(offsets map[int]kgo.EpochOffset) kmsg.TxnOffsetCommitRequestTopic {
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = topics.Commands
	topic.TopicID = w.topics[topics.Commands]
	for shard, offset := range offsets {
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = int32(shard), offset.Offset, offset.Epoch
		topic.Partitions = append(topic.Partitions, p)
	}
	return topic
}

// trim takes notice of the commit, and deletes from the outbox what it contained (rule 9). What cannot be deleted now is deleted by the next recovery.
func (w *Writer) trim(ctx context.Context, b *batch) {
	for _, p := range b.parts {
		p.shard.at = p.at
		if err := w.store.Trim(ctx, p.shard.number, p.entries); err != nil {
			w.logger.Warn("outbox not trimmed, recovering the shard", zap.Error(err))
			p.shard.inDoubt = true
		}
	}
}
