package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/hotledger/hotledger/lua"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// How often ClickHouse is asked whether it is there yet: one projection read of milliseconds.
const barrierPoll = 100 * time.Millisecond

// The pause between two readings of a shard, times their number: a recovery takes about a second.
const rescanPause = 300 * time.Millisecond

// shardsAtOnce bounds connections and memory, not correctness.
const shardsAtOnce = 4

// headsPerQuery keeps a query's text below ClickHouse's default of 256 KiB.
const headsPerQuery = 5000

// read reads every shard and waits until ClickHouse has what was read.
func (r *reconciliation) read(ctx context.Context) error {
	if r.resumed != nil {
		r.restoreScans()
		return nil
	}
	r.scans = make([]*scan, r.cfg.Kafka.Shards)
	r.trouble = make([]*Break, r.cfg.Kafka.Shards)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(shardsAtOnce)
	for shard := range r.scans {
		group.Go(func() error { return r.readShard(ctx, shard) }) // ends with ctx
	}
	return group.Wait()
}

// readShard repeats snapshot and barrier until a reading stands on the log, ScansMax times at most.
func (r *reconciliation) readShard(ctx context.Context, shard int) error {
	var since time.Time
	for attempt := 1; ; attempt++ {
		since = laterThan(since.Add(time.Millisecond))
		err := r.readOnce(ctx, shard, since)
		if err == nil || ctx.Err() != nil || attempt == r.cfg.ScansMax || errors.Is(err, errBarrier) {
			return err
		}
		r.logger.Info("shard is read again", zap.Int("shard", shard), zap.Int("attempt", attempt), zap.Error(err))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(attempt) * rescanPause):
		}
	}
}

func (r *reconciliation) readOnce(ctx context.Context, shard int, since time.Time) error {
	// What ClickHouse has was in Kafka before, and what Kafka has was in Redis before: read in this order, each must reach at least as far
	// as the one before it, however much traffic there is.
	projected, projectedAt, err := r.projected(ctx, shard)
	if err != nil {
		return err
	}
	logEnd, err := r.readEnd(ctx, shard)
	if err != nil {
		return err
	}
	s, err := r.snapshot(ctx, shard, since)
	if err != nil {
		return err
	}
	s.log = logEnd
	if logEnd.head.Position > projected && projected > 0 { // without any row there is no time to tell the delay from
		s.late = logEnd.at.Sub(projectedAt)
	}
	if err := r.await(ctx, s); err != nil {
		return err
	}
	if err := r.standsOnLog(ctx, s); err != nil {
		return err
	}
	r.scans[shard] = s
	r.trouble[shard] = s.standsWhere(projected)
	return nil
}

// standsWhere compares how far the three engines are with a shard; nil where each has what the one before had.
func (s *scan) standsWhere(projected uint64) *Break {
	b := &Break{Shard: s.shard, Action: Stop}
	last := s.log.head.Position
	switch {
	case projected > last:
		b.Class = LogTruncated
		b.Detail = fmt.Sprintf("Kafka ends at position %d, ClickHouse has position %d: the log lost its end", last, projected)
	case last > s.start.Position:
		b.Class = RedisBehind
		b.Detail = fmt.Sprintf("Redis stands at position %d, the log at %d: the ledger-writer replays the tail when it owns the shard", s.start.Position, last)
	case s.unlogged:
		b.Class = RedisAhead
		b.Detail = fmt.Sprintf("Redis stands at position %d, the log ends at %d and does not move: what Redis decided was never published; "+
			"the ledger-writer publishes its outbox or rebuilds the shard when it recovers it", s.redisEnd.Position, s.end.Position)
	default:
		return nil
	}
	return b
}

// errBarrier says that ClickHouse did not get there in time.
var errBarrier = errors.New("ClickHouse is behind")

