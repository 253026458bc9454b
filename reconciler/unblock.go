package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/hotledger/hotledger/lua"
)

// readAll reads every shard. Where ClickHouse does not get there, the cause may be what ClickHouse has already: the projector refuses to
// go on from rows that are not whole. So those are held against Kafka and written again, and the next run can tell.
func (r *reconciliation) readAll(ctx context.Context) error {
	err := r.read(ctx)
	if !errors.Is(err, errBarrier) || ctx.Err() != nil {
		return err
	}
	if unblockErr := r.unblock(ctx); unblockErr != nil {
		return errors.Join(err, unblockErr)
	}
	if n := r.report.BreaksFound; n > 0 {
		return fmt.Errorf("%w; ClickHouse had wrong rows, of which %s, and the projector goes on from there", err, r.report.handled())
	}
	return err
}

// unblock holds the rows of ClickHouse, as far as it is, against Kafka, and projects again what is wrong.
func (r *reconciliation) unblock(ctx context.Context) error {
	r.scans, r.trouble = make([]*scan, r.cfg.Kafka.Shards), make([]*Break, r.cfg.Kafka.Shards)
	for shard := range r.scans {
		position, _, err := r.projected(ctx, shard)
		if err != nil {
			return err
		}
		end, err := r.readEnd(ctx, shard)
		if err != nil {
			return err
		}
		r.scans[shard] = &scan{shard: shard, log: end, end: lua.Head{Position: min(position, end.head.Position)}}
	}
	if err := r.checkLog(ctx); err != nil {
		return err
	}
	for shard := range r.doubts {
		for _, b := range append(r.doubts[shard].log, r.doubts[shard].projection...) {
			r.add(b)
		}
	}
	if err := r.classify(ctx); err != nil {
		return err
	}
	if err := r.writeListed(ctx); err != nil {
		return err
	}
	return r.writeProjected(ctx)
}
