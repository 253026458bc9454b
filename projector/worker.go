package projector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/lua"
)

// worker projects one shard for as long as it is assigned: one goroutine, one batch at a time.
//
// Two contexts end it. The ctx that run gets says "begin nothing new": waits end, an insert or commit that began is
// finished. alive says "drop everything": the shard is lost, or the drain took too long.
type worker struct {
	cfg        Config
	logger     *zap.Logger
	metrics    *instruments
	group      *kgo.Client // commits; never fetches
	clickhouse driver.Conn
	shard      int32
	alive      context.Context //nolint:containedctx // see above: an attempt outlives the ctx of its loop
	owned      atomic.Bool     // written by the group's callbacks, read when a commit goes out
	reached    atomic.Int64    // next offset after the last row in ClickHouse; written by the worker, read by the lag

	// Below: the worker's goroutine alone.
	reader       *reader
	decoder      decoder
	fingerprints lua.Fingerprints
	tcp          bool     // ClickHouse is spoken to in its TCP protocol, for which the driver takes no block that is ready
	committed    mark     // what Kafka remembers
	head         lua.Link // after the last row in ClickHouse
	// unacknowledged: Kafka remembers an intent, or fewer rows than ClickHouse has.
	unacknowledged bool
}

// run projects until ctx ends or the shard halts. It begins again with the take over whenever what it believed was wrong.
func (w *worker) run(ctx context.Context) error {
	err := retry.Do(ctx, w.logger, "project shard", func(ctx context.Context) error {
		defer func() {
			w.reader.close()
			w.reader = nil
		}()
		err := w.loop(ctx)
		if errors.Is(err, errTakeOver) {
			return err
		}
		return retry.Permanent(err)
	})
	var halt *HaltError
	switch {
	case errors.As(err, &halt):
		return err
	case ctx.Err() != nil:
		w.leave()
		return nil //nolint:nilerr // the error is that ctx ended, which was asked for
	case errors.Is(err, errNotOwned): // the callback that says so is about to end ctx
		return nil
	default:
		return err
	}
}

// loop is the protocol. Each line is a step, and the order is what makes a repeat harmless.
func (w *worker) loop(ctx context.Context) error {
	if err := w.takeOver(ctx); err != nil {
		return err
	}
	for {
		b, err := w.cut(ctx)
		if err != nil {
			return err
		}
		if err := w.confirm(ctx); err != nil {
			return err
		}
		if err := w.commit(ctx, w.next(b)); err != nil {
			return err
		}
		if err := w.insert(ctx, b); err != nil {
			return err
		}
		w.advance(b)
	}
}

// next is the mark before the insert of b: it acknowledges everything before b, and intends b unless b is empty.
func (w *worker) next(b *batch) mark {
	m := mark{Version: markVersion, Topic: w.committed.Topic, Epoch: w.committed.Epoch, Done: w.head.Position}
	if b.len() > 0 {
		m.From, m.To, m.ToOffset = b.from, b.head.Position, b.offset
	}
	return m
}

// advance notes that b is in ClickHouse.
func (w *worker) advance(b *batch) {
	if b.len() == 0 {
		w.unacknowledged = false
		return
	}
	w.head = b.head
	w.reached.Store(b.offset + 1)
	w.unacknowledged = true
	w.metrics.reached(w.shard, b.head.Position, b.logTime)
	if !b.lent {
		b.rows.free()
	}
}

// confirm looks at the watermark before a commit tells anybody that the rows are there, and before more rows go on top of them.
// If it is not where the last batch ended, the table changed behind our back (a restore, a TRUNCATE), and the take over decides.
func (w *worker) confirm(ctx context.Context) error {
	var rows watermark
	err := retry.Do(ctx, w.logger, "confirm rows", func(ctx context.Context) error {
		var err error
		rows, err = w.readWatermark(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if rows.last != w.head.Position || rows.rows != w.head.Position {
		return fmt.Errorf("%w: ClickHouse has %d rows up to position %d, inserted were %d", errTakeOver, rows.rows, rows.last, w.head.Position)
	}
	return nil
}

// leave acknowledges what was inserted, so that the next owner starts clean. If it does not work out, the intent stands, and
// the next owner finds the rows landed.
func (w *worker) leave() {
	settled := w.unacknowledged && w.head.Position >= w.committed.To && w.committed.Topic != ""
	if !settled || w.alive.Err() != nil {
		return
	}
	if rows, err := w.readWatermark(w.alive); err != nil || rows.last != w.head.Position {
		return
	}
	if err := w.commitOnce(w.next(new(batch))); err != nil {
		w.logger.Info("last commit did not go through, the intent stands", zap.Error(err))
	}
}
