package writer

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// rebuild makes a shard anew from the log: beside the live keys, swapped at once (rules 15 and 16). An interrupted one begins again.
// A rebuild from ClickHouse at a position plus the log's tail belongs here too, once it exists.
func (w *Writer) rebuild(ctx context.Context, shard int, last lua.Head, end int64) error {
	build, err := w.store.BeginBuild(ctx, shard, newGeneration())
	if err != nil {
		return err
	}
	start, said := time.Now(), time.Now()
	err = w.log.after(ctx, shard, lua.Genesis, last, end, func(events []*ledgerv1.Event) error {
		if err := build.Add(ctx, events); err != nil {
			return err
		}
		hit(trapBuilding)
		if time.Since(said) > rebuildProgress {
			said = time.Now()
			w.logger.Info("rebuilding", zap.Int("shard", shard), zap.Uint64("position", build.Head().Position), zap.Uint64("of", last.Position))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if build.Head() != last {
		return fmt.Errorf("build of shard %d ends at %s, the log at %s", shard, build.Head(), last)
	}
	if err := build.Swap(ctx); err != nil {
		return err
	}
	hit(trapSwapped)
	took := time.Since(start)
	w.logger.Info("shard rebuilt", zap.Int("shard", shard), zap.Uint64("events", last.Position), zap.Duration("took", took),
		zap.Float64("events_per_second", float64(last.Position)/took.Seconds()))
	return nil
}
