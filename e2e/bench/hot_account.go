package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// HotAccount measures the whole path on one account: from the first command in Kafka to the last event committed in Kafka, with the writer,
// Kafka, Redis and the load on the same cores. Then every event is read back: linked, one per command, the balance right.
func HotAccount(ctx context.Context, environ []string, count int) (perSecond float64, err error) {
	var cfg writer.Config
	if err := config.Load("ledger-writer", &cfg, nil, environ); err != nil {
		return 0, err
	}
	w, err := writer.New(cfg, zap.NewNop(), prometheus.NewRegistry(), metrics.NewHealth())
	if err != nil {
		return 0, err
	}
	client, err := kafka.NewClient(cfg.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(count+2))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if _, err := kafka.EnsureTopics(ctx, cfg.Kafka, client); err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }() // ends with stop
	defer func() { stop(); err = errors.Join(err, <-ended) }()

	load := hotLoad{client: client, shard: int32(topics.ShardOf(hotAccount, cfg.Kafka.Shards)), group: cfg.Group}
	if err := load.send(ctx, command("open", ledgerv1.Operation_OPERATION_OPEN, ""), command("fund", ledgerv1.Operation_OPERATION_CREDIT, strconv.Itoa(hotFunds))); err != nil {
		return 0, err
	}
	if err := load.waitCommitted(ctx, 2); err != nil { // the writer owns its shards and is warm
		return 0, err
	}
	records, err := load.records(count)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	for _, r := range records {
		client.Produce(ctx, r, nil) // a lost one shows in the count
	}
	if err := load.waitCommitted(ctx, int64(count+2)); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return float64(count) / took.Seconds(), load.verify(ctx, cfg.Kafka, count)
}

type hotLoad struct {
	client *kgo.Client
	shard  int32
	group  string
}

func (l hotLoad) record(c *ledgerv1.Command) (*kgo.Record, error) {
	value, err := proto.Marshal(c)
	return &kgo.Record{Topic: topics.Commands, Partition: l.shard, Key: []byte(c.GetAccount()), Value: value}, err
}

func (l hotLoad) records(count int) ([]*kgo.Record, error) {
	records := make([]*kgo.Record, count)
	for i := range records {
		var err error
		if records[i], err = l.record(command("debit-"+strconv.Itoa(i), ledgerv1.Operation_OPERATION_DEBIT, "1")); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func (l hotLoad) send(ctx context.Context, commands ...*ledgerv1.Command) error {
	for _, c := range commands {
		r, err := l.record(c)
		if err != nil {
			return err
		}
		if err := l.client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// waitCommitted waits until the writer has committed that many commands of the shard: their events are committed with them.
func (l hotLoad) waitCommitted(ctx context.Context, offset int64) error {
	const look = 5 * time.Millisecond // well below what is measured
	admin := kadm.NewClient(l.client)
	for {
		offsets, err := admin.FetchOffsets(ctx, l.group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // the writer has not joined yet
			return err
		}
		if at, ok := offsets.Lookup(topics.Commands, l.shard); ok && at.At >= offset {
			return nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return fmt.Errorf("wait for %d commands: %w", offset, ctx.Err())
		}
	}
}

func (l hotLoad) verify(ctx context.Context, cfg kafka.Config, count int) error {
	reader, err := kafka.NewClient(cfg, zap.NewNop(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Events: {l.shard: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return err
	}
	defer reader.Close()
	link, seen, balance := lua.FirstLink, map[string]bool{}, int64(0)
	for len(seen) < count+2 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			e := &ledgerv1.Event{}
			if err := proto.Unmarshal(r.Value, e); err != nil {
				return err
			}
			if link, err = lua.LinkAfter(link, e); err != nil {
				return err
			}
			o := e.GetOutcome()
			delta, err := strconv.ParseInt(o.GetDelta(), 10, 64)
			if err != nil {
				return err
			}
			balance += delta
			if seen[o.GetCommandId()] || o.GetStatus() != ledgerv1.Status_STATUS_APPLIED || o.GetAfter().GetBalance() != strconv.FormatInt(balance, 10) {
				return fmt.Errorf("event %d of %s is wrong", o.GetPosition(), o.GetCommandId())
			}
			seen[o.GetCommandId()] = true
		}
	}
	if want := int64(hotFunds - count); balance != want {
		return fmt.Errorf("hot account: balance %d, want %d", balance, want)
	}
	return nil
}
