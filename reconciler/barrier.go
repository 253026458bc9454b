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
	r.scans = make([]*scan, r.cfg.Kafka.Shards)
	r.behind = make([]*Break, r.cfg.Kafka.Shards)
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
	// What ClickHouse has now was in Redis earlier, so Redis's head, read after this, cannot be below it, unless Redis lost its tail.
	projected, err := r.projected(ctx, shard)
	if err != nil {
		return err
	}
	s, err := r.snapshot(ctx, shard, since)
	if err != nil {
		return err
	}
	if err := r.await(ctx, s); err != nil {
		return err
	}
	if err := r.standsOnLog(ctx, s); err != nil {
		return err
	}
	r.scans[shard], r.behind[shard] = s, nil
	if projected > s.start.Position {
		r.behind[shard] = &Break{
			Class: RedisBehind, Shard: shard, Action: Stop,
			Detail: fmt.Sprintf("Redis stands at position %d, the log at %d: the ledger-writer replays the tail when it owns the shard", s.start.Position, projected),
		}
	}
	return nil
}

// errBarrier says that ClickHouse did not get there in time.
var errBarrier = errors.New("ClickHouse is behind Redis")

// await waits until ClickHouse has the position that Redis stood at after the reading. Every change that the reading can contain is
// at or below it, so from here on "not in ClickHouse" means "not in the log", and not "not yet".
func (r *reconciliation) await(ctx context.Context, s *scan) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.BarrierTimeout, errBarrier)
	defer cancel()
	for {
		position, err := r.projected(ctx, s.shard)
		if err == nil && position >= s.end.Position {
			return nil
		}
		if err == nil {
			select {
			case <-time.After(barrierPoll):
				continue
			case <-ctx.Done():
			}
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: shard %d stands at position %d in Redis and at %d in ClickHouse after %s; is the projector running?",
				cause, s.shard, s.end.Position, position, r.cfg.BarrierTimeout)
		}
		return err
	}
}

// projected is the last position of a shard in ClickHouse, 0 for none.
func (r *reconciliation) projected(ctx context.Context, shard int) (uint64, error) {
	var position uint64
	err := r.clickhouse.QueryRow(ctx, "SELECT max(position) FROM events WHERE shard = @shard", clickhouse.Named("shard", shard)).Scan(&position)
	if err != nil {
		return 0, fmt.Errorf("read how far ClickHouse is with shard %d: %w", shard, err)
	}
	return position, nil
}

// standsOnLog checks that every head that a page was read at is in the log, with its chain. Redis may hold changes that are not
// committed; if it loses them in a failover, other commands take their positions. A page read in between would be compared with
// events that it never saw. The chain tells: the log has another one at that position.
//
// A head of which ClickHouse has no event at all is a hole below the barrier: that is a LOG_GAP, found in check.go.
func (r *reconciliation) standsOnLog(ctx context.Context, s *scan) error {
	for heads := range slices.Chunk(s.heads, headsPerQuery) {
		chains, err := r.chainsAt(ctx, s.shard, heads)
		if err != nil {
			return err
		}
		for _, head := range heads {
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

// chainsAt reads the chains that the log has at the positions of heads.
func (r *reconciliation) chainsAt(ctx context.Context, shard int, heads []lua.Head) (map[uint64][]string, error) {
	positions := make([]string, len(heads))
	for i, head := range heads {
		positions[i] = fmt.Sprint(head.Position)
	}
	rows, err := r.clickhouse.Query(ctx,
		"SELECT position, lower(hex(chain)) FROM events WHERE shard = @shard AND position IN ("+strings.Join(positions, ",")+")",
		clickhouse.Named("shard", shard))
	if err != nil {
		return nil, fmt.Errorf("read chains of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	chains := map[uint64][]string{}
	for rows.Next() {
		var position uint64
		var chain string
		if err := rows.Scan(&position, &chain); err != nil {
			return nil, fmt.Errorf("read chains of shard %d: %w", shard, err)
		}
		chains[position] = append(chains[position], chain)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read chains of shard %d: %w", shard, err)
	}
	return chains, nil
}
