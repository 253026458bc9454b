package projector

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotledger/hotledger/schemas/topics"
)

func smallBatches(c *Config) { c.BatchRows = 4 }
func largeBatches(c *Config) { c.BatchRows = 50 }

// intend runs the steps of a worker up to a committed intent, and returns the batch.
func (b *bench) intend(w *worker) *batch {
	b.t.Helper()
	b.must(w.takeOver(b.ctx))
	b.t.Cleanup(func() { w.reader.close() })
	cut, err := w.cut(b.ctx)
	for err == nil && cut.len() == 0 { // on a slow machine nothing comes within the first wait
		cut, err = w.cut(b.ctx)
	}
	b.must(err)
	b.must(w.commit(b.ctx, w.next(cut)))
	return cut
}

func TestRestartAfterIntentBeforeInsert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(20, 0)
	p, workers := b.hold(smallBatches)
	b.intend(b.worker(workers, 0))
	b.must(p.stop())
	if m := b.mark(0); m.From != 1 || m.To != 4 {
		t.Fatalf("mark after the crash: %+v", m)
	}
	b.start(largeBatches)
	b.awaitRows(0)
	b.checkRows(0)
	var to uint64
	b.must(b.rows.QueryRow(b.ctx, "SELECT max(batch_to) FROM events WHERE position <= 4").Scan(&to))
	if to != 4 {
		t.Fatalf("the intended range 1-4 was inserted in a batch that ends at %d", to)
	}
}

func TestRestartAfterInsertBeforeNextCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(20, 0)
	p, workers := b.hold(smallBatches)
	w := b.worker(workers, 0)
	b.must(w.insert(b.ctx, b.intend(w)))
	b.must(p.stop())
	b.start(largeBatches)
	b.awaitRows(0)
	b.awaitMark(0)
	b.checkRows(0)
}

func TestSecondIntentAcknowledgesTheFirstBatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(20, 0)
	p, workers := b.hold(smallBatches)
	w := b.worker(workers, 0)
	first := b.intend(w)
	b.must(w.insert(b.ctx, first))
	w.advance(first)
	second, err := w.cut(b.ctx)
	b.must(err)
	b.must(w.confirm(b.ctx))
	b.must(w.commit(b.ctx, w.next(second)))
	b.must(p.stop())
	if m := b.mark(0); m.Done != 4 || m.From != 5 || m.To != 8 {
		t.Fatalf("mark: %+v", m)
	}
	b.start(largeBatches)
	b.awaitRows(0)
	b.checkRows(0)
}

// The packet of a projector that lost its shard arrives after its successor has sent the same range.
func TestInsertOfAZombieLandsLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(20, 0)
	p, workers := b.hold(smallBatches)
	zombie := b.worker(workers, 0)
	stale := b.intend(zombie)
	b.must(p.stop())
	b.start(largeBatches)
	b.awaitRows(0)

	// p closed its pool; the packet itself is what counts.
	late := &worker{cfg: b.cfg, logger: b.logger, metrics: zombie.metrics, clickhouse: b.rows, shard: 0, alive: b.ctx, committed: zombie.committed}
	b.must(late.send(stale))
	b.checkRows(0)
	if err := zombie.commitOnce(zombie.committed); !errors.Is(err, errNotOwned) {
		t.Fatalf("commit of the zombie: %v", err)
	}
}

func TestSameRowsUnderTheSameTokenLandOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(4, 0)
	_, workers := b.hold(smallBatches)
	w := b.worker(workers, 0)
	cut := b.intend(w)
	for range 3 {
		b.must(w.send(cut))
	}
	b.checkRows(0)
}

func TestFencedCommitTakesOverAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(4, 0)
	b.kafka.Cluster().ControlKey(int16(kmsg.OffsetCommit), func(request kmsg.Request) (kmsg.Response, error, bool) { // once
		commit, _ := request.(*kmsg.OffsetCommitRequest)
		response, _ := commit.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range commit.Topics {
			out := kmsg.OffsetCommitResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
			for _, partition := range topic.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: partition.Partition, ErrorCode: kerr.IllegalGeneration.Code})
			}
			response.Topics = append(response.Topics, out)
		}
		return response, nil, true
	})
	b.start()
	b.awaitRows(0)
	b.awaitMark(0)
	b.checkRows(0)
}

func TestShardsMoveBetweenProjectors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(30, 0, 1, 2)
	first := b.start()
	second := b.start()
	b.book(30, 0, 1, 2)
	b.await("wait until both have shards", func() error {
		if held(first) == 0 || held(second) == 0 {
			return errors.New("one has all")
		}
		return nil
	})
	b.book(30, 0, 1, 2)
	b.must(first.stop())
	b.book(30, 0, 1, 2)
	third := b.start()
	b.book(10, 0, 1, 2)
	b.must(second.stop())
	b.book(10, 0, 1, 2)
	b.awaitRows(0, 1, 2)
	b.checkRows(0, 1, 2)
	b.must(third.stop())
}

