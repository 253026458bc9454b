package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Commands that may be older than what Redis remembers are looked up in ClickHouse before they are applied (rule 18). If that cannot be answered,
// the batch is given up: they wait, they are not applied.

// lookUpPatience bounds one look-up, within the transaction's time.
const lookUpPatience = 5 * time.Second

// applyOld runs a call that Redis answered with TOO_OLD: what ClickHouse knows keeps its outcome, the rest is decided.
func (w *Writer) applyOld(ctx context.Context, call lua.Call, old *lua.TooOldError) lua.Result {
	known, err := w.lookUp(ctx, call, old)
	if err != nil {
		return lua.Result{Err: fmt.Errorf("%w; they wait: %w", old, err)}
	}
	rest := call
	rest.LookedUp, rest.Commands = old.Forgotten, nil
	for _, c := range call.Commands {
		if known[c.GetCommandId()] == nil {
			rest.Commands = append(rest.Commands, c)
		}
	}
	w.metrics.lookedUp.WithLabelValues("known").Add(float64(len(call.Commands) - len(rest.Commands)))
	w.metrics.lookedUp.WithLabelValues("unknown").Add(float64(len(rest.Commands)))
	result := w.store.Apply(ctx, rest)[0]
	if result.Err != nil {
		return result
	}
	decided := result.Decisions
	result.Decisions = make([]lua.Decision, 0, len(call.Commands))
	for _, c := range call.Commands {
		if event := known[c.GetCommandId()]; event != nil {
			result.Decisions = append(result.Decisions, remembered(c, event))
			continue
		}
		result.Decisions, decided = append(result.Decisions, decided[0]), decided[1:]
	}
	return result
}

// remembered is the decision on a command whose id ClickHouse knows.
func remembered(c lua.Command, event *ledgerv1.Event) lua.Decision {
	kind := lua.Reused
	if string(event.GetFingerprint()) == string(c.Fingerprint[:]) {
		kind = lua.Remembered
	}
	event.Outcome.Account = c.GetAccount()
	return lua.Decision{Kind: kind, Outcome: event.GetOutcome()}
}

// lookUp returns the events that ClickHouse has of the call's commands, by id. ClickHouse must be complete through what is forgotten, and on
// the same chain there.
func (w *Writer) lookUp(ctx context.Context, call lua.Call, old *lua.TooOldError) (map[string]*ledgerv1.Event, error) {
	if w.clickhouse == nil {
		return nil, errors.New("this writer has no ClickHouse; set LEDGER_WRITER_DEDUPE_WINDOW as it was when outcomes were forgotten")
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpPatience)
	defer cancel()
	a := &archive{conn: w.clickhouse, shard: call.Shard}
	highest, err := a.reach(ctx)
	if err != nil {
		return nil, err
	}
	if highest < old.Forgotten.Position {
		return nil, unusable("it has the events up to position %d, outcomes are forgotten up to %d", highest, old.Forgotten.Position)
	}
	head, _, err := a.headAt(ctx, old.Forgotten.Position)
	if err != nil {
		return nil, err
	}
	if head != old.Forgotten {
		return nil, unusable("it has another chain at %s: %s", old.Forgotten, head)
	}
	var ids []string
	for _, c := range call.Commands {
		if c.AskedAt.Before(old.Since) {
			ids = append(ids, c.GetCommandId())
		}
	}
	w.logger.Debug("looking commands up in clickhouse", zap.Int("shard", call.Shard), zap.Int("commands", len(ids)), zap.Time("from_before", old.Since))
	return a.byID(ctx, ids)
}

const byIDSQL = `SELECT ` + outcomeColumns + ` FROM events WHERE shard = ? AND command_id IN (?)`

// byID returns the events of some command ids.
func (a *archive) byID(ctx context.Context, ids []string) (map[string]*ledgerv1.Event, error) {
	rows, err := a.conn.Query(ctx, byIDSQL, uint16(a.shard), ids)
	if err != nil {
		return nil, unusable("look commands up: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	found := map[string]*ledgerv1.Event{}
	for rows.Next() {
		var r outcomeRow
		if err := r.scan(rows); err != nil {
			return nil, unusable("look commands up: %w", err)
		}
		found[r.id] = r.event(a.shard)
	}
	if err := rows.Err(); err != nil {
		return nil, unusable("look commands up: %w", err)
	}
	return found, nil
}
