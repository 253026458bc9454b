package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/hotledger/hotledger/lua"
)

// readAll reads every shard. Where ClickHouse does not get there, the cause may be what ClickHouse has already: the projector refuses to
// go on from rows that are not whole. So those are held against Kafka and written again, and the next run can tell. Or it is an event that
// the projector refuses: that is a break of the log.
func (r *reconciliation) readAll(ctx context.Context) error {
	err := r.read(ctx)
	if !errors.Is(err, errBarrier) || ctx.Err() != nil {
		return err
	}
	if unblockErr := r.unblock(ctx); unblockErr != nil {
		return errors.Join(err, unblockErr)
	}
	for shard := range r.doubts {
		if broken := r.doubts[shard].log; len(broken) > 0 {
			return fmt.Errorf("%w; the log is broken: %s", err, broken[0].Detail)
		}
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
	if err := r.checkLog(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	if err := r.lookAhead(ctx); err != nil {
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

// lookAhead checks what ClickHouse does not have yet: the projector may stand still at an event that is broken.
func (r *reconciliation) lookAhead(ctx context.Context) error {
	for shard, s := range r.scans {
		d := &r.doubts[shard]
		if d.inDoubt() {
			continue
		}
		ahead, err := r.readStream(ctx, shard, r.readings[shard].end, s.log.head.Position)
		if err != nil {
			return err
		}
		d.log = ahead.breaks
	}
	return nil
}