// await waits until ClickHouse has what Kafka had before the reading, and the position that Redis stood at after it. Every change that
// the reading can contain is at or below it, so from here on "not in ClickHouse" means "not in the log", and not "not yet".
func (r *reconciliation) await(ctx context.Context, s *scan) error {
	waiting, cancel := context.WithTimeoutCause(ctx, r.cfg.BarrierTimeout, errBarrier)
	defer cancel()
	s.redisEnd = s.end
	for {
		position, _, err := r.projected(waiting, s.shard)
		if err == nil && position >= max(s.end.Position, s.log.head.Position) {
			return nil
		}
		if err == nil {
			select {
			case <-time.After(barrierPoll):
				continue
			case <-waiting.Done():
			}
		}
		if cause := context.Cause(waiting); errors.Is(cause, errBarrier) {
			return r.blame(ctx, s, position)
		} else if cause != nil {
			return cause
		}
		return err
	}
}

// blame tells a projector that is late from a ledger-writer that never published: the log itself is below Redis's position, and
// ClickHouse has all of the log.
func (r *reconciliation) blame(ctx context.Context, s *scan, position uint64) error {
	end, err := r.readEnd(ctx, s.shard)
	if err != nil {
		return err
	}
	if end.head.Position < s.end.Position && position >= end.head.Position {
		s.unlogged, s.end = true, end.head
		return nil
	}
	return fmt.Errorf("%w: shard %d stands at position %d in Redis, at %d in the log and at %d in ClickHouse after %s; is the projector running?",
		errBarrier, s.shard, s.end.Position, end.head.Position, position, r.cfg.BarrierTimeout)
}

// projected is the last position of a shard in ClickHouse, 0 for none, and when the log took it.
func (r *reconciliation) projected(ctx context.Context, shard int) (uint64, time.Time, error) {
	var position uint64
	var at time.Time
	err := r.clickhouse.QueryRow(ctx, "SELECT max(position), max(log_time) FROM events WHERE shard = @shard", clickhouse.Named("shard", shard)).Scan(&position, &at)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("read how far ClickHouse is with shard %d: %w", shard, err)
	}
	return position, at, nil
}

// standsOnLog checks that every head that a page was read at is in the log, with its chain. Redis may hold changes that are not
// committed; if it loses them in a failover, other commands take their positions. A page read in between would be compared with
// events that it never saw. The chain tells: the log has another one at that position.
//
// A head of which ClickHouse has no event at all is a hole below the barrier: that is a LOG_GAP, found in check.go.
func (r *reconciliation) standsOnLog(ctx context.Context, s *scan) error {
	for heads := range slices.Chunk(s.heads, headsPerQuery) {
		chains, err := r.headsAt(ctx, s.shard, heads)
		if err != nil {
			return err
		}
		for _, head := range heads {
			if s.unlogged && head.Position > s.end.Position {
				continue // not in the log, which is what the break says
			}
			logged := chains[head.Position]
			if head.Position == 0 {
				logged = []string{lua.Genesis.Chain}
			}
			if len(logged) > 0 && !slices.Contains(logged, head.Chain) {
				return fmt.Errorf("shard %d: %w: it stood at %s, which is not in the log; a fork unless the ledger-writer is just recovering",
					s.shard, errChanged, head)
			}
		}
	}
	return nil
}

// headsAt reads the chains that the log has at the positions of heads; zeros in the middle of a call, where no Redis of this ledger ever was.
func (r *reconciliation) headsAt(ctx context.Context, shard int, heads []lua.Head) (map[uint64][]string, error) {
	positions := make([]string, len(heads))
	for i, head := range heads {
		positions[i] = fmt.Sprint(head.Position)
	}
	rows, err := r.clickhouse.Query(ctx,
		"SELECT position, lower(hex(head)) FROM events WHERE shard = @shard AND position IN ("+strings.Join(positions, ",")+")",
		clickhouse.Named("shard", shard))
	if err != nil {
		return nil, fmt.Errorf("read heads of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	chains := map[uint64][]string{}
	for rows.Next() {
		var position uint64
		var chain string
		if err := rows.Scan(&position, &chain); err != nil {
			return nil, fmt.Errorf("read heads of shard %d: %w", shard, err)
		}
		chains[position] = append(chains[position], chain)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read heads of shard %d: %w", shard, err)
	}
	return chains, nil
}
