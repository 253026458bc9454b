package writer

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// TestAClientThatMovedOnCommitsNothing: the client may be in a newer generation before this writer has heard of it, and offsets of a batch that was
// decided in the older one would then be committed as if they were its own (rule 6).
func TestAClientThatMovedOnCommitsNothing(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, payments("a")...)
	h := l.byHand(t, l.writer(t))
	b := h.applied()
	must(t, h.publish(t.Context(), b))
	h.owned.generation-- // the one that the shards were recovered in is not the client's any more
	if err := h.commit(t.Context(), nil); !errors.Is(err, errOtherGeneration) {
		t.Errorf("the commit ended with %v", err)
	}
	if n := len(l.read(t, topics.Events)); n != 0 {
		t.Errorf("%d events of a batch of another generation", n)
	}
	h.session.AllowRebalance()
	h.crash()
	l.run(t)
	l.audit(t)
}

// TestTheLastEventIsReadWhenNoTransactionIsOpen: what is published and not decided yet may count a moment later (rule 12). The command offsets
// cannot tell: their marker may be there before that of the events.
func TestTheLastEventIsReadWhenNoTransactionIsOpen(t *testing.T) {
	t.Parallel()
	l := setup(t, "LEDGER_WRITER_TRANSACTION_TIMEOUT=2s", "LEDGER_WRITER_SESSION_TIMEOUT=3s")
	stop := l.run(t)
	l.send(t, open("a"))
	first := l.audit(t)["open:a"]
	must(t, stop())
	common, err := kafka.ClientOptions(l.cfg.Kafka, zap.NewNop())
	must(t, err)
	other, err := kgo.NewClient(append(common, kgo.TransactionalID("other"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	must(t, err)
	defer other.Close()
	next, err := proto.Marshal(&ledgerv1.Event{Outcome: &ledgerv1.Outcome{CommandId: "c1", Account: "a", Position: 2, Delta: "0"}, Chain: make([]byte, 20), Head: make([]byte, 20)})
	must(t, err)
	shard := topics.ShardOf("a", shards)
	h := l.byHand(t, l.writer(t))

	must(t, other.BeginTransaction())
	must(t, other.ProduceSync(t.Context(), &kgo.Record{Topic: topics.Events, Partition: int32(shard), Key: []byte("a"), Value: next}).FirstErr())
	if end, err := h.log.stableEnd(t.Context(), shard); !errors.Is(err, errNoProgress) {
		last, _ := h.log.last(t.Context(), shard, end)
		t.Errorf("the log was taken to end at %v, while a transaction is open: %v", last, err)
	}
	must(t, other.EndTransaction(t.Context(), kgo.TryCommit))
	end, err := h.log.stableEnd(t.Context(), shard)
	must(t, err)
	if last, err := h.log.last(t.Context(), shard, end); err != nil || last.Link.Position != 2 || last.Link == lua.LinkOf(first) {
		t.Errorf("last event %v, %v", last, err)
	}
}

// TestAWriterWhoseClockIsBehindDecidesNothing: an outcome with too early a time could be forgotten before its command counts as old (rule 18).
func TestAWriterWhoseClockIsBehindDecidesNothing(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, payments("a")...)
	h := l.byHand(t, l.writer(t))
	shard := topics.ShardOf("a", shards)
	b := h.polled(shard)
	h.share(b)
	h.decode(b.parts[shard])
	for i := range b.parts[shard].commands {
		b.parts[shard].commands[i].AskedAt = time.Now().Add(time.Hour) // by the broker's clock
	}
	before, err := l.store.Head(t.Context(), shard)
	must(t, err)
	if err := h.apply(t.Context(), b); err == nil {
		t.Error("commands of the future were decided")
	}
	if after, err := l.store.Head(t.Context(), shard); err != nil || after != before {
		t.Errorf("head %v became %v, %v", before, after, err)
	}
	h.session.AllowRebalance()
	h.crash()
	l.run(t)
	l.audit(t)
}

// polled takes turns until there are commands of a shard.
func (h *hand) polled(shard int) *batch {
	h.t.Helper()
	var b *batch
	until(h.t, "commands polled", func() string {
		var err error
		b, err = h.poll(h.t.Context())
		must(h.t, err)
		must(h.t, h.recover(h.t.Context(), b))
		if len(b.records[shard]) > 0 {
			return ""
		}
		h.session.AllowRebalance()
		return "none"
	})
	return b
}
