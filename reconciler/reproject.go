package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/hotledger/hotledger/chassis/retry"
)

// reproject writes the rows of wrong positions again from Kafka, and checks them: what is right then is no doubt any more. It does so
// before the accounts are compared, so that they are compared with the log as it is.
func (r *reconciliation) reproject(ctx context.Context) error {
	var all []*Break
	for shard := range r.doubts {
		all = append(all, r.doubts[shard].projection...)
	}
	if len(all) == 0 {
		return nil
	}
	all = slices.DeleteFunc(all, func(b *Break) bool {
		b.ID = b.fingerprint()
		if r.agreed(b) || r.policy.allowance(b) != nil {
			return false
		}
		b.Detail += "; policy " + r.policy.Version + " wants two people to approve its repair"
		return true
	})
	for _, b := range all {
		b.Compensation = &Compensation{CommandID: "reproject:" + b.ID, Operation: "reproject", State: WouldIssue}
		b.FirstSeen, b.Severity = r.report.Started, r.policy.severity(b, r.began) // classify may find it older
	}
	if held := r.policy.over(all, r.approved); held != "" {
		r.hold(held)
		for _, b := range all {
			if !r.agreed(b) {
				b.Compensation = nil
			}
		}
		all = slices.DeleteFunc(all, func(b *Break) bool { return !r.agreed(b) })
	}
	if len(all) == 0 || r.cfg.DryRun {
		return nil
	}
	// First on record, then done: a run that dies in between has said what it was about to do.
	if err := errors.Join(r.writeBreaks(ctx, all), r.writeCompensations(ctx, all)); err != nil {
		return err
	}
	if err := r.deleteWrong(ctx, all); err != nil {
		return err
	}
	for _, b := range all {
		if err := r.rewrite(ctx, b); err != nil {
			if ctx.Err() != nil {
				return err
			}
			b.Compensation.State, b.Compensation.Reason = Rejected, err.Error()
		}
	}
	return r.verifyProjection(ctx)
}

// verifyProjection adds up the rows again; the breaks of stretches that are right now are settled.
func (r *reconciliation) verifyProjection(ctx context.Context) error {
	marks := make([]mark, len(r.readings))
	for shard, read := range r.readings {
		marks[shard] = read.from
	}
	sums, err := r.rowSums(ctx, marks)
	if err != nil {
		return err
	}
	wrong := r.wrongStretches(sums)
	for shard := range r.doubts {
		d := &r.doubts[shard]
		var left []*Break
		for _, b := range d.projection {
			still := slices.ContainsFunc(wrong[shard], func(n uint64) bool { return n >= (b.From-1)/stretchPositions && n <= (b.To-1)/stretchPositions })
			switch c := b.Compensation; {
			case c == nil:
			case !still && c.State != Rejected:
				c.State, c.Position = Applied, b.To
				r.add(b)
				continue
			case c.State != Rejected:
				c.State, c.Reason = Rejected, "the rows are not right after they were written"
			}
			left = append(left, b)
		}
		d.projection = left
	}
	return nil
}

// rewriteRows bounds one insert.
const rewriteRows = 50_000

// deleteWrong deletes all rows at wrong positions, in one mutation: each rewrites the parts that it touches. Until rewrite has inserted
// what Kafka has, the positions are missing; a crash in between leaves a PROJECTION_MISSING, which the next run repairs.
func (r *reconciliation) deleteWrong(ctx context.Context, all []*Break) error {
	var picks []string
	for _, b := range all {
		if b.Class != ProjectionMissing {
			picks = append(picks, fmt.Sprintf("(shard = %d AND position BETWEEN %d AND %d)", b.Shard, b.From, b.To))
		}
	}
	for some := range slices.Chunk(picks, picksPerMutation) {
		if err := r.clickhouse.Exec(ctx, "ALTER TABLE events DELETE WHERE "+strings.Join(some, " OR ")+" SETTINGS mutations_sync = 2"); err != nil {
			return fmt.Errorf("delete wrong rows: %w", err)
		}
	}
	return nil
}

// picksPerMutation keeps a statement short.
const picksPerMutation = 1000

// rewrite inserts what Kafka has at the positions of a break.
func (r *reconciliation) rewrite(ctx context.Context, b *Break) error {
	columns, err := r.eventColumns(ctx)
	if err != nil {
		return err
	}
	var rows [][]any
	read := r.readings[b.Shard]
	offset := read.stretches[(b.From-1)/stretchPositions].offset
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		err := r.insertEvents(ctx, columns, rows)
		rows = rows[:0]
		return err
	}
	err = r.readLog(ctx, b.Shard, offset, read.end.offset, func(l logged) error {
		position := l.event.GetOutcome().GetPosition()
		switch {
		case position < b.From:
			return nil
		case position > b.To:
			return errEnough
		}
		event, err := rowOf(l)
		if err != nil {
			return err
		}
		row, err := inOrder(event.columns(b.Shard), columns)
		if err != nil {
			return err
		}
		if rows = append(rows, row); len(rows) >= rewriteRows {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

func (r *reconciliation) insertEvents(ctx context.Context, columns []string, rows [][]any) error {
	// The rows may be ones that were inserted before and then deleted: the server would drop them as known.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"insert_deduplicate": 0, "deduplicate_insert": "disable", "async_insert": 0}))
	return retry.Do(ctx, r.logger, "project rows again", func(ctx context.Context) error {
		batch, err := r.clickhouse.PrepareBatch(ctx, "INSERT INTO events ("+strings.Join(columns, ", ")+")")
		if err != nil {
			return retry.Permanent(fmt.Errorf("insert rows: %w", err))
		}
		defer func() { _ = batch.Close() }() // after Send there is nothing left to close
		for _, row := range rows {
			if err := batch.Append(row...); err != nil {
				return retry.Permanent(fmt.Errorf("insert rows: %w", err))
			}
		}
		// Not repeated: it may have landed. The verification tells, and the next run does what is left.
		if err := batch.Send(); err != nil {
			return retry.Permanent(fmt.Errorf("insert rows: %w", err))
		}
		return nil
	})
}

// writeProjected notes what became of the rows that were written again.
func (r *reconciliation) writeProjected(ctx context.Context) error {
	var all []*Break
	for _, b := range r.report.Breaks {
		if b.Class.inProjection() && b.Compensation != nil && b.Compensation.State != WouldIssue {
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return r.writeCompensations(ctx, all)
}
