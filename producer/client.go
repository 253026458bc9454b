// Package producer is the Go SDK of the ledger: it sends commands and waits for their committed outcomes.
//
//	client, err := producer.New(ctx, cfg, logger)
//	outcome, err := client.Submit(ctx, &ledgerv1.Command{
//		CommandId: "order-4711", Operation: ledgerv1.Operation_OPERATION_DEBIT,
//		Account: "alice", Amount: "1250", Currency: "USD", // 12.50
//	})
//
// A rejection is an outcome, not an error. An error is one of three: *InvalidCommandError and *NotSentError mean that
// nothing was sent; *OutcomeUnknownError means that the command may have been applied, or may yet be.
package producer

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
)

// Client sends commands and receives their outcomes. It is safe for concurrent use; Close ends it.
// Commands of one account that one goroutine sends are decided in the order of the calls.
type Client struct {
	cfg     Config
	logger  *zap.Logger
	kafka   *kgo.Client
	replyTo string
	slots   *semaphore.Weighted // one unit per command in flight and KiB
	closing context.Context     // ends with cause ErrClosed when Close is called
	close   context.CancelCauseFunc
	closed  chan struct{} // Close has finished
	wg      sync.WaitGroup

	mu       sync.Mutex
	done     bool                  // under mu: Close has begun, nothing is registered any more
	inFlight map[string][]*Pending // under mu: by command id, in the order sent
}

// New connects to the ledger's Kafka. It checks that the topics are there with cfg.Kafka.Shards partitions, and notes
// where the replies end, so that no outcome of a later command can be missed. ctx bounds New alone.
// A nil logger is silent.
func New(ctx context.Context, cfg Config, logger *zap.Logger) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration of the producer: %w", err)
	}
	if logger == nil {
		logger = zap.NewNop()
	}
	replyTo := cfg.Source + "-" + uuid.NewString()
	replyPartition := topics.PartitionOf(replyTo, cfg.Kafka.Shards)
	kafkaClient, err := kafka.NewClient(cfg.Kafka, logger,
		// The shard of an account is the ledger's business, computed with the ledger's own number of shards.
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// slots bounds what is buffered, in commands and bytes, and lets the caller's context end the wait; these two
		// must never block first.
		kgo.MaxBufferedRecords(2*cfg.InFlightMax),
		kgo.MaxBufferedBytes(2*cfg.InFlightMax*slotBytes),
		// Replies that expired before we read them are lost to us, and time out. The rest is still worth reading.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	from, err := startOfReplies(ctx, kafkaClient, cfg.Kafka.Shards, replyPartition)
	if err != nil {
		kafkaClient.Close()
		return nil, err
	}
	kafkaClient.AddConsumePartitions(map[string]map[int32]kgo.Offset{
		topics.Replies: {replyPartition: kgo.NewOffset().At(from)},
	})
	c := &Client{
		cfg: cfg, logger: logger, kafka: kafkaClient, replyTo: replyTo,
		slots:    semaphore.NewWeighted(int64(cfg.InFlightMax)),
		closed:   make(chan struct{}),
		inFlight: make(map[string][]*Pending),
	}
	c.closing, c.close = context.WithCancelCause(context.Background())
	c.wg.Add(1)
	go c.receive() // ends when closing ends
	return c, nil
}

// startOfReplies returns the end of the partition before anything is sent: all answers to this client come after it.
func startOfReplies(ctx context.Context, client *kgo.Client, shards int, partition int32) (int64, error) {
	admin := kadm.NewClient(client)
	details, err := admin.ListTopics(ctx, topics.Commands, topics.Replies)
	if err != nil {
		return 0, fmt.Errorf("look up topics: %w", err)
	}
	for _, topic := range []string{topics.Commands, topics.Replies} {
		detail := details[topic]
		if detail.Err != nil {
			return 0, fmt.Errorf("look up topic %s: %w; is a ledger-writer running on these brokers?", topic, detail.Err)
		}
		if n := len(detail.Partitions); n != shards {
			return 0, fmt.Errorf("topic %s has %d partitions, but LEDGER_SHARDS is %d; set LEDGER_SHARDS to the ledger's own number", topic, n, shards)
		}
	}
	ends, err := admin.ListEndOffsets(ctx, topics.Replies)
	if err != nil {
		return 0, fmt.Errorf("look up the end of the replies: %w", err)
	}
	end, ok := ends.Lookup(topics.Replies, partition)
	if !ok {
		return 0, fmt.Errorf("look up the end of the replies: the brokers left partition %d out", partition)
	}
	if end.Err != nil {
		return 0, fmt.Errorf("look up the end of the replies: %w", end.Err)
	}
	return end.Offset, nil
}

// NewCommandID makes a command id: a UUID of version 7, which sorts by time and tells when the command was first asked
// for. Store it with the order or payment it is for before sending, so that a retry after a crash uses the same one.
func NewCommandID() string { return uuid.Must(uuid.NewV7()).String() }

// Close waits until the brokers have what was sent (at most closeTimeout), then gives up waiting for outcomes: every
// open Pending ends with an *OutcomeUnknownError. Closing twice is harmless.
func (c *Client) Close() {
	c.mu.Lock()
	again := c.done
	c.done = true
	c.mu.Unlock()
	if again {
		<-c.closed
		return
	}
	defer close(c.closed)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.kafka.Flush(ctx); err != nil {
		c.logger.Warn("closed before the brokers had all commands", zap.Error(err))
	}
	c.close(ErrClosed)
	c.wg.Wait()
	for _, p := range c.open() {
		c.forget(p, p.unknown(ErrClosed))
	}
	c.kafka.Close() // fails what it still buffers
}

// open lists every Pending that is registered.
func (c *Client) open() []*Pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Pending
	for _, pendings := range c.inFlight {
		all = append(all, pendings...)
	}
	return all
}
