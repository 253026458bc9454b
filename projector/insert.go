package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/retry"
)

// insert sends the batch until it is in. Every error means "unknown": the rows may be there. So the watermark is asked, and if it
// does not show them, the very same rows go out under the very same token, which drops them if they landed meanwhile.
func (w *worker) insert(ctx context.Context, b *batch) error {
	w.unacknowledged = true
	tries := 0
	return retry.Do(ctx, w.logger, "insert batch", func(context.Context) error {
		if tries++; tries > 1 {
			if done, err := w.landed(b); done || err != nil {
				return err
			}
		}
		started := time.Now()
		err := w.send(b)
		w.metrics.inserted(w.shard, b, time.Since(started), err)
		if refused(err) {
			return retry.Permanent(w.halt(haltClickHouse, "insert positions %d-%d: %w", b.from, b.head.Position, err))
		}
		return err
	})
}

// landed tells whether the rows of a batch whose insert went wrong are there after all.
func (w *worker) landed(b *batch) (bool, error) {
	rows, err := w.readWatermark(w.alive)
	switch {
	case err != nil:
		return false, err
	case rows.last == b.head.Position:
		w.logger.Info("insert of unknown outcome had landed", zap.Uint64("to", b.head.Position))
		return true, nil
	case rows.last == b.from-1:
		return false, nil
	default: // the table was restored meanwhile
		return false, retry.Permanent(fmt.Errorf("%w: insert positions %d-%d: ClickHouse now has up to %d", errTakeOver, b.from, b.head.Position, rows.last))
	}
}

// send makes one attempt: one INSERT of one block into one partition, all or nothing.
func (w *worker) send(b *batch) error {
	// A drain does not cut it short; the server stops by itself at the same deadline, which the driver tells it.
	ctx, cancel := context.WithTimeout(w.alive, w.cfg.InsertTimeout)
	defer cancel()
	settings := insertSettings(w.committed.token(w.shard))
	if !w.tcp {
		err := w.post(ctx, b, settings)
		if w.tcp = errors.Is(err, clickhouse.ErrFormatNativeUnsupported); !w.tcp {
			return err
		}
	}
	out, err := w.clickhouse.PrepareBatch(clickhouse.Context(ctx, clickhouse.WithSettings(settings)), insertSQL)
	if err != nil {
		return fmt.Errorf("prepare batch: %w", err)
	}
	defer out.Close() //nolint:errcheck // gives the connection back; Send tells the outcome
	if err := b.rows.fill(out); err != nil {
		return err
	}
	if err := out.Send(); err != nil {
		return fmt.Errorf("send batch: %w", err)
	}
	return nil
}

// post sends the block as it is, over HTTP. It is not compressed: that would take a tenth of the projector's CPU, and the driver cannot say of a body that it
// is in ClickHouse's frames without saying it of the greeting of a new connection, too.
func (w *worker) post(ctx context.Context, b *batch, settings clickhouse.Settings) error {
	block := newBody(b.rows.native())
	if err := w.clickhouse.InsertFormat(clickhouse.Context(ctx, clickhouse.WithSettings(settings)), "Native", insertSQL, block); err != nil {
		b.lent = true
		return fmt.Errorf("send block: %w", err)
	}
	<-block.closed
	return nil
}

func insertSettings(token string) clickhouse.Settings {
	return clickhouse.Settings{
		// On by default since 26.3: the server would regroup rows, and the token would name another block.
		"async_insert": 0,
		// The name since 26.2, and the one before; either is on by default, and a profile may say otherwise.
		"deduplicate_insert": "enable",
		"insert_deduplicate": 1,
		// Views that anyone hangs on the table see each batch once, too.
		"deduplicate_blocks_in_dependent_materialized_views": 1,
		"insert_deduplication_token":                         token,
		// One partition and one thread: one part, which is there whole or not at all. A block of two months is refused.
		"max_partitions_per_insert_block": 1,
		"max_insert_threads":              1,
	}
}

// permanentCodes are ClickHouse's errors that the same rows meet again for ever. (ClickHouse src/Common/ErrorCodes.cpp)
var permanentCodes = map[int32]string{
	6:   "CANNOT_PARSE_TEXT",
	16:  "NO_SUCH_COLUMN_IN_TABLE",
	20:  "NUMBER_OF_COLUMNS_DOESNT_MATCH",
	27:  "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
	36:  "BAD_ARGUMENTS",
	44:  "ILLEGAL_COLUMN",
	47:  "UNKNOWN_IDENTIFIER",
	50:  "UNKNOWN_TYPE",
	53:  "TYPE_MISMATCH",
	70:  "CANNOT_CONVERT_TYPE",
	115: "UNKNOWN_SETTING",
	131: "TOO_LARGE_STRING_SIZE",
	321: "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
	349: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
	452: "SETTING_CONSTRAINT_VIOLATION",
	469: "VIOLATED_CONSTRAINT",
	691: "UNKNOWN_ELEMENT_OF_ENUM",
}

// refused tells an error that no repetition heals. A table that is not there is none of them: somebody is restoring it.
// Neither is 252 with "too many parts", which merges heal; 252 with "too many partitions for single INSERT" cannot happen, for
// a batch lies within a month.
func refused(err error) bool {
	var exception *proto.Exception
	if errors.As(err, &exception) {
		return permanentCodes[exception.Code] != ""
	}
	var conversion *column.ColumnConverterError
	var value *column.Error
	return errors.As(err, &conversion) || errors.As(err, &value)
}
