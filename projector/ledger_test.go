package projector

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/cloudevents"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// ledger makes the events that a ledger-writer would have left: one account per shard, opened first, then credited by 10, and
// refused every fifth time. Its events are linked like those of the writer.
type ledger struct {
	links    map[int32]lua.Link
	balance  map[int32]int64
	sequence map[int32]uint64
}

func newLedger() *ledger {
	return &ledger{links: map[int32]lua.Link{}, balance: map[int32]int64{}, sequence: map[int32]uint64{}}
}

func accountOf(shard int32) string { return fmt.Sprintf("account %d", shard) }

var decidedAt = time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)

// event is the next event of the shard; change alters its command before the outcome is chained.
func (l *ledger) event(shard int32, change ...func(*ledgerv1.Command)) *ledgerv1.Event {
	head, known := l.links[shard]
	if !known {
		head = lua.FirstLink
	}
	n := head.Position + 1
	command := &ledgerv1.Command{
		CommandId: fmt.Sprintf("%d/%d", shard, n), Account: accountOf(shard), Currency: "EUR", Source: "test",
		Operation: ledgerv1.Operation_OPERATION_CREDIT, Amount: "10", Reference: "ref " + strconv.FormatUint(n, 10), Metadata: map[string]string{"n": strconv.FormatUint(n, 10)},
	}
	status, reason, delta := ledgerv1.Status_STATUS_APPLIED, ledgerv1.Reason_REASON_UNSPECIFIED, int64(10)
	switch {
	case n == 1:
		command.Operation, command.Amount, delta = ledgerv1.Operation_OPERATION_OPEN, "", 0
	case n%5 == 0:
		command.Operation, command.Amount, delta = ledgerv1.Operation_OPERATION_DEBIT, "1000000", 0
		status, reason = ledgerv1.Status_STATUS_REJECTED, ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS
	}
	if status == ledgerv1.Status_STATUS_APPLIED {
		l.sequence[shard]++
	}
	l.balance[shard] += delta
	balance, deltaText := strconv.FormatInt(l.balance[shard], 10), strconv.FormatInt(delta, 10)
	for _, c := range change {
		c(command)
	}
	fingerprint := lua.FingerprintOf(command)
	event := &ledgerv1.Event{
		Outcome: &ledgerv1.Outcome{
			CommandId: command.CommandId, Account: command.Account, Status: status, Reason: reason, Shard: uint32(shard), Position: n, Delta: deltaText,
			After:     &ledgerv1.AccountState{Balance: balance, Held: "0", Floor: "0", Sequence: l.sequence[shard], Unit: "EUR/2", Status: "active"},
			DecidedAt: timestamppb.New(decidedAt), BusinessDate: "2026-03-04",
		},
		Fingerprint: fingerprint[:], Command: command,
	}
	var err error
	if l.links[shard], err = head.Append(event); err != nil {
		panic(err)
	}
	return event
}

// records are the next n events of each shard, as they go to Kafka.
func (l *ledger) records(t testing.TB, n int, shards ...int32) []*kgo.Record {
	t.Helper()
	all := make([]*kgo.Record, 0, n*len(shards))
	for range n {
		for _, shard := range shards {
			all = append(all, recordOf(t, shard, l.event(shard)))
		}
	}
	return all
}

func recordOf(t testing.TB, shard int32, event *ledgerv1.Event) *kgo.Record {
	t.Helper()
	value, err := event.MarshalVT() // like the writer; it takes any text
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Topic: topics.Events, Partition: shard, Key: []byte(event.GetOutcome().GetAccount()), Value: value, Headers: cloudevents.Headers(cloudevents.Event, event.GetOutcome().GetCommandId())}
}
