package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// logEnd is the last committed event of a shard in Kafka.
type logEnd struct {
	head   lua.Head // Genesis where the log is empty
	offset int64    // the last stable offset: all committed events are below it
	at     time.Time
}

// logged is an event with its place in Kafka.
type logged struct {
	event  *ledgerv1.Event
	shard  int
	key    []byte
	offset int64
	at     time.Time // the broker's clock
}

// tailRecords is how far before the end the first look for the last event begins: markers and aborted records may be in the way.
const (
	tailRecords = 64
	tailGrowth  = 16
)

// logTimeout bounds one request to Kafka, several tries at several brokers included. The client retries for as long as it may.
const logTimeout = 15 * time.Second

var errKafkaSilent = fmt.Errorf("no answer from Kafka within %s", logTimeout)

// readEnd reads the end of a shard's log in Kafka.
func (r *reconciliation) readEnd(ctx context.Context, shard int) (logEnd, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, logTimeout, errKafkaSilent)
	defer cancel()
	end, err := r.lastEvent(ctx, shard)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return logEnd{}, fmt.Errorf("read the end of shard %d of the log: %w", shard, err)
	}
	return end, nil
}

func (r *reconciliation) lastEvent(ctx context.Context, shard int) (logEnd, error) {
	admin := kadm.NewClient(r.kafka)
	starts, err := admin.ListStartOffsets(ctx, topics.Events)
	if err != nil {
		return logEnd{}, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, topics.Events)
	if err != nil {
		return logEnd{}, err
	}
	start, ok := starts.Lookup(topics.Events, int32(shard))
	stop, known := ends.Lookup(topics.Events, int32(shard))
	if !ok || !known {
		return logEnd{}, fmt.Errorf("topic %s has no partition %d", topics.Events, shard)
	}
	if err := errors.Join(start.Err, stop.Err); err != nil {
		return logEnd{}, err
	}
	end := logEnd{head: lua.Genesis, offset: stop.Offset}
	for back := int64(tailRecords); start.Offset < end.offset; back *= tailGrowth {
		from := max(start.Offset, end.offset-back)
		err := r.readLog(ctx, shard, from, end.offset, func(l logged) error {
			point, _ := lua.PointOf(l.event) // every batch ends with a call
			end.head, end.at = point.Head, l.at
			return nil
		})
		if err != nil || end.head != lua.Genesis || from == start.Offset {
			return end, err
		}
	}
	return end, nil
}

// errEnough ends readLog without an error.
var errEnough = errors.New("enough")

// readLog calls each with the committed events of a shard at the offsets from (included) to end (excluded), in order. An event is used again
// after the call, and its texts lie in what was fetched: keep copies.
func (r *reconciliation) readLog(ctx context.Context, shard int, from, end int64, each func(logged) error) error {
	if from >= end {
		return nil
	}
	client, err := kafka.NewClient(r.cfg.Kafka, r.logger,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Events: {int32(shard): kgo.NewOffset().At(from)}}),
		// The last record of a range is often the marker of a transaction, which tells that the range is read.
		kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read the log of shard %d: %w", shard, err)
		}
		for records := fetches.RecordIter(); !records.Done(); {
			record := records.Next()
			if record.Offset >= end {
				return nil
			}
			if !record.Attrs.IsControl() {
				event := ledgerv1.EventFromVTPool()
				if err := event.UnmarshalVTUnsafe(record.Value); err != nil {
					return fmt.Errorf("event at %s/%d offset %d cannot be read: %w", record.Topic, shard, record.Offset, err)
				}
				err := each(logged{event: event, shard: shard, key: record.Key, offset: record.Offset, at: record.Timestamp})
				event.ReturnToVTPool()
				if errors.Is(err, errEnough) {
					return nil
				} else if err != nil {
					return err
				}
			}
			if record.Offset == end-1 {
				return nil
			}
		}
	}
}
