package producer_test

import (
	"slices"
	"testing"

	"github.com/hotledger/hotledger/producer/internal/answering"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
)

func event(t *testing.T, shard int32, position uint64) *kgo.Record {
	t.Helper()
	value, err := proto.Marshal(&ledgerv1.Event{Outcome: &ledgerv1.Outcome{Position: position}})
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Topic: topics.Events, Partition: shard, Value: value}
}

func TestPositionsAreThoseOfTheLastCommittedEvents(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(nil)
	check := func(want ...uint64) {
		t.Helper()
		got, err := client.Positions(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
	check(0, 0, 0)
	desk.Write(true, event(t, 0, 1), event(t, 0, 2), event(t, 2, 1))
	check(2, 0, 1)
	desk.Write(false, event(t, 0, 3), event(t, 1, 1))
	check(2, 0, 1)
	// More aborted records than the first look takes.
	aborted := make([]*kgo.Record, 0, 200)
	for range 200 {
		aborted = append(aborted, event(t, 2, 2))
	}
	desk.Write(false, aborted...)
	check(2, 0, 1)
}
