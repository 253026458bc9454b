package writer

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// archive is one shard as ClickHouse has it: for a rebuild, a shorter way to the same state than reading the whole log. It is used only
// where it proves to be a prefix of the log, and every answer that it gives is held against the log's hash chain.
type archive struct {
	conn  driver.Conn
	shard int
}

// errUnusable says why ClickHouse does not serve for a rebuild; the log alone does.
type errUnusable struct{ error }

func (e errUnusable) Unwrap() error { return e.error }

func unusable(format string, args ...any) error { return errUnusable{fmt.Errorf(format, args...)} }

// archivePatience bounds a whole reading; the driver's own patience of a minute is about one silence, and ClickHouse is silent while it
// sorts a shard.
const archivePatience = 2 * time.Hour

// seam is where ClickHouse ends and the log's tail begins.
type seam struct {
	at   lua.Point
	next int64 // Kafka offset after its event
}

const watermarkSQL = `SELECT count(), min(position), max(position), toString(sum(toInt128(position))) FROM events WHERE shard = ?`

// watermark is how far ClickHouse has a shard.
type watermark struct {
	rows, first, highest uint64
	sum                  string // of the positions; too large for any integer of the driver's
}

// gapless tells whether every event from the first to the highest is there once.
func (w watermark) gapless() error {
	gauss := new(big.Int).SetUint64(w.highest)
	gauss.Mul(gauss, new(big.Int).Add(gauss, big.NewInt(1))).Rsh(gauss, 1)
	if w.rows > 0 && (w.first != 1 || w.rows != w.highest || w.sum != gauss.String()) {
		return unusable("it has %d events at positions %d to %d: not each of 1 to %d once", w.rows, w.first, w.highest, w.highest)
	}
	return nil
}

// reach is the position up to which ClickHouse has every event of the shard once; 0: it has none.
func (a *archive) reach(ctx context.Context) (uint64, error) {
	var w watermark
	if err := a.conn.QueryRow(ctx, watermarkSQL, uint16(a.shard)).Scan(&w.rows, &w.first, &w.highest, &w.sum); err != nil {
		return 0, unusable("read watermark: %w", err)
	}
	return w.highest, w.gapless()
}

// pointBefore is the last end of a call up to a position, by ClickHouse, and the Kafka offset of its event.
func (a *archive) pointBefore(ctx context.Context, position uint64) (lua.Point, int64, error) {
	var point lua.Point
	var offset uint64
	err := a.conn.QueryRow(ctx, `SELECT position, lower(hex(chain)), lower(hex(head)), log_offset FROM events
WHERE shard = ? AND position <= ? AND head != toFixedString('', 20) ORDER BY position DESC LIMIT 1`,
		uint16(a.shard), position).Scan(&point.Link.Position, &point.Link.Chain, &point.Head.Chain, &offset)
	if err != nil {
		return lua.Point{}, 0, unusable("read the end of a call up to position %d: %w", position, err)
	}
	point.Head.Position = point.Link.Position
	return point, int64(offset), nil
}

// seam finds the last end of a call up to which ClickHouse has every event once, and proves with one event of the log that it is the log's.
func (a *archive) seam(ctx context.Context, log *eventLog, last lua.Point, end int64) (seam, error) {
	highest, err := a.reach(ctx)
	if err != nil {
		return seam{}, err
	}
	if highest == 0 || last == lua.Origin {
		return seam{}, unusable("it has %d events of the shard, the log %d", highest, last.Link.Position)
	}
	at, offset, err := a.pointBefore(ctx, min(highest, last.Link.Position))
	if err != nil {
		return seam{}, err
	}
	if last.Link.Position < highest && at == last { // rule 19
		return seam{}, errDamagedLog{fmt.Errorf("events of shard %d end at %s in the log, ClickHouse has the same and goes on to position %d: "+
			"the log lost committed events; restore it", a.shard, last.Link, highest)}
	}
	if last.Link.Position < highest {
		return seam{}, unusable("it has %d events, the log %d, and another chain at position %d", highest, last.Link.Position, at.Link.Position)
	}
	_, found, err := log.look(ctx, a.shard, offset, end, at.Link.Position)
	if err != nil {
		return seam{}, err
	}
	if found.event == nil || found.offset != offset {
		return seam{}, unusable("the log does not have its event %s at offset %d", at.Link, offset)
	}
	if logged, _ := lua.PointOf(found.event); logged != at {
		return seam{}, unusable("the log does not have its event %s at offset %d", at.Link, offset)
	}
	return seam{at: at, next: found.offset + 1}, nil
}

