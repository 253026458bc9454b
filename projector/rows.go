package projector

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// rows is a block of the table events, column by column, in the order of the log. It is filled once and sent as often as it
// takes: every attempt makes a new driver batch of the same rows.
type rows struct {
	account, commandID, counterAccount, unit []string
	reference, description, source, reason   []string
	accountStatus                            []string
	holdID, holdCounterAccount               []string
	reversedCommandID                        []string
	transferAccount, transferTo              []string
	sequence, position, logOffset, batchTo   []uint64
	sequenceAfter                            []uint64
	shard                                    []uint16
	logTime, decidedAt, effectiveAt          []time.Time
	businessDate                             []time.Time
	holdExpiresAt                            []*time.Time
	operation, status                        []int8
	delta, balance, held, floor              []int64
	holdRemaining, reversedTotal, asked      []int64
	ceiling                                  []*int64
	legs                                     [][]leg
	metadata                                 []map[string]string
	fingerprint, chain, head                 [][]byte
}

func (r *rows) append(shard int32, e *row) {
	r.account = append(r.account, e.account)
	r.sequence = append(r.sequence, e.sequence)
	r.shard = append(r.shard, uint16(shard))
	r.position = append(r.position, e.position)
	r.logOffset = append(r.logOffset, e.logOffset)
	r.logTime = append(r.logTime, e.logTime)
	r.decidedAt = append(r.decidedAt, e.decidedAt)
	r.effectiveAt = append(r.effectiveAt, e.effectiveAt)
	r.businessDate = append(r.businessDate, e.businessDate)
	r.commandID = append(r.commandID, e.commandID)
	r.operation = append(r.operation, e.operation)
	r.status = append(r.status, e.status)
	r.reason = append(r.reason, e.reason)
	r.counterAccount = append(r.counterAccount, e.counterAccount)
	r.legs = append(r.legs, e.legs)
	r.unit = append(r.unit, e.unit)
	r.delta = append(r.delta, e.delta)
	r.balance = append(r.balance, e.balance)
	r.held = append(r.held, e.held)
	r.floor = append(r.floor, e.floor)
	r.ceiling = append(r.ceiling, e.ceiling)
	r.sequenceAfter = append(r.sequenceAfter, e.sequenceAfter)
	r.accountStatus = append(r.accountStatus, e.accountStatus)
	r.holdID = append(r.holdID, e.holdID)
	r.holdRemaining = append(r.holdRemaining, e.holdRemaining)
	r.holdExpiresAt = append(r.holdExpiresAt, e.holdExpiresAt)
	r.holdCounterAccount = append(r.holdCounterAccount, e.holdCounterAccount)
	r.reversedCommandID = append(r.reversedCommandID, e.reversedCommandID)
	r.reversedTotal = append(r.reversedTotal, e.reversedTotal)
	r.transferAccount = append(r.transferAccount, e.transferAccount)
	r.transferTo = append(r.transferTo, e.transferTo)
	r.asked = append(r.asked, e.asked)
	r.reference = append(r.reference, e.reference)
	r.description = append(r.description, e.description)
	r.metadata = append(r.metadata, e.metadata)
	r.source = append(r.source, e.source)
	r.fingerprint = append(r.fingerprint, e.fingerprint)
	r.chain = append(r.chain, e.chain)
	r.head = append(r.head, e.head)
}

// spare has columns without rows, of any shard: growing forty of them for every batch took a quarter of the projector's time. What nobody needs,
// the garbage collector takes.
var spare = sync.Pool{New: func() any { return new(rows) }}

func newRows() *rows { return spare.Get().(*rows) } //nolint:forcetypeassert // nothing else is in there

// free empties the columns for the next batch. Nobody may use r after it.
func (r *rows) free() {
	*r = rows{
		account: r.account[:0], commandID: r.commandID[:0], counterAccount: r.counterAccount[:0], unit: r.unit[:0],
		reference: r.reference[:0], description: r.description[:0], source: r.source[:0], reason: r.reason[:0],
		accountStatus: r.accountStatus[:0], holdID: r.holdID[:0], holdCounterAccount: r.holdCounterAccount[:0],
		reversedCommandID: r.reversedCommandID[:0], transferAccount: r.transferAccount[:0], transferTo: r.transferTo[:0],
		sequence: r.sequence[:0], position: r.position[:0], logOffset: r.logOffset[:0], batchTo: r.batchTo[:0],
		sequenceAfter: r.sequenceAfter[:0], shard: r.shard[:0], logTime: r.logTime[:0], decidedAt: r.decidedAt[:0],
		effectiveAt: r.effectiveAt[:0], businessDate: r.businessDate[:0], holdExpiresAt: r.holdExpiresAt[:0],
		operation: r.operation[:0], status: r.status[:0], delta: r.delta[:0], balance: r.balance[:0], held: r.held[:0],
		floor: r.floor[:0], holdRemaining: r.holdRemaining[:0], reversedTotal: r.reversedTotal[:0], asked: r.asked[:0],
		ceiling: r.ceiling[:0], legs: r.legs[:0], metadata: r.metadata[:0], fingerprint: r.fingerprint[:0], chain: r.chain[:0],
		head: r.head[:0],
	}
	spare.Put(r)
}

// close fills the column that is known only when the batch is cut.
func (r *rows) close(to uint64) {
	r.batchTo = slices.Grow(r.batchTo[:0], len(r.position))[:len(r.position)]
	for i := range r.batchTo {
		r.batchTo[i] = to
	}
}

// tableColumn is one column by its name in the table.
type tableColumn struct {
	name   string
	values any
}

// columns is the one place that says what goes where; ingested_at is the server's.
func (r *rows) columns() []tableColumn {
	return []tableColumn{
		{"account", r.account}, {"sequence", r.sequence}, {"shard", r.shard}, {"position", r.position},
		{"log_offset", r.logOffset}, {"log_time", r.logTime}, {"decided_at", r.decidedAt}, {"effective_at", r.effectiveAt},
		{"business_date", r.businessDate}, {"command_id", r.commandID}, {"operation", r.operation}, {"status", r.status}, {"reason", r.reason},
		{"counter_account", r.counterAccount}, {"legs", r.legs}, {"unit", r.unit}, {"delta", r.delta}, {"balance_after", r.balance},
		{"held_after", r.held}, {"floor_after", r.floor}, {"ceiling_after", r.ceiling}, {"sequence_after", r.sequenceAfter},
		{"account_status", r.accountStatus}, {"hold_id", r.holdID}, {"hold_remaining", r.holdRemaining}, {"hold_expires_at", r.holdExpiresAt},
		{"hold_counter_account", r.holdCounterAccount}, {"reversed_command_id", r.reversedCommandID}, {"reversed_total", r.reversedTotal},
		{"transfer_account", r.transferAccount}, {"transfer_to", r.transferTo}, {"asked_amount", r.asked},
		{"reference", r.reference}, {"description", r.description}, {"metadata", r.metadata},
		{"source", r.source}, {"fingerprint", r.fingerprint}, {"chain", r.chain}, {"head", r.head}, {"batch_to", r.batchTo},
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

// fill appends all columns to a driver batch, which then is one block.
func (r *rows) fill(batch driver.Batch) error {
	for i, c := range r.columns() {
		if err := batch.Column(i).Append(c.values); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return nil
}
