package writer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

func TestErrorsOfKafkaGiveEveryCommandExactlyOneEvent(t *testing.T) {
	t.Parallel()
	for key, errs := range map[kmsg.Key][]*kerr.Error{
		kmsg.Produce: {
			kerr.NotLeaderForPartition, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.InvalidRecord, kerr.MessageTooLarge,
			kerr.TopicAuthorizationFailed, kerr.InvalidProducerEpoch, kerr.OutOfOrderSequenceNumber, kerr.KafkaStorageError, kerr.UnknownServerError,
		},
		kmsg.EndTxn: {
			kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions, kerr.RequestTimedOut, kerr.UnknownServerError, kerr.InvalidProducerEpoch,
			kerr.ProducerFenced, kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.TransactionalIDAuthorizationFailed,
		},
		kmsg.TxnOffsetCommit: {
			kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator,
			kerr.GroupAuthorizationFailed, kerr.RequestTimedOut, kerr.InvalidProducerEpoch, kerr.UnknownServerError, kerr.OffsetMetadataTooLarge,
		},
		kmsg.OffsetFetch:     {kerr.UnstableOffsetCommit, kerr.CoordinatorNotAvailable, kerr.UnknownServerError},
		kmsg.AddOffsetsToTxn: {kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch},
	} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			l := setup(t, "LEDGER_WRITER_TRANSACTION_TIMEOUT=1500ms", "LEDGER_WRITER_SESSION_TIMEOUT=4s")
			l.run(t)
			l.send(t, open("a"))
			l.audit(t)
			for i, e := range errs {
				fault := kfake.Fault{Keys: []kmsg.Key{key}, Err: e}
				if key == kmsg.Produce {
					fault.Topic = topics.Events
				}
				handle := l.kafka.Cluster().Fault(fault)
				began := time.Now()
				for n := range 3 {
					l.send(t, answered(credit(fmt.Sprintf("%d-%d", i, n), "a", "1")))
				}
				events := l.audit(t)
				if got, want := events[fmt.Sprintf("%d-2", i)].GetOutcome().GetAfter().GetBalance(), fmt.Sprint(3*(i+1)); got != want {
					t.Errorf("%s: balance %s, want %s", e.Message, got, want)
				}
				if len(l.replies(t)[fmt.Sprintf("%d-0", i)]) == 0 {
					t.Errorf("%s: nobody was told", e.Message)
				}
				t.Logf("%s: %d faulted, healed in %s", e.Message, handle.Hits(), time.Since(began).Round(time.Millisecond))
				handle.Remove()
			}
		})
	}
}

func TestALogThatLostItsBeginningStopsTheWriter(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stop := l.run(t)
	l.send(t, open("a"), credit("c1", "a", "1"), credit("c2", "a", "1"))
	l.audit(t)
	must(t, stop())
	shard := topics.ShardOf("a", shards)
	must(t, l.kafka.Cluster().DeleteRecords(topics.Events, int32(shard), 2))
	must(t, l.rdb.FlushAll(t.Context()).Err())
	l.send(t, credit("c3", "a", "1"))
	l.stopped(t, shard, "lost its beginning", "retention.ms=-1")
}

func TestCommandsThatExpiredUnreadStopTheWriter(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 2} {
		t.Run(fmt.Sprintf("after %d read", before), func(t *testing.T) {
			t.Parallel()
			l := setup(t)
			shard := topics.ShardOf("a", shards)
			if before > 0 {
				stop := l.run(t)
				l.send(t, open("a"), credit("c1", "a", "1"))
				l.audit(t)
				must(t, stop())
			}
			l.send(t, credit("c2", "a", "1"), credit("c3", "a", "1"), credit("c4", "a", "1"))
			must(t, l.kafka.Cluster().DeleteRecords(topics.Commands, int32(shard), int64(before)+2))
			l.stopped(t, shard, "expired unread", "set the group's offset")
		})
	}
}

func TestAnEventThatDoesNotBelongStopsTheWriter(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]func(*testing.T) []byte{
		"not an event": func(*testing.T) []byte { return []byte("hello") },
		"not linked": func(t *testing.T) []byte {
			e := &ledgerv1.Event{Outcome: &ledgerv1.Outcome{Account: "a", CommandId: "forged", Position: 3, Delta: "0"}, Chain: make([]byte, 20), Fingerprint: make([]byte, 16)}
			b, err := proto.Marshal(e)
			must(t, err)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := setup(t)
			stop := l.run(t)
			l.send(t, open("a"), credit("c1", "a", "1"))
			l.audit(t)
			must(t, stop())
			shard := topics.ShardOf("a", shards)
			l.sendRaw(t, &kgo.Record{Topic: topics.Events, Partition: int32(shard), Key: []byte("a"), Value: value(t)})
			l.send(t, credit("c2", "a", "1"))
			l.stopped(t, shard, "shard")
		})
	}
}

// stopped checks that a writer ends with an error that says all of words, and that nothing was decided meanwhile.
func (l *ledger) stopped(t *testing.T, shard int, words ...string) {
	t.Helper()
	before := len(l.read(t, topics.Events))
	state, err := l.store.Inspect(t.Context(), shard)
	must(t, err)
	err = fails(t, l.writer(t))
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
	if after := len(l.read(t, topics.Events)); after != before {
		t.Errorf("%d events became %d", before, after)
	}
	if after, err := l.store.Inspect(t.Context(), shard); err != nil || after.Condition != state.Condition || after.Head != state.Head {
		t.Errorf("redis went from %v to %v, %v", state, after, err)
	}
}

func TestAnOldOffsetReplaysWithoutEffect(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stop := l.run(t)
	l.send(t, traffic("rewound", 500)...)
	before := l.audit(t)
	must(t, stop())
	_, err := l.admin.DeleteGroups(t.Context(), l.cfg.Group) // as an operator who resets it to the earliest offset
	must(t, err)
	l.run(t)
	if after := l.audit(t); len(after) != len(before) {
		t.Errorf("%d events became %d", len(before), len(after))
	}
}

func TestOpenTransactionsOfOthersAreWaitedForAndAbortedOnesNeverCount(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, open("a"), credit("c1", "a", "1"))
	first := l.byHand(t, l.writer(t))
	b := first.applied()
	must(t, first.publish(t.Context(), b))
	must(t, first.abort(t.Context(), fmt.Errorf("gave up"))) // leaves an aborted batch in the log
	first.session.AllowRebalance()
	first.crash()
	l.run(t)
	l.send(t, credit("c2", "a", "1"))
	events := l.audit(t)
	if len(events) != 3 || events["c2"].GetOutcome().GetAfter().GetBalance() != "2" {
		t.Errorf("events %v", events)
	}
	if head, err := l.store.Head(t.Context(), topics.ShardOf("a", shards)); err != nil || head.Position != events["c2"].GetOutcome().GetPosition() {
		t.Errorf("head %v, %v", head, err)
	}
}
