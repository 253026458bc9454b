package producer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/producer/internal/answering"
	"github.com/hotledger/hotledger/schemas/cloudevents"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func debit(id string) *ledgerv1.Command {
	return &ledgerv1.Command{
		CommandId: id, Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: "alice", Amount: "1250", Currency: "USD",
	}
}

func reply(cmd *ledgerv1.Command) *ledgerv1.Reply {
	return &ledgerv1.Reply{ReplyTo: cmd.GetReplyTo(), Outcome: answering.Applied(cmd)}
}

type submitted struct {
	outcome *ledgerv1.Outcome
	err     error
}

func submit(ctx context.Context, client *producer.Client, cmd *ledgerv1.Command) <-chan submitted {
	c := make(chan submitted, 1)
	go func() {
		outcome, err := client.Submit(ctx, cmd)
		c <- submitted{outcome, err}
	}()
	return c
}

func TestSubmitReturnsTheCommittedOutcome(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	answer := submit(t.Context(), client, debit("d-1"))
	desk.Reply(reply(desk.Next()))
	got := <-answer
	if got.err != nil || got.outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED || got.outcome.GetCommandId() != "d-1" {
		t.Fatalf("got %v, %v", got.outcome, got.err)
	}
}

func TestRejectionIsAnOutcomeWithItsDetail(t *testing.T) {
	t.Parallel()
	for _, why := range []ledgerv1.Reason{ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS, ledgerv1.Reason_REASON_COMMAND_ID_REUSED} {
		t.Run(why.String(), func(t *testing.T) {
			t.Parallel()
			desk := answering.Open(t)
			pending, err := desk.Client(nil).SubmitAsync(t.Context(), debit("d-1"))
			if err != nil {
				t.Fatal(err)
			}
			if pending.Detail() != "" {
				t.Fatal("detail before the answer")
			}
			r := reply(desk.Next())
			r.Outcome.Status, r.Outcome.Reason, r.Detail = ledgerv1.Status_STATUS_REJECTED, why, "12.50 wanted, 3.00 there"
			desk.Reply(r)
			outcome, err := pending.Wait(t.Context())
			if err != nil || outcome.GetStatus() != ledgerv1.Status_STATUS_REJECTED || outcome.GetReason() != why {
				t.Fatalf("got %v, %v", outcome, err)
			}
			if pending.Detail() != r.GetDetail() || pending.ID() != "d-1" {
				t.Fatalf("detail %q, id %q", pending.Detail(), pending.ID())
			}
		})
	}
}

