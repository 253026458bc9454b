package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
)

// TestCommandsThatComeBackAfterTheWindowKeepTheirOutcome: Redis forgets after a second here, and ClickHouse stands still meanwhile. What neither of them
// knows must wait, and not be decided again.
func TestCommandsThatComeBackAfterTheWindowKeepTheirOutcome(t *testing.T) {
	t.Parallel()
	w := setupOn(t, stack.Options{}, "LEDGER_WRITER_DEDUPE_WINDOW=1s")
	l := newWorkload(t, 4)
	l.ReplyTo = "somebody"
	stop, err := w.StartProjector()
	must(t, err)
	_, err = w.StartWriter()
	must(t, err)
	must(t, l.SendOpening(t.Context(), w.Writer.Kafka))
	l.send(t, w.Writer.Kafka, 500)
	w.awaitDecided(t)
	w.settle(t)
	must(t, stop())

	projected := w.projected(t)
	for !w.forgotBeyond(t, projected) {
		l.send(t, w.Writer.Kafka, 100)
		w.awaitDecidedOrStuck(t, projected)
	}
	w.produce(t, l.Again(2_000))
	_, err = w.StartProjector()
	must(t, err)
	w.awaitDecided(t)
	verdict := w.audit(t)
	if verdict.Forgotten == 0 {
		t.Error("nothing was forgotten")
	}
	t.Logf("%+v", verdict)
}

// TestAClickHouseSlowerThanRedisMayBeStillAnswersForWhatIsForgotten: the time that Redis is given is none of the look-up's.
func TestAClickHouseSlowerThanRedisMayBeStillAnswersForWhatIsForgotten(t *testing.T) {
	t.Parallel()
	w := setupOn(t, stack.Options{}, "LEDGER_WRITER_DEDUPE_WINDOW=1s", "LEDGER_WRITER_REDIS_BUDGET=500ms", "REDIS_TIMEOUT=400ms")
	slow, err := sandbox.StartProxy(w.engines.ClickHouseAddr)
	must(t, err)
	t.Cleanup(slow.Close)
	w.Writer.ClickHouse.Addrs = []string{slow.Addr()} // the projector goes straight
	l := newWorkload(t, 4)
	w.serve(t)
	must(t, l.SendOpening(t.Context(), w.Writer.Kafka))
	for !w.forgotBeyond(t, [4]uint64{}) {
		l.send(t, w.Writer.Kafka, 100)
		w.awaitDecided(t)
	}
	slow.Delay(0, 700*time.Millisecond)
	w.produce(t, l.Again(500))
	l.send(t, w.Writer.Kafka, 100)
	w.awaitDecided(t)
	w.audit(t)
}

// projected is how far ClickHouse is with each shard.
func (w *whole) projected(t *testing.T) (positions [4]uint64) {
	t.Helper()
	for shard := range positions {
		must(t, w.ClickHouse.QueryRow(t.Context(), fmt.Sprintf("SELECT max(position) FROM %s.events WHERE shard = ?", w.Projector.ClickHouse.Database), shard).Scan(&positions[shard]))
	}
	return positions
}

// forgotBeyond tells whether Redis has forgotten outcomes of some shard above a position.
func (w *whole) forgotBeyond(t *testing.T, positions [4]uint64) bool {
	t.Helper()
	for shard, position := range positions {
		forgotten, err := w.Redis.HGet(t.Context(), lua.HeadKey(shard), "forgotten").Result()
		if errors.Is(err, redis.Nil) {
			continue // no writer has had the shard yet
		}
		must(t, err)
		var through uint64
		_, err = fmt.Sscan(forgotten, &through)
		must(t, err)
		if through > position {
			return true
		}
	}
	return false
}

// awaitDecidedOrStuck waits for the writer to decide everything, unless it may not.
func (w *whole) awaitDecidedOrStuck(t *testing.T, projected [4]uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !w.forgotBeyond(t, projected) {
		left, err := w.auditor().Undecided(ctx, w.Writer.Group)
		must(t, err)
		if left == 0 {
			return
		}
	}
}

func (w *whole) produce(t *testing.T, records []*kgo.Record) {
	t.Helper()
	client, err := kafka.NewClient(w.Writer.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	defer client.Close()
	must(t, client.ProduceSync(t.Context(), records...).FirstErr())
}