// The fold of replay.lua in SQL: deltas add up, and all else is as the account's last applied event says. In the table's own order it
// streams in constant memory. The last two columns must agree with the fold, or else an event is booked on another account than its own.
const accountsSQL = `SELECT account, accurateCast(sum(toInt128(delta)), 'Int64'), argMax(held_after, position), argMax(floor_after, position),
	argMax(if(isNull(ceiling_after), '', toString(ceiling_after)), position),
	argMax(sequence_after, position), argMax(toString(unit), position), argMax(toString(account_status), position), argMax(balance_after, position), count()
FROM events WHERE shard = ? AND position <= ? AND status = 'applied' GROUP BY account
SETTINGS optimize_aggregation_in_order = 1`

// accounts gives each account at a position once, in pages of at most lua.LoadMax, and the sum of their balances.
func (a *archive) accounts(ctx context.Context, at uint64, each func([]lua.Account) error) (*big.Int, error) {
	sum := new(big.Int)
	err := pages(ctx, a, "accounts", accountsSQL, at, lua.LoadMax, func(rows driver.Rows) (one lua.Account, err error) {
		var said int64
		var changes uint64
		err = rows.Scan(&one.ID, &one.Balance, &one.Held, &one.Floor, &one.Ceiling, &one.Sequence, &one.Unit, &one.Status, &said, &changes)
		if err == nil && (said != one.Balance || changes != one.Sequence) {
			err = fmt.Errorf("account %q folds to %d after %d changes, its last event says %d after %d", one.ID, one.Balance, changes, said, one.Sequence)
		}
		sum.Add(sum, big.NewInt(one.Balance))
		return one, err
	}, each)
	return sum, err
}

const holdsSQL = `SELECT hold_id, any(account), argMax(hold_remaining, position) AS remaining,
	toUnixTimestamp64Milli(argMax(ifNull(hold_expires_at, toDateTime64(0, 3, 'UTC')), position)), argMax(hold_counter_account, position)
FROM events WHERE shard = ? AND position <= ? AND hold_id != '' GROUP BY hold_id HAVING remaining != 0`

// holds gives each hold that is open at a position once, in pages of at most lua.LoadMax.
func (a *archive) holds(ctx context.Context, at uint64, each func([]lua.Hold) error) error {
	return pages(ctx, a, "holds", holdsSQL, at, lua.LoadMax, func(rows driver.Rows) (one lua.Hold, err error) {
		var expires int64
		err = rows.Scan(&one.ID, &one.Account, &one.Remaining, &expires, &one.CounterAccount)
		if expires != 0 {
			one.ExpiresAt = time.UnixMilli(expires)
		}
		return one, err
	}, each)
}

// pages gives what a query makes of a shard's events up to a position, row by row as scan reads it, in pages of at most pageMax. What cannot be
// read or is wrong makes ClickHouse unusable; an error of each does not.
func pages[T any](ctx context.Context, a *archive, what, query string, at uint64, pageMax int, scan func(driver.Rows) (T, error), each func([]T) error) error {
	rows, err := a.conn.Query(ctx, query, uint16(a.shard), at)
	if err != nil {
		return unusable("read %s: %w", what, err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	page := make([]T, 0, pageMax)
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return unusable("read %s: %w", what, err)
		}
		if page = append(page, one); len(page) == pageMax {
			if err := each(page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if err := rows.Err(); err != nil {
		return unusable("read %s: %w", what, err)
	}
	if len(page) == 0 {
		return nil
	}
	return each(page)
}

// load sends the shard at the seam into a build.
func (a *archive) load(ctx context.Context, build *lua.Build, at seam, send func(step) error) error {
	load := build.Load(time.Now())
	balances, err := a.accounts(ctx, at.at.Head.Position, func(page []lua.Account) error {
		chunk, err := load.Accounts(page)
		if err != nil {
			return errUnusable{err}
		}
		return send(step{chunk: chunk, accounts: len(page)})
	})
	if err != nil {
		return err
	}
	err = a.holds(ctx, at.at.Head.Position, func(page []lua.Hold) error {
		chunk, err := load.Holds(page)
		if err != nil {
			return errUnusable{err}
		}
		return send(step{chunk: chunk})
	})
	if err != nil {
		return err
	}
	deltas, err := a.outcomes(ctx, at.at.Head.Position, func(page []*ledgerv1.Event) error {
		chunk, err := load.Outcomes(page)
		if err != nil {
			return errUnusable{err}
		}
		return send(step{chunk: chunk, events: len(page)})
	})
	switch {
	case err != nil:
		return err
	case load.At() != at.at:
		return unusable("its events lead to %s, not to %s", load.At().Link, at.at.Link)
	case balances.Cmp(deltas) != 0:
		return unusable("its balances add up to %s, its events to %s", balances, deltas)
	}
	last, err := load.Done()
	if err != nil {
		return errUnusable{err}
	}
	return send(step{chunk: last})
}

func isUnusable(err error) bool {
	var e errUnusable
	return errors.As(err, &e)
}
