package writer

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// outcomeColumns are all that an outcome record says (lua/record.go), and the place of the event in the chain.
const outcomeColumns = `position, command_id, toUnixTimestamp64Milli(decided_at), status = 'applied', toString(reason), delta, balance_after, held_after, sequence_after,
	floor_after, if(isNull(ceiling_after), '', toString(ceiling_after)), toString(unit), toString(account_status), legs.counter_account, legs.amount,
	hold_id, hold_remaining, toUnixTimestamp64Milli(ifNull(hold_expires_at, toDateTime64(0, 3, 'UTC'))), hold_counter_account,
	reversed_command_id, reversed_total, transfer_account, fingerprint, chain, toString(head)`

// outcomesMax is how many outcomes one chunk takes: a reversal has two rows.
const outcomesMax = lua.LoadMax / 2

// outcomeRow is one line of outcomeColumns.
type outcomeRow struct {
	position, sequence                     uint64
	decidedAt, delta, balance, held, floor int64
	applied                                uint8
	id, reason, ceiling, unit, status      string
	legAccounts                            []string
	legAmounts                             []int64
	holdID, holdCounterAccount             string
	holdRemaining, holdExpires             int64
	reversed, transferAccount              string
	reversedTotal                          int64
	fingerprint, chain                     string
	head                                   string // empty in the middle of a call; without the zeros at its end
}

func (r *outcomeRow) fields() []any {
	return []any{
		&r.position, &r.id, &r.decidedAt, &r.applied, &r.reason, &r.delta, &r.balance, &r.held, &r.sequence,
		&r.floor, &r.ceiling, &r.unit, &r.status, &r.legAccounts, &r.legAmounts,
		&r.holdID, &r.holdRemaining, &r.holdExpires, &r.holdCounterAccount,
		&r.reversed, &r.reversedTotal, &r.transferAccount, &r.fingerprint, &r.chain, &r.head,
	}
}

// event is the row as the log has it, as far as Redis remembers an outcome.
func (r *outcomeRow) event(shard int) *ledgerv1.Event {
	o := &ledgerv1.Outcome{
		CommandId: r.id, Shard: uint32(shard), Position: r.position, Delta: fmt.Sprint(r.delta), DecidedAt: timestamppb.New(time.UnixMilli(r.decidedAt)),
		Status: ledgerv1.Status_STATUS_APPLIED, TransferAccount: r.transferAccount,
	}
	if r.applied == 0 {
		o.Status, o.Reason = ledgerv1.Status_STATUS_REJECTED, ledgerv1.Reason(ledgerv1.Reason_value["REASON_"+r.reason])
	}
	if r.sequence > 0 {
		o.After = &ledgerv1.AccountState{
			Balance: fmt.Sprint(r.balance), Held: fmt.Sprint(r.held), Floor: fmt.Sprint(r.floor), Ceiling: r.ceiling,
			Sequence: r.sequence, Unit: r.unit, Status: r.status, Available: fmt.Sprint(r.balance - r.held - r.floor),
		}
	}
	for i, account := range r.legAccounts {
		o.Legs = append(o.Legs, &ledgerv1.Leg{CounterAccount: account, Amount: fmt.Sprint(r.legAmounts[i])})
	}
	if r.holdID != "" {
		o.Hold = &ledgerv1.HoldState{HoldId: r.holdID, Remaining: fmt.Sprint(r.holdRemaining), CounterAccount: r.holdCounterAccount}
		if r.holdExpires != 0 {
			o.Hold.ExpiresAt = timestamppb.New(time.UnixMilli(r.holdExpires))
		}
	}
	if r.reversed != "" {
		o.Reversal = &ledgerv1.Reversal{CommandId: r.reversed, Total: fmt.Sprint(r.reversedTotal)}
	}
	e := &ledgerv1.Event{Outcome: o, Fingerprint: []byte(r.fingerprint), Chain: []byte(r.chain)}
	if r.head != "" {
		e.Head = append([]byte(r.head), make([]byte, len(r.chain)-len(r.head))...)
	}
	return e
}

// outcomesSQL is in the order of positions, so that each event can be held against the chain of the one before; a shard that does not fit into memory is
// sorted on disk.
const outcomesSQL = `SELECT ` + outcomeColumns + ` FROM events WHERE shard = ? AND position <= ? ORDER BY position
SETTINGS max_bytes_before_external_sort = 1000000000`

// outcomes gives every event up to a position, in order, without its command and account, in pages of at most outcomesMax, and the sum of their deltas.
func (a *archive) outcomes(ctx context.Context, at uint64, each func([]*ledgerv1.Event) error) (*big.Int, error) {
	sum := new(big.Int)
	err := pages(ctx, a, "outcomes", outcomesSQL, at, outcomesMax, func(rows driver.Rows) (*ledgerv1.Event, error) {
		var r outcomeRow
		if err := rows.Scan(r.fields()...); err != nil {
			return nil, err
		}
		sum.Add(sum, big.NewInt(r.delta))
		return r.event(a.shard), nil
	}, each)
	return sum, err
}
