package projector

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// rows is a block of the table events, column by column, in the order of the log. It is filled once and sent as often as it takes.
type rows struct {
	n                                      int
	room                                   int // rows, about; see reserve
	account, commandID, counterAccount     cells
	reference, description                 cells
	holdID, holdCounterAccount             cells
	reversedCommandID                      cells
	transferAccount, transferTo            cells
	sequence, position, logOffset, batchTo cells
	sequenceAfter, shard                   cells
	logTime, decidedAt, effectiveAt        cells
	businessDate, operation, status        cells
	delta, balance, held, floor            cells
	holdRemaining, reversedTotal, asked    cells
	fingerprint, chain, head               cells
	unit, source, reason, accountStatus    words
	holdExpiresAt, ceiling                 nullable
	legs, legAccount, legAmount            cells
	metadata, metadataKey, metadataValue   cells
	legsSoFar, metadataSoFar               uint64
}

func (r *rows) append(shard int32, e *row) {
	r.n++
	r.account.text(e.account)
	r.sequence.uint64(e.sequence)
	r.shard.uint16(uint16(shard))
	r.position.uint64(e.position)
	r.logOffset.uint64(e.logOffset)
	r.logTime.int64(e.logTime)
	r.decidedAt.int64(e.decidedAt)
	r.effectiveAt.int64(e.effectiveAt)
	r.businessDate.uint16(e.businessDate)
	r.commandID.text(e.commandID)
	r.operation.uint8(e.operation)
	r.status.uint8(e.status)
	r.reason.text(e.reason)
	r.counterAccount.text(e.counterAccount)
	for _, leg := range e.legs {
		r.legAccount.text(leg.account)
		r.legAmount.int64(leg.amount)
	}
	r.legsSoFar += uint64(len(e.legs))
	r.legs.uint64(r.legsSoFar)
	r.unit.text(e.unit)
	r.delta.int64(e.delta)
	r.balance.int64(e.balance)
	r.held.int64(e.held)
	r.floor.int64(e.floor)
	r.ceiling.int64(e.ceiling)
	r.sequenceAfter.uint64(e.sequenceAfter)
	r.accountStatus.text(e.accountStatus)
	r.holdID.text(e.holdID)
	r.holdRemaining.int64(e.holdRemaining)
	r.holdExpiresAt.int64(e.holdExpiresAt)
	r.holdCounterAccount.text(e.holdCounterAccount)
	r.reversedCommandID.text(e.reversedCommandID)
	r.reversedTotal.int64(e.reversedTotal)
	r.transferAccount.text(e.transferAccount)
	r.transferTo.text(e.transferTo)
	r.asked.int64(e.asked)
	r.reference.text(e.reference)
	r.description.text(e.description)
	if len(e.metadata) > 0 { // to range over none costs as much as ten columns
		for key, value := range e.metadata {
			r.metadataKey.text(key)
			r.metadataValue.text(value)
		}
		r.metadataSoFar += uint64(len(e.metadata))
	}
	r.metadata.uint64(r.metadataSoFar)
	r.source.text(e.source)
	r.fingerprint.bytes(e.fingerprint)
	r.chain.bytes(e.chain)
	r.head.bytes(e.head)
}

// spare has columns without rows, of any shard: growing them for every batch took a quarter of the projector's time. What nobody needs, the garbage
// collector takes.
var spare = sync.Pool{New: func() any {
	r := new(rows)
	for _, w := range r.words() {
		w.key = map[string]uint32{}
	}
	return r
}}

// reserve sees to room for one row more, of at most so many. Where there is none it makes room for as many again as there are, of their size: append
// alone would grow each column by quarters, and copy every byte four times.
func (r *rows) reserve(most int) {
	const first, slack = 1024, 16 // texts that get longer: a sixteenth
	if r.n < r.room {
		return
	}
	r.room = min(max(2*r.n, first), most)
	for _, c := range r.columns() {
		for _, part := range c.parts {
			more := len(*part) * (r.room - r.n) / max(r.n, 1)
			*part = slices.Grow(*part, more+more/slack)
		}
	}
}

func newRows() *rows { return spare.Get().(*rows) } //nolint:forcetypeassert // nothing else is in there

// free empties the columns for the next batch. Nobody may use r after it.
func (r *rows) free() {
	for _, c := range r.columns() {
		for _, part := range c.parts {
			*part = (*part)[:0]
		}
	}
	for _, w := range r.words() {
		w.reset()
	}
	r.n, r.legsSoFar, r.metadataSoFar = 0, 0, 0
	spare.Put(r)
}