func held(r *running) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.assignments)
}

func TestClickHouseIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, ownClickHouse)
	b.start()
	for range 4 {
		for range 10 {
			b.book(10, 0, 1)
		}
		b.engine.Kill()
		b.book(10, 0, 1)
		b.must(b.engine.Restart(b.ctx))
	}
	b.awaitRows(0, 1)
	b.awaitMark(0)
	b.checkRows(0, 1)
}

func TestOffsetsAreResetToTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(20, 0)
	p := b.start()
	b.awaitRows(0)
	b.must(p.stop())
	epoch := b.mark(0).Epoch
	b.resetOffsets()
	b.book(5, 0)
	b.start()
	b.awaitRows(0)
	b.awaitMark(0)
	b.checkRows(0)
	if m := b.mark(0); m.Epoch <= epoch {
		t.Fatalf("epoch %d after %d", m.Epoch, epoch)
	}
}

func (b *bench) resetOffsets() {
	b.t.Helper()
	b.await("delete the group", func() error {
		_, err := b.admin.DeleteGroup(b.ctx, b.cfg.Group)
		return err
	})
}

func TestRowsLostByClickHouseAreInsertedAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(b *bench){
		"tail deleted, deduplication log kept": func(b *bench) {
			b.exec("ALTER TABLE events DELETE WHERE position > 9 SETTINGS mutations_sync = 1")
		},
		"table emptied": func(b *bench) { b.exec("TRUNCATE TABLE events") },
		"database gone": func(b *bench) { b.exec("DROP DATABASE " + b.cfg.ClickHouse.Database) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.book(20, 0)
			p := b.start()
			b.awaitRows(0)
			b.must(p.stop())
			epoch := b.mark(0).Epoch
			lose(b)
			b.book(5, 0)
			b.start()
			b.awaitRows(0)
			b.checkRows(0)
			b.awaitMark(0)
			if m := b.mark(0); m.Epoch <= epoch {
				t.Fatalf("epoch %d after %d", m.Epoch, epoch)
			}
			if b.logged("ClickHouse lost rows") == 0 {
				t.Fatal("nobody was told")
			}
		})
	}
}

func TestRowsLostWhileProjectingAreInsertedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(20, 0)
	b.start()
	b.awaitMark(0)
	b.exec("TRUNCATE TABLE events")
	b.book(5, 0)
	b.awaitRows(0)
	b.awaitMark(0)
	b.checkRows(0)
}

func TestDeduplicationLogThatOutlivedItsRowsHaltsInsteadOfLosing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(4, 0)
	p, workers := b.hold(smallBatches)
	w := b.worker(workers, 0)
	b.must(w.insert(b.ctx, b.intend(w)))
	b.must(p.stop())
	// The intent is still there, so the same token is used again; but its rows were deleted.
	b.exec("ALTER TABLE events DELETE WHERE 1 SETTINGS mutations_sync = 1")
	second := b.start()
	b.awaitHalt(second, 0, haltClickHouse)
	if err := second.stop(); err == nil {
		t.Fatal("Run returned no error")
	}
	b.resetOffsets()
	b.start()
	b.awaitRows(0)
	b.checkRows(0)
}

func TestUnknownOutcomeIsSettledByTheWatermark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(4, 0)
	_, workers := b.hold(smallBatches)
	w := b.worker(workers, 0)
	cut := b.intend(w)
	if done, err := w.landed(cut); done || err != nil {
		t.Fatalf("before the insert: landed %t, %v", done, err)
	}
	b.must(w.send(cut))
	if done, err := w.landed(cut); !done || err != nil {
		t.Fatalf("after the insert: landed %t, %v", done, err)
	}
	b.exec("TRUNCATE TABLE events")
	cut.from += 2
	if _, err := w.landed(cut); !errors.Is(err, errTakeOver) {
		t.Fatalf("after a loss: %v", err)
	}
}

func TestWorkerEndsWhenItsShardIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t, ownClickHouse)
	b.book(4, 0)
	p := b.start()
	b.awaitRows(0)
	b.engine.Kill()
	b.book(4, 0) // the worker now retries its insert
	b.await("wait for a failed insert", func() error {
		if b.logged("retrying") == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	p.lost(context.Background(), nil, map[string][]int32{topics.Events: {0}})
	if n := held(p); n != testShards-1 {
		t.Fatalf("%d shards are held", n)
	}
	b.must(b.engine.Restart(b.ctx))
	b.must(p.stop())
	b.start()
	b.awaitRows(0)
	b.checkRows(0)
}
