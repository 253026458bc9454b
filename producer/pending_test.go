package producer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/producer/internal/answering"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"
)

// unknownOf ends the test unless err says that the outcome of id is unknown because of cause.
func unknownOf(t *testing.T, err error, id string, cause error) {
	t.Helper()
	var unknown *producer.OutcomeUnknownError
	if !errors.As(err, &unknown) || unknown.CommandID != id || !errors.Is(err, producer.ErrOutcomeUnknown) || !errors.Is(err, cause) {
		t.Fatalf("got %v, want the outcome of %q to be unknown because of: %v", err, id, cause)
	}
}

func send(t *testing.T, client *producer.Client, cmd *ledgerv1.Command) *producer.Pending {
	t.Helper()
	pending, err := client.Send(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

func TestNoAnswerInTimeLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(func(c *producer.Config) { c.OutcomeTimeout = time.Millisecond })
	_, err := client.Submit(t.Context(), debit("d-1"))
	unknownOf(t, err, "d-1", producer.ErrOutcomeTimeout)
	if got := desk.Next().GetCommandId(); got != "d-1" {
		t.Fatalf("%q was sent", got) // and may be applied: that is why it is unknown
	}
}

func TestCancelledWaitLeavesTheOutcomeUnknownAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	pending := send(t, desk.Client(nil), debit("d-1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pending.Wait(ctx)
	unknownOf(t, err, "d-1", context.Canceled)
	desk.Reply(reply(desk.Next()))
	if outcome, err := pending.Wait(t.Context()); err != nil || outcome.GetCommandId() != "d-1" {
		t.Fatalf("got %v, %v", outcome, err)
	}
}

func TestCancelledSubmitLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	answer := submit(ctx, desk.Client(nil), debit("d-1"))
	desk.Next()
	cancel()
	unknownOf(t, (<-answer).err, "d-1", context.Canceled)
}

func TestAbortedReplyIsNeverSeen(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	answer := submit(t.Context(), desk.Client(nil), debit("d-1"))
	cmd := desk.Next()
	desk.ReplyAndAbort(reply(cmd))
	committed := reply(cmd)
	committed.Outcome.Status, committed.Outcome.Reason = ledgerv1.Status_STATUS_REJECTED, ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS
	desk.Reply(committed)
	if got := <-answer; got.err != nil || got.outcome.GetStatus() != ledgerv1.Status_STATUS_REJECTED {
		t.Fatalf("got %v, %v", got.outcome, got.err)
	}
}

func TestForeignAndBrokenRepliesAreSkipped(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	answer := submit(t.Context(), desk.Client(nil), debit("d-1"))
	cmd := desk.Next()
	partition := topics.PartitionOf(cmd.GetReplyTo(), answering.Shards)
	raw := func(value []byte) *kgo.Record {
		return &kgo.Record{Topic: topics.Replies, Partition: partition, Key: []byte("d-1"), Value: value}
	}
	foreign := reply(cmd)
	foreign.ReplyTo = "another client"
	foreign.Outcome.Status = ledgerv1.Status_STATUS_REJECTED
	value, err := proto.Marshal(foreign)
	if err != nil {
		t.Fatal(err)
	}
	other := reply(debit("d-2"))
	other.ReplyTo = cmd.GetReplyTo()
	desk.Write(true, raw(value), raw([]byte("\xff\xff")), raw(nil))
	desk.Reply(other, reply(cmd))
	if got := <-answer; got.err != nil || got.outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
		t.Fatalf("got %v, %v", got.outcome, got.err)
	}
}

// The outcome of a transfer is told by the writer of the far end's shard, after that of the near end has long gone on.
func TestTheReplyToATransferComesFromAnotherShard(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	const near, far = "alice", "carol"
	if topics.ShardOf(near, answering.Shards) == topics.ShardOf(far, answering.Shards) {
		t.Fatal("one shard; take other names")
	}
	move := debit("t-1")
	move.Operation, move.CounterAccount = ledgerv1.Operation_OPERATION_TRANSFER, far
	answer := submit(t.Context(), client, move)
	sent := desk.Next()
	later := submit(t.Context(), client, debit("d-2")) // decided on the near end before the transfer is settled
	desk.Reply(reply(desk.Next()))
	if got := <-later; got.err != nil {
		t.Fatal(got.err)
	}
	refused := reply(sent)
	refused.Outcome.Status, refused.Outcome.Reason = ledgerv1.Status_STATUS_REJECTED, ledgerv1.Reason_REASON_ACCOUNT_FROZEN
	refused.Outcome.Shard, refused.Detail = uint32(topics.ShardOf(far, answering.Shards)), "carol is frozen"
	ownID := reply(sent) // what the far end's writer recorded is not what was asked for
	ownID.Outcome.CommandId = "@credit/t-1"
	desk.Reply(ownID, refused)
	got := <-answer
	if got.err != nil || got.outcome.GetCommandId() != "t-1" || got.outcome.GetReason() != ledgerv1.Reason_REASON_ACCOUNT_FROZEN {
		t.Fatalf("got %v, %v", got.outcome, got.err)
	}
}

