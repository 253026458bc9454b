package writer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/schemas/topics"
)

// A long rebuild runs beside the loop, so that the other shards keep working and rebalances are not held up. Until it has ended, its
// shard is in doubt, its partition is not fetched, and nothing of it is decided; then the shard is recovered like any other, and that
// finds Redis at the log's end. It needs no fence of its own: should the shard change hands meanwhile, then what is built and
// swapped in is still the fold of committed events, which whoever owns the shard can go on from (rules 13 and 16).

// besideEvents is from how many events on a rebuild runs beside the loop: below, it takes less than a turn may.
const besideEvents = 20_000

// beside is one such rebuild. The loop alone uses it; its goroutine only writes ended.
type beside struct {
	shard  *shard
	cancel context.CancelFunc
	ended  chan error // one value, buffered
}

// rebuildBeside starts a rebuild that ends by itself, with the tenure, or when its shard is gone. at is where the shard's commands go on.
func (w *Writer) rebuildBeside(job *rebuild, s *shard, at kgo.EpochOffset) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &beside{shard: s, cancel: cancel, ended: make(chan error, 1)}
	// Not fetched any more, and what was fetched does not count as read: a commit of the other shards must not step over it. That
	// holds from here on, whatever becomes of this turn.
	w.session.Client().PauseFetchPartitions(commandsOf(s.number))
	w.session.Client().SetOffsets(map[string]map[int32]kgo.EpochOffset{topics.Commands: {int32(s.number): at}})
	w.besides[s.number] = b
	w.logger.Info("shard is rebuilt while the others go on", zap.Int("shard", s.number), zap.Uint64("events", job.last.Head.Position))
	go func() {
		_, err := job.run(ctx)
		b.ended <- err
	}()
}

// collect takes notice of rebuilds that have ended, and of shards that are gone.
func (w *Writer) collect() error {
	for number, b := range w.besides {
		if s, owned := w.owned.get(number); !owned || s != b.shard {
			_ = w.dismiss(b) // whoever has the shard now recovers it
			continue
		}
		if len(b.ended) == 0 {
			continue
		}
		if err := w.dismiss(b); err != nil {
			return fmt.Errorf("rebuild shard %d: %w", number, err)
		}
		b.shard.corrupt = false
	}
	return nil
}

// dismiss waits for the end of a rebuild, which it asks for, and returns what became of it.
func (w *Writer) dismiss(b *beside) error {
	b.cancel()
	err := <-b.ended
	delete(w.besides, b.shard.number)
	w.session.Client().ResumeFetchPartitions(commandsOf(b.shard.number))
	return err
}

// dismissAll ends with the tenure.
func (w *Writer) dismissAll() {
	for _, b := range w.besides {
		b.cancel()
	}
	for _, b := range w.besides {
		_ = w.dismiss(b)
	}
}

func commandsOf(shard int) map[string][]int32 {
	return map[string][]int32{topics.Commands: {int32(shard)}}
}
