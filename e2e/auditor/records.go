package auditor

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Undecided counts the commands that a group of writers has not decided, and the transactions that are not over, which may bring more. 0 is the end:
// what an outcome asks for is sent in its own transaction.
func (l Ledger) Undecided(ctx context.Context, group string) (int, error) {
	client, err := kafka.NewClient(l.Kafka, zap.NewNop())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	// The offsets first: a command that one of these decisions asked for is in the topic by now.
	decided, err := admin.FetchOffsets(kadm.RequireStable(ctx), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // where no writer has begun, nothing is decided
		return 0, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	left := 0
	for _, topic := range []string{topics.Commands, topics.Events} {
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return 0, fmt.Errorf("list ends of %s: %w", topic, err)
		}
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return 0, fmt.Errorf("list ends of %s: %w", topic, err)
		}
		ends.Each(func(end kadm.ListedOffset) {
			if at, _ := stable.Lookup(topic, end.Partition); at.Offset < end.Offset {
				left++
			}
		})
	}
	commands, err := l.Records(ctx, topics.Commands)
	if err != nil {
		return 0, err
	}
	for shard, records := range commands {
		at, _ := decided.Lookup(topics.Commands, shard)
		for _, r := range records {
			if r.Offset >= at.At {
				left++
			}
		}
	}
	return left, nil
}

// Records returns all committed records of a topic, by partition, in their order.
func (l Ledger) Records(ctx context.Context, topic string) (map[int32][]*kgo.Record, error) {
	client, err := kafka.NewClient(l.Kafka, zap.NewNop(), kgo.ConsumeTopics(topic), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list ends of %s: %w", topic, err)
	}
	records, left := map[int32][]*kgo.Record{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records[r.Partition] = append(records[r.Partition], r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records, nil
}
