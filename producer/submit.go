package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hotledger/hotledger/schemas/cloudevents"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// closeTimeout is how long Close tries to bring buffered commands to the brokers.
const closeTimeout = 5 * time.Second

// headerTraceparent carries a command's W3C trace context for tools that look at headers alone.
const headerTraceparent = "traceparent"

// Submit sends a command and waits for its committed outcome: applied, or rejected with a reason. When ctx ends first,
// or Config.OutcomeTimeout passes, the error is an *OutcomeUnknownError. Errors before anything was sent are those of Send.
func (c *Client) Submit(ctx context.Context, cmd *ledgerv1.Command) (*ledgerv1.Outcome, error) {
	p, err := c.Send(ctx, cmd)
	if err != nil {
		return nil, err
	}
	outcome, err := p.Wait(ctx)
	if err != nil {
		c.forget(p, err) // nobody else holds p
	}
	return outcome, err
}

// SubmitAsync sends a command and returns once the brokers have it: from then on it will be decided even if this
// process dies. When ctx ends before that, the error is an *OutcomeUnknownError. Errors before anything was sent are
// those of Send.
func (c *Client) SubmitAsync(ctx context.Context, cmd *ledgerv1.Command) (*Pending, error) {
	p, err := c.Send(ctx, cmd)
	if err != nil {
		return nil, err
	}
	if err := p.acked(ctx); err != nil {
		c.forget(p, err)
		return nil, err
	}
	return p, nil
}

// Send is the pipelined form, for imports and load: it queues the command and returns without waiting for the brokers.
// It blocks while Config.InFlightMax commands wait for their outcome. The caller's command is never changed; it is
// copied, and the copy gets the reply address, and requested_at and source where they are unset.
//
// The ledger remembers an id for some time, and by requested_at it knows a command that may be older. So a retry must say
// the same requested_at as the first attempt: send Pending.Command or OutcomeUnknownError.Command again, use an id of
// NewCommandID, which holds its time, or set requested_at from where the id is stored.
//
// An error means that the command was certainly not sent: *InvalidCommandError where the ledger would refuse it (also
// when the same id is in flight with another payload), *NotSentError where ctx ended or the client is closed.
// Everything that happens later is told by the Pending.
func (c *Client) Send(ctx context.Context, cmd *ledgerv1.Command) (*Pending, error) {
	record, sent, err := c.encode(cmd)
	if err != nil {
		return nil, err
	}
	weight := int64((len(record.Value) + slotBytes - 1) / slotBytes)
	if err := c.acquire(ctx, weight); err != nil {
		return nil, &NotSentError{CommandID: cmd.GetCommandId(), Cause: err}
	}
	p := &Pending{client: c, command: sent, weight: weight, done: make(chan struct{}), ack: make(chan struct{})}
	if err := c.register(p); err != nil {
		c.slots.Release(weight)
		return nil, err
	}
	// Never cancelled: a record that is cancelled while in flight leaves a hole in the idempotent sequence, and may have
	// been written all the same. What ends is the wait, not the record.
	c.kafka.Produce(context.Background(), record, func(_ *kgo.Record, err error) { c.produced(p, err) })
	return p, nil
}

// acquire waits for room in flight, until ctx ends or the client closes.
func (c *Client) acquire(ctx context.Context, weight int64) error {
	if c.closing.Err() != nil {
		return ErrClosed
	}
	if c.slots.TryAcquire(weight) {
		return nil
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	defer stop()
	if err := c.slots.Acquire(waiting, weight); err != nil {
		return context.Cause(waiting)
	}
	return nil
}

// encode checks and copies the command, and makes the record of it.
func (c *Client) encode(cmd *ledgerv1.Command) (*kgo.Record, *ledgerv1.Command, error) {
	sent := &ledgerv1.Command{}
	if cmd != nil {
		sent = proto.CloneOf(cmd)
	}
	sent.ReplyTo = c.replyTo
	if sent.GetSource() == "" {
		sent.Source = c.cfg.Source
	}
	if sent.GetRequestedAt() == nil {
		sent.RequestedAt = timestamppb.New(FirstRequested(sent.GetCommandId(), time.Now()))
	}
	if err := Check(sent); err != nil {
		return nil, nil, err
	}
	value, err := proto.Marshal(sent)
	if err == nil && len(value) > limits.CommandBytesMax {
		err = fmt.Errorf("the command has %d bytes in all; at most %d are allowed", len(value), limits.CommandBytesMax)
	}
	if err != nil {
		return nil, nil, &InvalidCommandError{
			CommandID: sent.GetCommandId(), Reason: ledgerv1.Reason_REASON_INVALID_TEXT, Text: err.Error(),
		}
	}
	account := sent.GetAccount()
	record := &kgo.Record{
		Topic:     topics.Commands,
		Partition: int32(topics.ShardOf(account, c.cfg.Kafka.Shards)),
		Key:       []byte(account),
		Value:     value,
		Headers:   cloudevents.Headers(cloudevents.Command, sent.GetCommandId()),
	}
	if trace := sent.GetTraceparent(); trace != "" {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: headerTraceparent, Value: []byte(trace)})
	}
	return record, sent, nil
}

// Check tells whether Send would refuse the command as it is: nil, or an *InvalidCommandError. It asks nobody. It is the
// ledger's own check, and keeps callers from ids that are the ledger's.
func Check(cmd *ledgerv1.Command) error {
	why, err := limits.Command(cmd)
	if err == nil && limits.Derived(cmd.GetCommandId()) {
		why, err = ledgerv1.Reason_REASON_INVALID_COMMAND_ID,
			fmt.Errorf("command id: %q is the ledger's own; choose one that does not start with \"@\"", cmd.GetCommandId())
	}
	if err != nil {
		return &InvalidCommandError{CommandID: cmd.GetCommandId(), Reason: why, Text: err.Error()}
	}
	return nil
}

// FirstRequested is when a command was first asked for, as far as its id tells: an id of NewCommandID was made then, and says so again on
// every retry, in whatever process. For all others it is now.
func FirstRequested(commandID string, now time.Time) time.Time {
	id, err := uuid.Parse(commandID)
	if err != nil || id.Version() != 7 {
		return now
	}
	made := time.Unix(id.Time().UnixTime())
	if made.After(now) {
		return now // by a clock that is ahead of ours
	}
	return made
}
