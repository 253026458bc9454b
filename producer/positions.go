package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/hotledger/hotledger/chassis/kafka"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
)

const (
	// tailRecords is how far before the end of a shard the first look for its last event begins. Only control records
	// and aborted ones can be in the way.
	tailRecords = 64
	// tailGrowth widens a look that found none.
	tailGrowth = 16
	// tailTimeout bounds one look.
	tailTimeout = 30 * time.Second
)

// Positions returns the position of the last committed event of each shard, by shard number; 0 where there is none.
// An outcome with a position up to this one was decided before the call: that is how a repeated command is told from a
// new one. It needs the right to read ledger.events.
func (c *Client) Positions(ctx context.Context) ([]uint64, error) {
	positions, err := c.positions(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the last positions of the log: %w", err)
	}
	return positions, nil
}

func (c *Client) positions(ctx context.Context) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	admin := kadm.NewClient(c.kafka)
	starts, err := admin.ListStartOffsets(ctx, topics.Events)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, topics.Events)
	if err != nil {
		return nil, err
	}
	positions := make([]uint64, c.cfg.Kafka.Shards)
	for back := int64(tailRecords); ; back *= tailGrowth {
		from, to := map[int32]kgo.Offset{}, map[int32]int64{}
		complete := true
		for shard := range positions {
			partition := int32(shard)
			start, _ := starts.Lookup(topics.Events, partition)
			end, ok := ends.Lookup(topics.Events, partition)
			switch {
			case !ok:
				return nil, fmt.Errorf("topic %s has no partition %d", topics.Events, partition)
			case start.Err != nil:
				return nil, start.Err
			case end.Err != nil:
				return nil, end.Err
			case positions[shard] > 0 || end.Offset <= start.Offset:
				continue
			}
			begin := max(start.Offset, end.Offset-back)
			complete = complete && begin == start.Offset
			from[partition], to[partition] = kgo.NewOffset().At(begin), end.Offset
		}
		if len(from) == 0 {
			return positions, nil
		}
		if err := c.readTails(ctx, from, to, positions); err != nil {
			return nil, err
		}
		if complete {
			return positions, nil
		}
	}
}

// readTails reads each partition from its offset up to (not including) its end, and enters the positions it meets.
func (c *Client) readTails(ctx context.Context, from map[int32]kgo.Offset, to map[int32]int64, positions []uint64) error {
	client, err := kafka.NewClient(c.cfg.Kafka, c.logger,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Events: from}),
		// The last record before a committed offset is the marker of a transaction: it tells that the end is reached.
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for len(to) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			record := iter.Next()
			end, open := to[record.Partition]
			if !open || record.Offset >= end {
				continue
			}
			if record.Offset == end-1 {
				delete(to, record.Partition)
			}
			if record.Attrs.IsControl() {
				continue
			}
			event := &ledgerv1.Event{}
			if err := proto.Unmarshal(record.Value, event); err != nil {
				return fmt.Errorf("decode event at %s/%d offset %d: %w", record.Topic, record.Partition, record.Offset, err)
			}
			positions[record.Partition] = event.GetOutcome().GetPosition()
		}
	}
	return nil
}
