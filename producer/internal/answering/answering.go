// Package answering gives the tests of this module a real broker and somebody at its other end: a Desk that reads the
// commands and writes the replies that a test asks for. It decides nothing; it is no ledger.
package answering

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/sandbox"
	"github.com/hotledger/hotledger/schemas/cloudevents"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// Shards of the ledgers in tests.
const Shards = 3

// patience ends a test that would hang; nothing is measured with it.
const patience = 60 * time.Second

// Desk is the other end of one broker.
type Desk struct {
	t      testing.TB
	Kafka  *sandbox.Kafka
	Config producer.Config
	reader *kgo.Client
	writer *kgo.Client
	unread []*kgo.Record
}

// Open starts a broker with the ledger's topics. It ends with the test.
func Open(t testing.TB) *Desk {
	t.Helper()
	broker, err := sandbox.StartKafka(sandbox.KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	d := &Desk{t: t, Kafka: broker, Config: producer.Config{
		Kafka:  kafka.Config{Brokers: broker.Addrs(), Shards: Shards, ReplicationFactor: 1, ClientID: "test"},
		Source: "test", OutcomeTimeout: patience, InFlightMax: 1000,
	}}
	d.reader = d.client(kgo.ConsumeTopics(topics.Commands))
	d.writer = d.client(kgo.TransactionalID("desk"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := kafka.EnsureTopics(t.Context(), d.Config.Kafka, d.reader); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Desk) client(opts ...kgo.Opt) *kgo.Client {
	d.t.Helper()
	client, err := kafka.NewClient(d.Config.Kafka, zap.NewNop(), opts...)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(client.Close)
	return client
}

// Client connects a client of the SDK, with the configuration changed by change (nil: as it is). It closes with the test.
func (d *Desk) Client(change func(*producer.Config)) *producer.Client {
	d.t.Helper()
	cfg := d.Config
	if change != nil {
		change(&cfg)
	}
	client, err := producer.New(d.t.Context(), cfg, zap.NewNop())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(client.Close)
	return client
}

// NextRecord waits for the next record of ledger.commands; of one shard they come in order. It returns an error when ctx ends.
func (d *Desk) NextRecord(ctx context.Context) (*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(d.unread) == 0 {
		fetches := d.reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		d.unread = fetches.Records()
	}
	record := d.unread[0]
	d.unread = d.unread[1:]
	return record, nil
}

// Next is NextRecord, decoded; it ends the test on an error. Call it from the test's goroutine.
func (d *Desk) Next() *ledgerv1.Command {
	d.t.Helper()
	record, err := d.NextRecord(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := &ledgerv1.Command{}
	if err := proto.Unmarshal(record.Value, cmd); err != nil {
		d.t.Fatal(err)
	}
	return cmd
}

// Serve answers every command with what decide returns, in a transaction each, until the test ends. decide runs in one
// goroutine; position counts from after, per shard.
func (d *Desk) Serve(after []uint64, decide func(*ledgerv1.Command, *ledgerv1.Outcome)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // ends when the test does
		defer close(ended)
		positions := append([]uint64(nil), after...)
		for {
			record, err := d.NextRecord(ctx)
			if err != nil {
				return
			}
			cmd := &ledgerv1.Command{}
			if err := proto.Unmarshal(record.Value, cmd); err != nil {
				d.t.Error(err)
				return
			}
			positions[record.Partition]++
			outcome := Applied(cmd)
			outcome.Shard, outcome.Position = uint32(record.Partition), positions[record.Partition]
			decide(cmd, outcome)
			if err := d.transact(ctx, kgo.TryCommit, replyRecord(&ledgerv1.Reply{ReplyTo: cmd.GetReplyTo(), Outcome: outcome})); err != nil && ctx.Err() == nil {
				d.t.Error(err)
			}
		}
	}()
	d.t.Cleanup(func() { cancel(); <-ended })
}

// Applied is an outcome of the command.
func Applied(cmd *ledgerv1.Command) *ledgerv1.Outcome {
	return &ledgerv1.Outcome{
		CommandId: cmd.GetCommandId(), Account: cmd.GetAccount(), Status: ledgerv1.Status_STATUS_APPLIED, Position: 1, Delta: "0",
	}
}

// Reply writes replies in one transaction, and commits it.
func (d *Desk) Reply(replies ...*ledgerv1.Reply) { d.write(kgo.TryCommit, replies) }

// ReplyAndAbort writes replies in one transaction, and aborts it.
func (d *Desk) ReplyAndAbort(replies ...*ledgerv1.Reply) { d.write(kgo.TryAbort, replies) }

func (d *Desk) write(end kgo.TransactionEndTry, replies []*ledgerv1.Reply) {
	d.t.Helper()
	records := make([]*kgo.Record, 0, len(replies))
	for _, reply := range replies {
		records = append(records, replyRecord(reply))
	}
	if err := d.transact(d.t.Context(), end, records...); err != nil {
		d.t.Fatal(err)
	}
}

// Write writes records in one transaction, and commits or aborts it.
func (d *Desk) Write(commit bool, records ...*kgo.Record) {
	d.t.Helper()
	if err := d.transact(d.t.Context(), kgo.TransactionEndTry(commit), records...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Desk) transact(ctx context.Context, end kgo.TransactionEndTry, records ...*kgo.Record) error {
	if err := d.writer.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := d.writer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return d.writer.EndTransaction(ctx, end)
}

func replyRecord(reply *ledgerv1.Reply) *kgo.Record {
	id := reply.GetOutcome().GetCommandId()
	value, err := proto.Marshal(reply)
	if err != nil {
		panic(err) // a message made in this file
	}
	return &kgo.Record{
		Topic: topics.Replies, Partition: topics.PartitionOf(reply.GetReplyTo(), Shards), Key: []byte(id), Value: value,
		Headers: cloudevents.Headers(cloudevents.Reply, id),
	}
}
