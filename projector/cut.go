package projector

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hotledger/hotledger/lua"
)

// batch is a contiguous range of the log, [from, to], that becomes one block.
type batch struct {
	rows    *rows
	lent    bool // an attempt that failed may still read the rows
	from    uint64
	head    lua.Link // after the last row: to is head.Position
	offset  int64    // Kafka offset of the last row
	logTime time.Time
	bytes   int // of the events as they were on the wire
}

func (b *batch) len() int {
	if b.rows == nil {
		return 0
	}
	return b.rows.n
}

// bounds end a batch.
type bounds struct {
	rows, bytes int
	wait        time.Duration // 0 = for ever
	months      bool          // a new month of the broker's clock begins a new batch: a block never spans two parts
}

// cut reads the next batch: up to the configured rows, bytes and wait, within one month. An empty batch says that nothing
// came within the wait, while something is still to be acknowledged. An event that cannot be projected ends the batch
// before it, and is the error of the next cut.
func (w *worker) cut(ctx context.Context) (*batch, error) {
	limit := bounds{rows: w.cfg.BatchRows, bytes: w.cfg.BatchBytes, wait: w.cfg.BatchWait, months: true}
	for {
		b, err := w.read(ctx, limit)
		if err != nil || b.len() > 0 || w.unacknowledged {
			return b, err
		}
	}
}

// cutRange reads exactly the batch that was intended. It was in the log when it was intended, so it will come.
func (w *worker) cutRange(ctx context.Context, m mark) (*batch, error) {
	b, err := w.read(ctx, bounds{rows: int(m.To - m.From + 1), bytes: math.MaxInt})
	if err == nil && b.head.Position != m.To {
		_, err = w.read(ctx, bounds{rows: 1, bytes: math.MaxInt}) // what ended it short
	}
	return b, err
}

func (w *worker) read(ctx context.Context, limit bounds) (*batch, error) {
	b := &batch{rows: newRows(), head: w.head, from: w.head.Position + 1}
	waiting := ctx
	if limit.wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, limit.wait)
		defer cancel()
	}
	for b.len() < limit.rows && b.bytes < limit.bytes {
		record, err := w.reader.peek(waiting, w.logger)
		if err != nil {
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case errors.Is(err, context.DeadlineExceeded) || b.len() > 0:
				return b.closed(), nil
			default:
				return nil, w.halt(haltLog, "read the log after position %d: %w", b.head.Position, err)
			}
		}
		if limit.months && b.len() > 0 && !record.Timestamp.Equal(b.logTime) && month(record.Timestamp) != month(b.logTime) {
			break
		}
		b.rows.reserve(limit.rows)
		if err := w.project(b, record); err != nil {
			if b.len() > 0 {
				break
			}
			return nil, err
		}
		w.reader.take()
	}
	return b.closed(), nil
}

func (b *batch) closed() *batch {
	b.rows.close(b.head.Position)
	return b
}

// project checks that the record is the next event, and adds its row.
func (w *worker) project(b *batch, record *kgo.Record) error {
	event, err := w.decoder.decode(record)
	if err != nil {
		return w.halt(haltUndecodable, "record at offset %d after position %d: %w", record.Offset, b.head.Position, err)
	}
	if position := event.GetOutcome().GetPosition(); position != b.head.Position+1 {
		return w.halt(haltGap, "position %d at offset %d follows position %d", position, record.Offset, b.head.Position)
	}
	head, err := lua.LinkAfter(b.head, event)
	if err != nil {
		return w.halt(haltChain, "event at offset %d: %w", record.Offset, err)
	}
	// The chain covers the outcome and the fingerprint; only the fingerprint covers what the command says.
	if fingerprint := w.fingerprints.Of(event.GetCommand()); fingerprint != lua.Fingerprint(event.GetFingerprint()) {
		return w.halt(haltChain, "event at position %d, offset %d: the command it carries has the fingerprint %x, the event says %x",
			head.Position, record.Offset, fingerprint, event.GetFingerprint())
	}
	var r row
	if err := w.decoder.read(&r, record, event); err != nil {
		return w.halt(haltUndecodable, "event at position %d, offset %d: %w", head.Position, record.Offset, err)
	}
	b.rows.append(w.shard, &r)
	b.head, b.offset, b.logTime = head, record.Offset, record.Timestamp
	b.bytes += len(record.Value)
	return nil
}

// month is the table's partition: toYYYYMM(log_time).
func month(t time.Time) int {
	y, m, _ := t.UTC().Date()
	return y*100 + int(m)
}