func TestCommandArrivesOnItsShardWithItsHeaders(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	cmd := debit("d-1")
	cmd.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	before := proto.CloneOf(cmd)
	if _, err := client.SubmitAsync(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(cmd, before) {
		t.Fatalf("the caller's command was changed to %v", cmd)
	}
	record, err := desk.NextRecord(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if int(record.Partition) != topics.ShardOf("alice", answering.Shards) || string(record.Key) != "alice" {
		t.Errorf("partition %d, key %q", record.Partition, record.Key)
	}
	headers := map[string]string{}
	for _, h := range record.Headers {
		headers[h.Key] = string(h.Value)
	}
	if headers[cloudevents.HeaderType] != "ledger.command.v1" || headers[cloudevents.HeaderID] != "d-1" || headers["traceparent"] != cmd.GetTraceparent() {
		t.Errorf("headers %v", headers)
	}
	sent := &ledgerv1.Command{}
	if err := proto.Unmarshal(record.Value, sent); err != nil {
		t.Fatal(err)
	}
	if sent.GetSource() != "test" || sent.GetRequestedAt() == nil || !strings.HasPrefix(sent.GetReplyTo(), "test-") {
		t.Errorf("sent %v", sent)
	}
	sent.Source, sent.RequestedAt, sent.ReplyTo = "", nil, ""
	if !proto.Equal(sent, before) {
		t.Errorf("sent %v, want %v", sent, before)
	}
}

func TestFirstRequestTimeAndSourceSurviveARetry(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	cmd := debit("d-1")
	cmd.RequestedAt, cmd.Source, cmd.ReplyTo = timestamppb.New(time.Unix(1_700_000_000, 0)), "shop", "somebody else"
	if _, err := desk.Client(nil).SubmitAsync(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	sent := desk.Next()
	if !proto.Equal(sent.GetRequestedAt(), cmd.GetRequestedAt()) || sent.GetSource() != "shop" || sent.GetReplyTo() == "somebody else" {
		t.Fatalf("sent %v", sent)
	}
}

// The ledger tells by it what may be older than it remembers. A retry that looked new could be applied twice.
func TestARetrySaysWhenItWasFirstAsked(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	asked := func(cmd *ledgerv1.Command) time.Time {
		t.Helper()
		send(t, client, cmd)
		return desk.Next().GetRequestedAt().AsTime()
	}
	pending := send(t, client, debit("order-1"))
	first := desk.Next().GetRequestedAt().AsTime()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pending.Wait(cancelled)
	var unknown *producer.OutcomeUnknownError
	if !errors.As(err, &unknown) {
		t.Fatal(err)
	}
	for name, retry := range map[string]*ledgerv1.Command{"the pending's command": pending.Command(), "the error's command": unknown.Command} {
		if again := asked(retry); !again.Equal(first) {
			t.Errorf("%s: first asked at %s, then at %s", name, first, again)
		}
	}
	const made = "019c5a5e-6400-7000-8000-000000000001" // in February 2026
	want := time.UnixMilli(0x019c5a5e6400).UTC()
	if got := asked(debit(made)); !got.Equal(want) {
		t.Errorf("an id that was made at %s was asked for at %s", want, got)
	}
	const ahead = "ffffffff-ffff-7000-8000-000000000001"
	if got := asked(debit(ahead)); got.After(time.Now()) {
		t.Errorf("asked for at %s, which is to come", got)
	}
}

func TestInvalidCommandIsNeverSent(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	long := strings.Repeat("x", 129)
	change := func(f func(*ledgerv1.Command)) *ledgerv1.Command {
		cmd := debit("d-1")
		f(cmd)
		return cmd
	}
	amount := func(s string) *ledgerv1.Command { return change(func(c *ledgerv1.Command) { c.Amount = s }) }
	for name, test := range map[string]struct {
		cmd  *ledgerv1.Command
		want ledgerv1.Reason
	}{
		"nil":                 {nil, ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"no id":               {debit(""), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"huge id":             {debit(long), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"control id":          {debit("a\x00b"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"id that is no UTF-8": {debit("a\xff"), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"nan":                 {amount("nan"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"1e3":                 {amount("1e3"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"0x10":                {amount("0x10"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"negative":            {amount("-1"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"zero":                {amount("0"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"major units":         {amount("12.50"), ledgerv1.Reason_REASON_INVALID_AMOUNT},
		"19 digits":           {amount("1000000000000000000"), ledgerv1.Reason_REASON_LIMIT_EXCEEDED},
		"currency":            {change(func(c *ledgerv1.Command) { c.Currency = "XYZ" }), ledgerv1.Reason_REASON_INVALID_CURRENCY},
		"account":             {change(func(c *ledgerv1.Command) { c.Account = "@world" }), ledgerv1.Reason_REASON_INVALID_ACCOUNT},
		"the ledger's own":    {change(func(c *ledgerv1.Command) { c.CommandId = "@credit/t-1" }), ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"a forged far end": {&ledgerv1.Command{
			CommandId: "@credit/t-1", Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: "bob", Amount: "1", Currency: "USD",
			CounterAccount: "@transit", Origin: &ledgerv1.Origin{CommandId: "t-1", Account: "alice"},
		}, ledgerv1.Reason_REASON_INVALID_COMMAND_ID},
		"transfer to itself": {change(func(c *ledgerv1.Command) {
			c.Operation, c.CounterAccount = ledgerv1.Operation_OPERATION_TRANSFER, c.Account
		}), ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT},
		"operation": {change(func(c *ledgerv1.Command) { c.Operation = 99 }), ledgerv1.Reason_REASON_INVALID_OPERATION},
		"metadata":  {change(func(c *ledgerv1.Command) { c.Metadata = map[string]string{"k": strings.Repeat("v", 600)} }), ledgerv1.Reason_REASON_INVALID_TEXT},
	} {
		_, err := client.Submit(t.Context(), test.cmd)
		var invalid *producer.InvalidCommandError
		if !errors.As(err, &invalid) || invalid.Reason != test.want || invalid.Text == "" || errors.Is(err, producer.ErrOutcomeUnknown) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := commandsWritten(t, desk); n != 0 {
		t.Errorf("%d records were written", n)
	}
}

// commandsWritten counts the records of ledger.commands.
func commandsWritten(t *testing.T, desk *answering.Desk) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(desk.Kafka.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topics.Commands)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

func TestIDsWithBracesAndBlanksGoThrough(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	id := "{a} b/c:ü"
	answer := submit(t.Context(), desk.Client(nil), debit(id))
	desk.Reply(reply(desk.Next()))
	if got := <-answer; got.err != nil || got.outcome.GetCommandId() != id {
		t.Fatalf("got %v, %v", got.outcome, got.err)
	}
}

func TestNewCommandIDsDiffer(t *testing.T) {
	t.Parallel()
	if a, b := producer.NewCommandID(), producer.NewCommandID(); a == b || a[14] != '7' {
		t.Fatalf("%s, %s", a, b)
	}
}

func TestNewRefusesAnotherNumberOfShards(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	cfg := desk.Config
	cfg.Kafka.Shards = answering.Shards + 1
	if _, err := producer.New(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), "LEDGER_SHARDS") {
		t.Fatalf("got %v", err)
	}
}
