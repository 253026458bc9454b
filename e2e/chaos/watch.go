package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/reconciler"
)

// watch reconciles the ledger again and again, through the same spoiled connections as the services and with the built-in policy, until ctx ends.
// Runs from the beginning of the log and incremental ones take turns. No fault changes an account without the log, or the log, or a row: whatever
// a run says of those, and whatever it would repair, is a false alarm. That it could not tell is no violation.
func (w *world) watch(ctx context.Context) {
	var cfg reconciler.Config
	if err := config.Load("reconciler", &cfg, nil, append(w.spoiled, "KAFKA_CLIENT_ID=reconciler")); err != nil {
		w.complain("configure the reconciler: %v", err)
		return
	}
	for n := 0; ctx.Err() == nil; n++ {
		cfg.Incremental = n%2 == 1
		began := time.Now()
		report, err := w.reconcileOnce(ctx, cfg)
		if err != nil && !errors.Is(err, reconciler.ErrCouldNotTell) {
			w.complain("reconcile: %v", err)
			return
		}
		if ctx.Err() != nil {
			return
		}
		w.runs[report.Verdict]++
		w.note("reconciliation %d: %s %s", n, report.Verdict, report.Why)
		for _, b := range report.Breaks {
			if !w.explained(b, report) {
				w.complain("false alarm of run %d, begun at %.3f s: %s", n, began.Sub(w.started).Seconds(), describeBreak(b))
			}
		}
		w.sleep(ctx, watchPause)
	}
}

// watchPause lets the machine breathe between two runs.
const watchPause = 300 * time.Millisecond

func (w *world) reconcileOnce(ctx context.Context, cfg reconciler.Config) (*reconciler.Report, error) {
	r, err := reconciler.New(cfg, zap.NewNop(), nil)
	if err != nil {
		return nil, err
	}
	report, err := r.Run(ctx)
	return report, errors.Join(err, r.Close())
}

// explained tells whether a break is the work of a fault: a whole shard that Redis has put back and whose writer has not brought it forward yet, or
// that a writer left ahead of the log, and what follows from that for its accounts. Both pass, as the last run of the seed shows, so a repair is
// none of the reconciler's business.
func (w *world) explained(b *reconciler.Break, report *reconciler.Report) bool {
	switch {
	case b.Class == reconciler.DeadLettersUnattended: // the workload sends poison on purpose
		return true
	case b.Compensation != nil:
		return false
	case b.Account != "":
		return slices.ContainsFunc(report.Breaks, func(whole *reconciler.Break) bool {
			return whole.Shard == b.Shard && whole.Account == "" && whole.Class != reconciler.DeadLettersUnattended && w.explained(whole, report)
		})
	}
	return b.Class == reconciler.RedisAhead || b.Class == reconciler.RedisBehind && w.plan.Forgets()
}

func describeBreak(b *reconciler.Break) string {
	return fmt.Sprintf("%s shard %d account %q: %s; redis %v, log %v, %v", b.Class, b.Shard, b.Account, b.Detail, b.Redis, b.Log, b.Compensation)
}
