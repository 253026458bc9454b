package writer

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// What the loop does for every command, beside Redis and Kafka.

func benchRecord(b *testing.B) *kgo.Record {
	b.Helper()
	value, err := proto.Marshal(&ledgerv1.Command{CommandId: "debit-1234567", Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: "flash-sale-17", Amount: "1", Currency: "EUR"})
	if err != nil {
		b.Fatal(err)
	}
	return &kgo.Record{Topic: topics.Commands, Key: []byte("flash-sale-17"), Value: value, Timestamp: time.Now()}
}

func benchWriter(b *testing.B) *Writer {
	b.Helper()
	days, err := newCalendar("UTC", "24:00")
	if err != nil {
		b.Fatal(err)
	}
	w := &Writer{metrics: newCounters(prometheus.NewRegistry()), calendar: days}
	w.cfg.Kafka.Shards = 1
	return w
}

func BenchmarkDecodeRecord(b *testing.B) {
	w, r := benchWriter(b), benchRecord(b)
	p := &part{shard: &shard{}}
	var command ledgerv1.Command
	b.ReportAllocs()
	for b.Loop() {
		p.sources, p.details, p.commands = p.sources[:0], p.details[:0], p.commands[:0]
		w.decodeRecord(p, r, &command)
	}
	if len(p.commands) != 1 {
		b.Fatal("the record is no command")
	}
}

func BenchmarkEncodeEvent(b *testing.B) {
	w, r := benchWriter(b), benchRecord(b)
	event := &ledgerv1.Event{Chain: make([]byte, 20), Fingerprint: make([]byte, 16), Outcome: &ledgerv1.Outcome{
		CommandId: "debit-1234567", Account: "flash-sale-17", Status: ledgerv1.Status_STATUS_APPLIED, Position: 1234569, Delta: "-1",
		DecidedAt: timestamppb.New(time.UnixMilli(1772615400000)),
		After:     &ledgerv1.AccountState{Balance: "999999997", Held: "0", Sequence: 1234569, Floor: "0", Unit: "EUR/2", Status: "active", Available: "999999997"},
	}}
	decision := lua.Decision{Kind: lua.Decided, Outcome: event.GetOutcome()}
	var room room
	b.ReportAllocs()
	for b.Loop() {
		event.Outcome.BusinessDate = w.calendar.dateOf(event.GetOutcome().GetDecidedAt().AsTime())
		w.metrics.decided(decision)
		if _, err := room.eventRecord(event, r.Value); err != nil {
			b.Fatal(err)
		}
	}
}
