package projector

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/hotledger/hotledger/lua"
)

// watermark is how far the rows of one shard are in ClickHouse. It is read from a projection that lives inside the parts,
// so it is exactly as far as the rows are.
type watermark struct {
	rows        uint64
	first, last uint64 // positions; 0 = no rows
	sum         *big.Int
	offset      uint64 // Kafka offset of the last position
	logTime     time.Time
}

const watermarkSQL = `SELECT count(), min(position), max(position), sum(toInt128(position)), max(log_offset), max(log_time)
FROM events WHERE shard = ? GROUP BY shard`

// readTimeout bounds one read of the watermark or of a chain.
const readTimeout = 30 * time.Second

// readWatermark asks ClickHouse once.
func (w *worker) readWatermark(ctx context.Context) (watermark, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := w.clickhouse.Query(ctx, watermarkSQL, uint16(w.shard))
	if err != nil {
		return watermark{}, fmt.Errorf("read watermark: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	mark := watermark{sum: new(big.Int)}
	for rows.Next() {
		if err := rows.Scan(&mark.rows, &mark.first, &mark.last, mark.sum, &mark.offset, &mark.logTime); err != nil {
			return watermark{}, fmt.Errorf("read watermark: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return watermark{}, fmt.Errorf("read watermark: %w", err)
	}
	return mark, nil
}

// next is the Kafka offset to go on from; 0, the beginning of the log, where there are no rows.
func (m watermark) next() int64 {
	if m.rows == 0 {
		return 0
	}
	return int64(m.offset) + 1
}

// whole says that the rows are the positions 1 to last, each once, as far as count, ends and sum can tell.
func (m watermark) whole() bool {
	if m.rows == 0 {
		return true
	}
	n := new(big.Int).SetUint64(m.last)
	gauss := new(big.Int).Add(n, big.NewInt(1))
	gauss.Mul(gauss, n).Rsh(gauss, 1)
	return m.first == 1 && m.rows == m.last && m.sum.Cmp(gauss) == 0
}

// readHead reads the chain that ClickHouse has at the watermark: the head that the next event must link to.
func (w *worker) readHead(ctx context.Context, mark watermark) (lua.Link, error) {
	if mark.last == 0 {
		return lua.FirstLink, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	head := lua.Link{Position: mark.last}
	err := w.clickhouse.QueryRow(ctx, `SELECT lower(hex(chain)) FROM events WHERE shard = ? AND position = ? LIMIT 1`,
		uint16(w.shard), mark.last).Scan(&head.Chain)
	if err != nil {
		return lua.Link{}, fmt.Errorf("read chain at position %d: %w", mark.last, err)
	}
	return head, nil
}