func (r *rows) words() []*words { return []*words{&r.reason, &r.unit, &r.accountStatus, &r.source} }

// close fills what is known only when the batch is cut.
func (r *rows) close(to uint64) {
	r.batchTo = slices.Grow(r.batchTo[:0], 8*r.n)
	for range r.n {
		r.batchTo.uint64(to)
	}
	for _, w := range r.words() {
		w.close(r.n)
	}
}

// tableColumn is one column by its name in the table, and the type in which it is sent.
type tableColumn struct {
	name, kind string
	parts      []*cells
}

const (
	kindTime  = "DateTime64(3, 'UTC')"
	kindWords = "LowCardinality(String)"
)

// columns is the one place that says what goes where; ingested_at is the server's. Numbers of enums are sent as such, and the server checks them.
func (r *rows) columns() []tableColumn {
	one := func(name, kind string, c *cells) tableColumn { return tableColumn{name, kind, []*cells{c}} }
	return []tableColumn{
		one("account", "String", &r.account), one("sequence", "UInt64", &r.sequence), one("shard", "UInt16", &r.shard),
		one("position", "UInt64", &r.position), one("log_offset", "UInt64", &r.logOffset), one("log_time", kindTime, &r.logTime),
		one("decided_at", kindTime, &r.decidedAt), one("effective_at", kindTime, &r.effectiveAt), one("business_date", "Date", &r.businessDate),
		one("command_id", "String", &r.commandID), one("operation", "Int8", &r.operation), one("status", "Int8", &r.status),
		{"reason", kindWords, r.reason.parts()}, one("counter_account", "String", &r.counterAccount),
		{"legs", "Array(Tuple(counter_account String, amount Int64))", []*cells{&r.legs, &r.legAccount, &r.legAmount}},
		{"unit", kindWords, r.unit.parts()}, one("delta", "Int64", &r.delta), one("balance_after", "Int64", &r.balance),
		one("held_after", "Int64", &r.held), one("floor_after", "Int64", &r.floor), {"ceiling_after", "Nullable(Int64)", r.ceiling.parts()},
		one("sequence_after", "UInt64", &r.sequenceAfter), {"account_status", kindWords, r.accountStatus.parts()},
		one("hold_id", "String", &r.holdID), one("hold_remaining", "Int64", &r.holdRemaining),
		{"hold_expires_at", "Nullable(" + kindTime + ")", r.holdExpiresAt.parts()}, one("hold_counter_account", "String", &r.holdCounterAccount),
		one("reversed_command_id", "String", &r.reversedCommandID), one("reversed_total", "Int64", &r.reversedTotal),
		one("transfer_account", "String", &r.transferAccount), one("transfer_to", "String", &r.transferTo), one("asked_amount", "Int64", &r.asked),
		one("reference", "String", &r.reference), one("description", "String", &r.description),
		{"metadata", "Map(String, String)", []*cells{&r.metadata, &r.metadataKey, &r.metadataValue}}, {"source", kindWords, r.source.parts()},
		one("fingerprint", "FixedString(16)", &r.fingerprint), one("chain", "FixedString(20)", &r.chain), one("head", "FixedString(20)", &r.head),
		one("batch_to", "UInt64", &r.batchTo),
	}
}

// insertSQL names the columns in the order of columns.
var insertSQL = func() string {
	columns := new(rows).columns()
	names := make([]string, 0, len(columns))
	for _, c := range columns {
		names = append(names, c.name)
	}
	return "INSERT INTO events (" + strings.Join(names, ", ") + ")"
}()

// native is the block in the format Native, in pieces.
func (r *rows) native() [][]byte {
	columns := r.columns()
	var head cells
	head = binary.AppendUvarint(head, uint64(len(columns)))
	head = binary.AppendUvarint(head, uint64(r.n))
	var pieces [][]byte
	for _, c := range columns {
		head.text(c.name)
		head.text(c.kind)
		pieces = append(pieces, head)
		head = nil
		for _, part := range c.parts {
			pieces = append(pieces, *part)
		}
	}
	return pieces
}

// fill copies the block into a driver batch.
func (r *rows) fill(batch driver.Batch) error {
	for i, c := range r.columns() {
		readers := make([]io.Reader, len(c.parts))
		for i, part := range c.parts {
			readers[i] = bytes.NewReader(*part)
		}
		from, to := proto.NewReader(io.MultiReader(readers...)), batch.Columns()[i]
		if prefixed, ok := to.(column.CustomSerialization); ok {
			if err := prefixed.ReadStatePrefix(from); err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		if err := to.Decode(from, r.n); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return nil
}
