package writer

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	schema "github.com/hotledger/hotledger/schemas/clickhouse"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
)

// row is one event as ClickHouse gets it, before it is stored.
type row struct {
	*ledgerv1.Event
	offset int64
}

// archived gives the ledger a ClickHouse with these rows, and has its writers rebuild from it.
func (l *ledger) archived(t *testing.T, rows []row) driver.Conn {
	t.Helper()
	cfg := &l.cfg.ClickHouse
	if cfg.Addrs = strings.Split(os.Getenv("CLICKHOUSE_ADDRS"), ","); cfg.Addrs[0] == "" {
		engine, err := sharedClickHouse()
		must(t, err)
		sharedStarted.Store(true)
		cfg.Addrs = []string{engine.Addr()}
	}
	unique := fmt.Sprintf("%d_%d", time.Now().UnixNano(), databases.Add(1))
	cfg.Database, cfg.FinanceDatabase = "ledger_"+unique, "finance_"+unique
	l.cfg.RebuildFromClickHouse = true
	db, err := clickhouse.OpenDB(*cfg)
	must(t, err)
	defer func() { _ = db.Close() }()
	must(t, schema.Migrate(t.Context(), db, schema.Databases{Ledger: cfg.Database, Finance: cfg.FinanceDatabase}))
	conn, err := clickhouse.Open(*cfg)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	store(t, conn, rows)
	return conn
}

// headColumn is the head of an event that ends a call; the column has zeros for the others.
func headColumn(e *ledgerv1.Event) []byte {
	if len(e.GetHead()) == 0 {
		return make([]byte, 20)
	}
	return e.GetHead()
}

// store inserts rows as the projector does.
func store(t *testing.T, conn driver.Conn, rows []row) {
	t.Helper()
	if len(rows) == 0 {
		return
	}
	batch, err := conn.PrepareBatch(t.Context(), `INSERT INTO events (account, sequence, shard, position, log_offset, log_time, decided_at, effective_at, command_id, operation,
		status, reason, unit, delta, balance_after, held_after, floor_after, ceiling_after, sequence_after, account_status, legs,
		hold_id, hold_remaining, hold_expires_at, hold_counter_account, reversed_command_id, reversed_total, transfer_account, fingerprint, chain, head)`)
	must(t, err)
	for _, r := range rows {
		o, after := r.GetOutcome(), r.GetOutcome().GetAfter()
		sequence, why := after.GetSequence(), ""
		if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
			sequence, why = 0, reason.Of(o.GetReason()).Code
		}
		at := o.GetDecidedAt().AsTime()
		must(t, batch.Append(o.GetAccount(), sequence, uint16(o.GetShard()), o.GetPosition(), uint64(r.offset), at, at, at, o.GetCommandId(), int8(0),
			int8(o.GetStatus()), why, after.GetUnit(), minor(t, o.GetDelta()), minor(t, after.GetBalance()), minor(t, after.GetHeld()), minor(t, after.GetFloor()),
			ceilingOf(t, after), after.GetSequence(), after.GetStatus(), legsOf(t, o), o.GetHold().GetHoldId(), minor(t, o.GetHold().GetRemaining()), endOf(o.GetHold()), o.GetHold().GetCounterAccount(),
			o.GetReversal().GetCommandId(), minor(t, o.GetReversal().GetTotal()), o.GetTransferAccount(), r.GetFingerprint(), r.GetChain(), headColumn(r.Event)))
	}
	must(t, batch.Send())
}

func ceilingOf(t *testing.T, after *ledgerv1.AccountState) *int64 {
	t.Helper()
	if after.GetCeiling() == "" {
		return nil
	}
	ceiling := minor(t, after.GetCeiling())
	return &ceiling
}

// legsOf are tuples.
func legsOf(t *testing.T, o *ledgerv1.Outcome) [][]any {
	t.Helper()
	legs := [][]any{}
	for _, leg := range o.GetLegs() {
		legs = append(legs, []any{leg.GetCounterAccount(), minor(t, leg.GetAmount())})
	}
	return legs
}

func endOf(h *ledgerv1.HoldState) *time.Time {
	if h.GetExpiresAt() == nil {
		return nil
	}
	end := h.GetExpiresAt().AsTime()
	return &end
}