func TestReplyToAnEarlierClientAnswersNobodyElse(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	first := desk.Client(nil)
	answer := submit(t.Context(), first, debit("d-1"))
	desk.Reply(reply(desk.Next()))
	<-answer
	again := submit(t.Context(), desk.Client(nil), debit("d-1")) // another client, the same id
	cmd := desk.Next()
	select {
	case got := <-again:
		t.Fatalf("answered by an old reply: %v, %v", got.outcome, got.err)
	default:
	}
	desk.Reply(reply(cmd))
	if got := <-again; got.err != nil {
		t.Fatal(got.err)
	}
}

func TestEverybodyWhoWaitsForAnIDIsAnswered(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	first, second := send(t, client, debit("d-1")), send(t, client, debit("d-1"))
	desk.Reply(reply(desk.Next()))
	for _, pending := range []*producer.Pending{first, second} {
		if outcome, err := pending.Wait(t.Context()); err != nil || outcome.GetCommandId() != "d-1" {
			t.Fatalf("got %v, %v", outcome, err)
		}
	}
	other := debit("d-1")
	other.Amount = "1"
	_, err := client.Send(t.Context(), other) // the second reply is still on its way, and must not answer this one
	var invalid *producer.InvalidCommandError
	if !errors.As(err, &invalid) || invalid.Reason != ledgerv1.Reason_REASON_COMMAND_ID_REUSED {
		t.Fatalf("got %v", err)
	}
	desk.Reply(reply(desk.Next()))
}

func TestCloseWhileWaitingLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	pending := send(t, client, debit("d-1"))
	client.Close()
	client.Close()
	_, err := pending.Wait(t.Context())
	unknownOf(t, err, "d-1", producer.ErrClosed)
	if got := desk.Next().GetCommandId(); got != "d-1" {
		t.Fatalf("%q", got) // Close brought it to the broker
	}
	_, err = client.Submit(t.Context(), debit("d-2"))
	var notSent *producer.NotSentError
	if !errors.As(err, &notSent) || notSent.CommandID != "d-2" || errors.Is(err, producer.ErrOutcomeUnknown) || !errors.Is(err, producer.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}

func TestSendingBlocksWhenTooMuchIsInFlight(t *testing.T) {
	t.Parallel()
	const inFlight = 128
	desk := answering.Open(t)
	client := desk.Client(func(c *producer.Config) { c.InFlightMax = inFlight })
	for i := range inFlight {
		send(t, client, debit(fmt.Sprintf("d-%d", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Send(ctx, debit("one more"))
	var notSent *producer.NotSentError
	if !errors.As(err, &notSent) || !errors.Is(err, context.Canceled) || errors.Is(err, producer.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	blocked := make(chan error, 1)
	go func() {
		_, err := client.Send(t.Context(), debit("one more"))
		blocked <- err
	}()
	desk.Reply(reply(desk.Next()))
	if err := <-blocked; err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := client.Send(t.Context(), debit("too many"))
		blocked <- err
	}()
	client.Close()
	if err := <-blocked; !errors.Is(err, producer.ErrClosed) || errors.Is(err, producer.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
}

func TestSubmitAsyncReturnsWhenTheBrokerHasTheCommand(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	if _, err := desk.Client(nil).SubmitAsync(t.Context(), debit("d-1")); err != nil {
		t.Fatal(err)
	}
	if n := commandsWritten(t, desk); n != 1 {
		t.Fatalf("%d records", n)
	}
}

func TestErrorOfTheBrokerLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	desk.Kafka.Cluster().ControlKey(kmsg.Produce.Int16(), produceError(kerr.TopicAuthorizationFailed))
	_, err := client.SubmitAsync(t.Context(), debit("d-1"))
	unknownOf(t, err, "d-1", kerr.TopicAuthorizationFailed)
}

func TestOrderOfOneAccountSurvivesABrokerThatRefusesForAWhile(t *testing.T) {
	t.Parallel()
	const n = 3000
	desk := answering.Open(t)
	client := desk.Client(func(c *producer.Config) { c.InFlightMax = 2 * n })
	for range 3 {
		desk.Kafka.Cluster().ControlKey(kmsg.Produce.Int16(), produceError(kerr.NotLeaderForPartition))
	}
	accounts := []string{"alice", "bob", "carol", "dave"}
	for i := range n {
		cmd := debit(fmt.Sprintf("%06d", i))
		cmd.Account = accounts[i%len(accounts)]
		send(t, client, cmd)
	}
	last := map[string]string{}
	for range n {
		cmd := desk.Next()
		if cmd.GetCommandId() <= last[cmd.GetAccount()] {
			t.Fatalf("%s: %s after %s", cmd.GetAccount(), cmd.GetCommandId(), last[cmd.GetAccount()])
		}
		last[cmd.GetAccount()] = cmd.GetCommandId()
	}
	if written := commandsWritten(t, desk); written != n {
		t.Fatalf("%d records for %d commands", written, n)
	}
}

// produceError answers one produce request with an error for each partition.
func produceError(why *kerr.Error) func(kmsg.Request) (kmsg.Response, error, bool) {
	return func(request kmsg.Request) (kmsg.Response, error, bool) {
		produce, ok := request.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		response, ok := produce.ResponseKind().(*kmsg.ProduceResponse)
		if !ok {
			return nil, nil, false
		}
		for _, rt := range produce.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = rp.Partition, why.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			response.Topics = append(response.Topics, topic)
		}
		return response, nil, true
	}
}
