package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/schemas/topics"
)

// fetchBytesMax is one answer of a broker to one reader. With answers of 4 MiB an event took a sixth more CPU, and the process 150 MiB more. A reader holds at
// most two (one polled, one on its way), so a shard costs 2 * 512 KiB * the ratio of compression, plus its batch.
const fetchBytesMax = 512 << 10

// reader reads one partition of the log from a chosen offset. It is no member of the group: the worker alone decides where
// it stands, and a worker that waits for ClickHouse stops fetching by itself.
type reader struct {
	client  *kgo.Client
	pending []*kgo.Record // polled, not taken
	failed  error         // permanent; every peek returns it from then on
}

// newReader opens the partition at offset; 0 is the beginning of the log.
func newReader(cfg Config, logger *zap.Logger, shard int32, offset int64) (*reader, error) {
	client, err := kafka.NewClient(cfg.Kafka, logger,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Events: {shard: kgo.NewOffset().At(offset)}}),
		kgo.FetchMaxBytes(fetchBytesMax),
		// Per partition and per answer: there is one partition.
		kgo.FetchMaxPartitionBytes(fetchBytesMax),
		kgo.MaxConcurrentFetches(1),
		kgo.WithDecompressor(headerless{kgo.DefaultDecompressor()}),
	)
	if err != nil {
		return nil, err
	}
	return &reader{client: client}, nil
}

func (r *reader) close() {
	if r != nil {
		r.client.Close()
	}
}

// peek returns the next record without taking it; it waits for one until ctx ends.
func (r *reader) peek(ctx context.Context, logger *zap.Logger) (*kgo.Record, error) {
	if len(r.pending) == 0 {
		if r.failed != nil {
			return nil, r.failed
		}
		if err := retry.Do(ctx, logger, "poll events", r.poll); err != nil {
			return nil, err
		}
	}
	return r.pending[0], nil
}

// take drops the record that peek returned.
func (r *reader) take() {
	r.pending[0] = nil
	r.pending = r.pending[1:]
}

func (r *reader) poll(ctx context.Context) error {
	for {
		fetches := r.client.PollFetches(ctx)
		r.pending = fetches.Records()
		var trouble error
		fetches.EachError(func(_ string, _ int32, err error) { trouble = errors.Join(trouble, err) })
		if permanentInLog(trouble) {
			r.failed = trouble
			trouble = retry.Permanent(trouble)
		}
		switch {
		case len(r.pending) > 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case trouble != nil:
			return fmt.Errorf("poll events: %w", trouble)
		}
	}
}

// permanentInLog are the errors that tell that the log is not what it was. Everything else passes, or is an operator's to
// mend while we wait (an ACL, say).
func permanentInLog(err error) bool {
	var loss *kgo.ErrDataLoss
	return errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) ||
		errors.Is(err, kerr.CorruptMessage) || errors.Is(err, kgo.ErrClientClosed)
}
