package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/schemas/topics"
)

// mark is the metadata of a committed offset: how far the rows are, and which range is about to be inserted. It is durable
// before the insert, so whoever takes over knows what may be in flight, and sends exactly that again.
type mark struct {
	Version int `json:"v"`
	// Topic is the topic's id: a topic that was deleted and created again is another log.
	Topic string `json:"topic"`
	// Epoch makes the tokens of one life of the table differ from those of another. See nextEpoch.
	Epoch int64 `json:"epoch"`
	// Done is the position up to which every row is in ClickHouse.
	Done uint64 `json:"done"`
	// From and To are the intent, positions, inclusive; 0 = none. From is Done+1.
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
	// ToOffset is the Kafka offset of To.
	ToOffset int64 `json:"toOffset,omitempty"`
}

const markVersion = 1

func (m mark) intended() bool { return m.To != 0 }

// token names the intended insert. The same token always stands for the same rows.
func (m mark) token(shard int32) string {
	return fmt.Sprintf("%s/%s/%d/%d/%d-%d", topics.Events, m.Topic, shard, m.Epoch, m.From, m.To)
}

// parseMark reads the metadata of a committed offset; nil = none. Whatever is not ours (an operator's reset leaves an empty
// text, other tools leave their names) counts as none: ClickHouse then says alone where to go on. A mark of a newer version
// is an error.
func parseMark(metadata string) (*mark, error) {
	if !strings.HasPrefix(metadata, "{") {
		return nil, nil //nolint:nilnil // none is a valid answer
	}
	var m mark
	if err := json.Unmarshal([]byte(metadata), &m); err != nil || m.Version == 0 {
		return nil, nil //nolint:nilnil,nilerr // somebody else's text
	}
	if m.Version != markVersion {
		return nil, fmt.Errorf("committed offset has metadata of version %d, this build reads version %d", m.Version, markVersion)
	}
	if m.intended() && (m.From != m.Done+1 || m.To < m.From) {
		return nil, fmt.Errorf("committed offset has the impossible intent %d-%d after position %d", m.From, m.To, m.Done)
	}
	return &m, nil
}

// nextEpoch returns an epoch that no token carries yet. It is the clock, so that it is new even where the epoch before is
// not known any more (offsets were reset), and it is made durable with the first intent before it is used.
func nextEpoch(before *mark, now time.Time) int64 {
	epoch := now.UnixMilli()
	if before != nil && before.Epoch >= epoch {
		return before.Epoch + 1
	}
	return epoch
}

// commitTimeout bounds one commit; the next one is as good.
const commitTimeout = 10 * time.Second

// commit makes m durable: the offset says that everything before it is inserted, the metadata says what comes next.
func (w *worker) commit(ctx context.Context, m mark) error {
	return retry.Do(ctx, w.logger, "commit intent", func(context.Context) error {
		err := w.commitOnce(m)
		if errors.Is(err, errNotOwned) || errors.Is(err, errTakeOver) {
			return retry.Permanent(err)
		}
		return err
	})
}

func (w *worker) commitOnce(m mark) error {
	metadata, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode mark: %w", err)
	}
	text := string(metadata)
	// A commit that began is not cut short by a drain: it says whether the insert may happen.
	ctx, cancel := context.WithTimeout(w.alive, commitTimeout)
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		// The request has its member and generation by now. If they are older than a rebalance that took the shard away,
		// the broker fences it; if they are newer, that rebalance ended this worker first, and owned is false.
		if !w.owned.Load() {
			return errNotOwned
		}
		if request.Generation < 0 {
			return errors.New("not a member of the group at this moment") // the broker would take it for an admin's commit
		}
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				request.Topics[t].Partitions[p].Metadata = &text
			}
		}
		return nil
	})
	w.group.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{
		topics.Events: {w.shard: {Epoch: -1, Offset: w.reached.Load()}},
	}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, commitErr error) {
		err = commitResult(response, commitErr)
	})
	if err == nil {
		w.committed = m
		w.logger.Debug("intent committed", zap.Uint64("done", m.Done), zap.Uint64("from", m.From), zap.Uint64("to", m.To))
	}
	return err
}

func commitResult(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			switch err := kerr.ErrorForCode(partition.ErrorCode); {
			case errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnknownMemberID),
				errors.Is(err, kerr.FencedInstanceID), errors.Is(err, kerr.StaleMemberEpoch):
				return fmt.Errorf("%w: commit was fenced: %w", errTakeOver, err)
			case err != nil:
				return err
			}
		}
	}
	return nil
}
