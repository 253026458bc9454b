package export

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
)

// entry is an event that opened an account, or booked something on one.
type entry struct {
	account                            string
	transactionID, commandID           string
	operation, reference, description  string
	bookedAt, effectiveAt, businessDay time.Time
	// day is the business date, but never before that of the account's entry before: a writer's clock may step back, and a balance after
	// an entry is one of an order of entries.
	day      time.Time
	shard    uint16
	position uint64
	unit     money.Unit
	delta    int64 // signed change, minor units
	after    int64 // balance after it, as the ledger said at the time
	others   []posting
}

// posting is one other side of an entry, signed from that side's point of view; all of them and the delta add up to zero.
type posting struct {
	account string
	amount  int64
}

// In the order of booking; an account's own entries are in the order of its sequence. The sort goes to disk where memory ends.
const entriesSQL = `SELECT account, if(startsWith(command_id, '@'), substring(command_id, position(command_id, '/') + 1), command_id), command_id, toString(operation), reference, description,
	log_time, effective_at, business_date, shard, position, toString(unit), delta, balance_after, legs.counter_account, legs.amount
FROM events_once
WHERE status = 'applied' AND (operation = 'open' OR operation != 'repair' AND delta != 0)%s
ORDER BY log_time, shard, position`

// entries gives the entries of a period one by one; each is valid until the next.
func entries(ctx context.Context, conn driver.Conn, o Options) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		rows, err := conn.Query(ctx, fmt.Sprintf(entriesSQL, o.dates()))
		if err != nil {
			yield(nil, fmt.Errorf("read entries: %w", err))
			return
		}
		defer rows.Close() //nolint:errcheck // rows.Err tells
		reader := entryReader{units: map[string]money.Unit{}, days: map[string]time.Time{}}
		for rows.Next() {
			e, err := reader.read(rows)
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fmt.Errorf("read entries: %w", err))
		}
	}
}

// entryReader remembers the few units, and the day that each account has come to.
type entryReader struct {
	units map[string]money.Unit
	days  map[string]time.Time
	e     entry
}

func (r *entryReader) read(rows driver.Rows) (*entry, error) {
	e := &r.e
	var unit string
	var names []string
	var amounts []int64
	err := rows.Scan(&e.account, &e.transactionID, &e.commandID, &e.operation, &e.reference, &e.description,
		&e.bookedAt, &e.effectiveAt, &e.businessDay, &e.shard, &e.position, &unit, &e.delta, &e.after, &names, &amounts)
	if err != nil {
		return nil, fmt.Errorf("read entry: %w", err)
	}
	if e.unit = r.units[unit]; e.unit == (money.Unit{}) {
		if e.unit, err = money.ParseUnit(unit); err != nil {
			return nil, fmt.Errorf("entry at position %d of shard %d: %w", e.position, e.shard, err)
		}
		r.units[unit] = e.unit
	}
	e.day = e.businessDay
	if last := r.days[e.account]; e.day.Before(last) {
		e.day = last
	}
	r.days[e.account] = e.day
	e.others = e.others[:0]
	for i, name := range names {
		amount := amounts[i]
		if e.delta > 0 {
			amount = -amount
		}
		e.others = append(e.others, posting{name, amount})
	}
	if len(e.others) == 0 && e.delta != 0 {
		e.others = append(e.others, posting{limits.World, -e.delta})
	}
	return e, nil
}

// place is where the event stands in the log.
func (e *entry) place() string {
	return strconv.Itoa(int(e.shard)) + "/" + strconv.FormatUint(e.position, 10)
}
