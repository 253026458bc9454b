package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/hotledger/hotledger/lua"
)

// marks are where this run begins to read the log: the beginning for a full run, what was verified last for an incremental one.
func (r *reconciliation) marks(ctx context.Context) ([]mark, error) {
	marks := make([]mark, len(r.scans))
	if !r.cfg.Incremental {
		return marks, nil
	}
	rows, err := r.clickhouse.Query(ctx, "SELECT shard, position, chain, next_offset FROM log_marks FINAL")
	if err != nil {
		return nil, fmt.Errorf("read how far the log is verified: %w", err)
	}
	err = scanAll(rows, func(scan func(...any) error) error {
		var shard uint16
		var m mark
		if err := scan(&shard, &m.link.Position, &m.link.Chain, &m.offset); err != nil {
			return err
		}
		if int(shard) < len(marks) && m.link.Position <= r.scans[shard].end.Position {
			marks[shard] = m
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how far the log is verified: %w", err)
	}
	return marks, nil
}

// chooseCheckpoint finds the checkpoint that an incremental run starts from: the newest one that no shard of Redis is below.
func (r *reconciliation) chooseCheckpoint(ctx context.Context) error {
	r.cuts = make([]uint64, len(r.scans))
	if !r.cfg.Incremental {
		return nil
	}
	rows, err := r.clickhouse.Query(ctx, "SELECT checkpoint, cuts FROM checkpoint_cuts ORDER BY at DESC LIMIT 2")
	if err != nil {
		return fmt.Errorf("choose checkpoint: %w", err)
	}
	err = scanAll(rows, func(scan func(...any) error) error {
		var checkpoint string
		var cuts map[uint16]uint64
		if err := scan(&checkpoint, &cuts); err != nil {
			return err
		}
		usable := r.checkpoint == "" && len(cuts) == len(r.scans)
		for shard, s := range r.scans {
			usable = usable && cuts[uint16(shard)] <= s.start.Position
		}
		if usable {
			r.checkpoint = checkpoint
			for shard := range r.cuts {
				r.cuts[shard] = cuts[uint16(shard)]
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("choose checkpoint: %w", err)
	}
	return nil
}

// checkpointsKept leaves an incremental run that is going on its checkpoint.
const checkpointsKept = 2

// writeMarks notes how far the log is whole, and what each account stands at there. A log in doubt gets neither.
func (r *reconciliation) writeMarks(ctx context.Context) error {
	if r.cfg.DryRun || slices.ContainsFunc(r.doubts, func(d doubt) bool { return d.inDoubt() }) ||
		slices.ContainsFunc(r.report.Breaks, func(b *Break) bool { return slices.Contains([]Class{LogGap, LogDuplicate, LogTruncated}, b.Class) }) {
		return nil
	}
	err := r.insert(ctx, "INSERT INTO log_marks (shard, run_id, position, chain, next_offset, at)", func(batch driver.Batch) error {
		for shard, read := range r.readings {
			if err := batch.Append(uint16(shard), r.id, read.end.link.Position, read.end.link.Chain.String(), read.end.offset, r.now()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || r.cfg.Incremental {
		return err
	}
	return r.writeCheckpoint(ctx)
}

func (r *reconciliation) writeCheckpoint(ctx context.Context) error {
	for i := range r.bounds {
		err := r.clickhouse.Exec(ctx, `INSERT INTO account_checkpoints
				(checkpoint, account, shard, sequence, position, balance, balance_after, held_after, floor, ceiling, status, unit, repaired_at, at)
			SELECT @run, account, shard, max(sequence), min(position), sum(toInt128(delta)), argMax(balance_after, sequence), argMax(held_after, sequence),
				argMaxIf(floor_after, sequence, operation IN ('open', 'set_limits')), argMaxIf(ifNull(toString(ceiling_after), ''), sequence, operation IN ('open', 'set_limits')),
				argMaxIf(toString(account_status), sequence, operation IN ('open', 'freeze', 'unfreeze', 'close')), argMin(toString(unit), sequence),
				maxIf(sequence, operation = 'repair'), now64(3)
			FROM (SELECT * FROM events WHERE status = 'applied' AND position <= arrayElement(@ends, shard + 1)
				AND account >= @lo AND (@hi = '' OR account < @hi) LIMIT 1 BY account, sequence, position)
			GROUP BY account, shard`, r.args(sliceOf(r.bounds, i))...)
		if err != nil {
			return fmt.Errorf("write checkpoint: %w", err)
		}
	}
	cuts := map[uint16]uint64{}
	for shard, s := range r.scans {
		cuts[uint16(shard)] = s.end.Position
	}
	err := r.insert(ctx, "INSERT INTO checkpoint_cuts (checkpoint, cuts, at)", func(batch driver.Batch) error {
		return batch.Append(r.id, cuts, r.now())
	})
	if err != nil {
		return err
	}
	var old []string
	err = r.clickhouse.QueryRow(ctx, `SELECT groupArray(DISTINCT _partition_id) FROM account_checkpoints WHERE checkpoint NOT IN (
		SELECT checkpoint FROM checkpoint_cuts ORDER BY at DESC LIMIT @kept) AND at < now64(3) - INTERVAL 1 DAY OR checkpoint IN (
		SELECT checkpoint FROM checkpoint_cuts ORDER BY at DESC LIMIT 1000 OFFSET @kept)`, clickhouse.Named("kept", checkpointsKept)).Scan(&old)
	if err != nil {
		return fmt.Errorf("find old checkpoints: %w", err)
	}
	for _, id := range old {
		if err := r.clickhouse.Exec(ctx, "ALTER TABLE account_checkpoints DROP PARTITION ID '"+id+"'"); err != nil {
			return fmt.Errorf("drop old checkpoint: %w", err)
		}
	}
	return nil
}

// progressSlice is the number under which a run keeps what a resumed one needs, beside its slices.
const progressSlice = 1<<32 - 1

// progress is what a run was about to compare.
type progress struct {
	Bounds    []string
	Started   time.Time
	Scans     []savedScan
	Projected []*Break // rows that were written again already
}

// savedScan is a scan as it is kept.
type savedScan struct {
	Generation                string
	Start, End, Redis, LogEnd lua.Head
	Offset                    int64
	Since                     time.Time
	Unlogged                  bool
	Unreadable                map[string]string
	Trouble                   *Break
}

func (r *reconciliation) writeProgress(ctx context.Context, bounds []string) error {
	p := progress{Bounds: bounds, Started: r.report.Started, Projected: r.report.Breaks}
	for shard, s := range r.scans {
		p.Scans = append(p.Scans, savedScan{
			Generation: s.generation, Start: s.start, End: s.end, Redis: s.redisEnd, LogEnd: s.log.head, Offset: s.log.offset, Since: s.since,
			Unlogged: s.unlogged, Unreadable: s.unreadable, Trouble: r.trouble[shard],
		})
	}
	return r.writeSlice(ctx, progressSlice, p)
}

// resumeMax is how old a reading of Redis may be to go on with; beyond it a new one is cheaper to trust.
const resumeMax = 6 * time.Hour

// resume takes up a run of a business date that was stopped after it had read Redis.
func (r *reconciliation) resume(ctx context.Context) error {
	if r.cfg.BusinessDate == "" || r.cfg.DryRun {
		return nil
	}
	var id, text string
	err := r.clickhouse.QueryRow(ctx, `SELECT argMax(run_id, at), argMax(result, at) FROM reconciliation_slices WHERE slice = @progress AND at > @since AND run_id IN (
		SELECT run_id FROM reconciliation_runs FINAL WHERE business_date = toDate(@date) AND verdict = 'could_not_tell' AND NOT dry_run AND mode = @mode)`,
		clickhouse.Named("progress", uint32(progressSlice)), clickhouse.DateNamed("since", time.Now().Add(-resumeMax), clickhouse.MilliSeconds),
		clickhouse.Named("date", r.cfg.BusinessDate), clickhouse.Named("mode", r.mode())).Scan(&id, &text)
	if err != nil {
		return fmt.Errorf("look for a run that was stopped: %w", err)
	}
	if id == "" {
		return nil
	}
	p := &progress{}
	if err := json.Unmarshal([]byte(text), p); err != nil || len(p.Scans) != r.cfg.Kafka.Shards {
		return nil //nolint:nilerr // of another version or size: start over
	}
	r.resumed, r.id, r.report.RunID, r.report.Resumed, r.report.Started = p, id, id, true, p.Started
	// Its versions go on above those of its earlier life.
	if err := r.clickhouse.QueryRow(ctx, "SELECT max(version) FROM reconciliation_runs WHERE run_id = @run", clickhouse.Named("run", id)).Scan(&r.version); err != nil {
		return fmt.Errorf("look for a run that was stopped: %w", err)
	}
	return nil
}

// restoreScans puts the readings of the run's earlier life in the place of new ones.
func (r *reconciliation) restoreScans() {
	r.scans, r.trouble = make([]*scan, len(r.resumed.Scans)), make([]*Break, len(r.resumed.Scans))
	for shard, s := range r.resumed.Scans {
		r.scans[shard] = &scan{
			shard: shard, generation: s.Generation, start: s.Start, end: s.End, redisEnd: s.Redis, since: s.Since, unlogged: s.Unlogged,
			unreadable: s.Unreadable, log: logEnd{head: s.LogEnd, offset: s.Offset},
		}
		r.trouble[shard] = s.Trouble
	}
	for _, b := range r.resumed.Projected {
		r.add(b)
	}
}

func (r *reconciliation) mode() string {
	if r.cfg.Incremental {
		return "incremental"
	}
	return "full"
}
