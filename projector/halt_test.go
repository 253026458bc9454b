package projector

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// awaitHalt returns when the shard is halted for that reason.
func (b *bench) awaitHalt(r *running, shard int32, reason string) *HaltError {
	b.t.Helper()
	var halt *HaltError
	b.await("wait for the halt", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !errors.As(r.halted[shard], &halt) {
			return errors.New("not halted")
		}
		return nil
	})
	if halt.Reason != reason || halt.Shard != shard {
		b.t.Fatalf("halted with %q, want %s: %v", halt.Reason, reason, halt)
	}
	return halt
}

func TestBadLogHaltsItsShardAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		spoil  func(t *testing.T, l *ledger) *kgo.Record
	}{
		"gap": {haltGap, func(t *testing.T, l *ledger) *kgo.Record {
			l.event(1)
			return recordOf(t, 1, l.event(1))
		}},
		"duplicate": {haltGap, func(t *testing.T, l *ledger) *kgo.Record {
			e := l.event(1)
			e.Outcome.Position--
			return recordOf(t, 1, e)
		}},
		"changed amount": {haltChain, func(t *testing.T, l *ledger) *kgo.Record {
			e := l.event(1)
			e.Outcome.Delta = "11"
			return recordOf(t, 1, e)
		}},
		"foreign chain": {haltChain, func(t *testing.T, l *ledger) *kgo.Record {
			e := l.event(1)
			e.Chain[0] ^= 1
			return recordOf(t, 1, e)
		}},
		"changed command": {haltChain, func(t *testing.T, l *ledger) *kgo.Record {
			e := l.event(1)
			e.Command.CounterAccount = "@elsewhere"
			return recordOf(t, 1, e)
		}},
		"command of another account": {haltUndecodable, func(t *testing.T, l *ledger) *kgo.Record {
			e := l.event(1)
			e.Command.Account = accountOf(2)
			return recordOf(t, 1, e)
		}},
		"garbage": {haltUndecodable, func(*testing.T, *ledger) *kgo.Record {
			return &kgo.Record{Topic: topics.Events, Partition: 1, Key: []byte("x"), Value: []byte("garbage")}
		}},
		"tombstone": {haltUndecodable, func(*testing.T, *ledger) *kgo.Record {
			return &kgo.Record{Topic: topics.Events, Partition: 1, Key: []byte(accountOf(1))}
		}},
		"other shard": {haltUndecodable, func(t *testing.T, l *ledger) *kgo.Record {
			r := recordOf(t, 1, l.event(2))
			return r
		}},
		"other key": {haltUndecodable, func(t *testing.T, l *ledger) *kgo.Record {
			r := recordOf(t, 1, l.event(1))
			r.Key = []byte("other")
			return r
		}},
		"text that is not UTF-8": {haltUndecodable, func(t *testing.T, l *ledger) *kgo.Record {
			return recordOf(t, 1, l.event(1, func(c *ledgerv1.Command) { c.Description = "\xff" }))
		}},
		"metadata that is not UTF-8": {haltUndecodable, func(t *testing.T, l *ledger) *kgo.Record {
			return recordOf(t, 1, l.event(1, func(c *ledgerv1.Command) { c.Metadata["\xff"] = "" }))
		}},
		"no business date": {haltUndecodable, func(t *testing.T, l *ledger) *kgo.Record {
			e := l.event(1)
			e.Outcome.BusinessDate = ""
			return recordOf(t, 1, e)
		}},
		"no status": {haltUndecodable, func(t *testing.T, l *ledger) *kgo.Record {
			e := l.event(1)
			e.Outcome.Status = ledgerv1.Status_STATUS_UNSPECIFIED
			return recordOf(t, 1, e)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.book(5, 0, 1)
			good := b.ledger.links[1].Position
			b.produce(kgo.TryCommit, c.spoil(t, b.ledger))
			b.book(5, 0)
			r := b.start()
			b.awaitHalt(r, 1, c.reason)
			b.book(5, 0)
			b.awaitRows(0)
			b.checkRows(0)
			if got := b.lastPosition(1); got != good {
				t.Fatalf("shard 1 stands at %d, the good events end at %d", got, good)
			}
			if err := r.Health().Ready(b.ctx)["shards"]; err == nil {
				t.Fatal("ready in spite of a halted shard")
			}
			var halt *HaltError
			if err := r.stop(); !errors.As(err, &halt) {
				t.Fatalf("Run returned %v", err)
			}
		})
	}
}

func TestLogWithoutItsBeginningHalts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(10, 0)
	b.deleteRecords(0, 5)
	r := b.start()
	b.awaitHalt(r, 0, haltLog)
	if got := b.lastPosition(0); got != 0 {
		t.Fatalf("ClickHouse has position %d of a log that lost its beginning", got)
	}
}

func TestTopicCreatedAgainHalts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(10, 0)
	r := b.start()
	b.awaitRows(0)
	b.awaitMark(0)
	b.must(r.stop())
	b.recreateEvents()
	second := b.start()
	b.awaitHalt(second, 0, haltLog)
	if got := b.lastPosition(0); got != 10 {
		t.Fatalf("ClickHouse has position %d", got)
	}
}

func TestRowsThatNoProjectorLeftHalt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(10, 0)
	r := b.start()
	b.awaitRows(0)
	b.must(r.stop())
	b.exec("ALTER TABLE events DELETE WHERE position = 4 SETTINGS mutations_sync = 1")
	second := b.start()
	b.awaitHalt(second, 0, haltClickHouse)
	// The message says: delete from the first wrong position up, and restart.
	_ = second.stop()
	b.exec("ALTER TABLE events DELETE WHERE position > 3 SETTINGS mutations_sync = 1")
	b.start()
	b.awaitRows(0)
	b.checkRows(0)
}
