package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Commands that may be older than what Redis remembers are looked up in ClickHouse before they are applied (rule 18). If that cannot be answered,
// the batch is given up: they wait, they are not applied.

// lookUpPatience bounds one look-up. No transaction is open yet, and Redis's budget is for Redis alone: a ClickHouse that is slower than that would
// otherwise never let anything through.
const lookUpPatience = 5 * time.Second

// applyOld runs a call that Redis answered with TOO_OLD: what ClickHouse knows keeps its outcome, the rest is decided.
func (w *Writer) applyOld(ctx context.Context, call *lua.Prepared, old *lua.TooOldError) (answer, error) {
	known, err := w.lookUp(ctx, call.Call, old)
	if err != nil {
		return answer{}, fmt.Errorf("%w; they wait: %w", old, err)
	}
	rest := call.Call
	rest.LookedUp, rest.Commands = old.Forgotten, nil
	for _, c := range call.Commands {
		if known[c.GetCommandId()] == nil {
			rest.Commands = append(rest.Commands, c)
		}
	}
	w.metrics.lookedUp.WithLabelValues("known").Add(float64(len(call.Commands) - len(rest.Commands)))
	w.metrics.lookedUp.WithLabelValues("unknown").Add(float64(len(rest.Commands)))
	ready, err := w.store.Prepare(rest)
	if err != nil {
		return answer{}, err
	}
	rested, err := w.decide(ctx, ready)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(known, rested.known) // more was forgotten meanwhile
	return answer{Answer: rested.Answer, commands: call.Commands, known: known}, nil
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
	var ids []string
	for _, c := range call.Commands {
		if c.AskedAt.Before(old.Since) {
			ids = append(ids, c.GetCommandId())
		}
	}
	a := &archive{conn: w.clickhouse, shard: call.Shard}
	return a.byID(ctx, ids, old.Forgotten)
}

// One query, so that one server answers both how far it is complete and what it has; and the former is evaluated first. The event at the
// position of what is forgotten always is among the rows, with its head.
const byIDSQL = `WITH (SELECT (count(), min(position), max(position), sum(toInt128(position))) FROM events WHERE shard = {shard:UInt16}) AS reach
SELECT reach.1, reach.2, reach.3, toString(reach.4), lower(hex(head)), ` + outcomeColumns + ` FROM events WHERE shard = {shard:UInt16} AND position = {through:UInt64}
UNION ALL
SELECT reach.1, reach.2, reach.3, toString(reach.4), lower(hex(head)), ` + outcomeColumns + ` FROM events WHERE shard = {shard:UInt16} AND command_id IN {ids:Array(String)}`

// byID returns the events of some command ids. ClickHouse must have every event up to a head.
func (a *archive) byID(ctx context.Context, ids []string, through lua.Head) (map[string]*ledgerv1.Event, error) {
	rows, err := a.conn.Query(ctx, byIDSQL,
		clickhouse.Named("shard", fmt.Sprint(a.shard)), clickhouse.Named("through", fmt.Sprint(through.Position)), clickhouse.Named("ids", ids))
	if err != nil {
		return nil, unusable("look commands up: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	found := map[string]*ledgerv1.Event{}
	complete := false
	for rows.Next() {
		var r outcomeRow
		var reach watermark
		var head string
		if err := rows.Scan(append([]any{&reach.rows, &reach.first, &reach.highest, &reach.sum, &head}, r.fields()...)...); err != nil {
			return nil, unusable("look commands up: %w", err)
		}
		if err := reach.gapless(); err != nil {
			return nil, err
		}
		if r.position == through.Position {
			if head != through.Chain {
				return nil, unusable("it has another head at %s: %s", through, head)
			}
			complete = true
		}
		found[r.id] = r.event(a.shard)
	}
	if err := rows.Err(); err != nil {
		return nil, unusable("look commands up: %w", err)
	}
	if !complete {
		return nil, unusable("it has not yet the event %s, up to which outcomes are forgotten", through)
	}
	return found, nil
}
