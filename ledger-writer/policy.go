package writer

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/redis"
)

// policyCheck is how often Redis is asked whether it would evict: a CONFIG SET, or a failover to a server with another configuration, is
// noticed so much later.
const policyCheck = 30 * time.Second

// watchPolicy looks at the eviction policy of every master until ctx ends. A writer does not stop because of it: what was evicted already
// is found by the scripts and rebuilt, and refusing all commands would not bring it back. But it is not ready, and says so.
func (w *Writer) watchPolicy(ctx context.Context) {
	ticker := time.NewTicker(w.policyCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.checkPolicy(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (w *Writer) checkPolicy(ctx context.Context) {
	err := redis.CheckPolicy(ctx, w.rdb)
	var policy *redis.PolicyError
	switch {
	case errors.As(err, &policy):
		w.evicting.Store(policy)
		w.metrics.evicting.Set(1)
		w.logger.Error("redis may evict balances", zap.Error(err))
	case err != nil: // not reachable just now: what was known last holds
		w.logger.Debug("eviction policy not checked", zap.Error(err))
	case w.evicting.Swap(nil) != nil:
		w.metrics.evicting.Set(0)
		w.logger.Info("redis no longer evicts")
	}
}

// policyReady is the readiness check.
func (w *Writer) policyReady(context.Context) error {
	if policy := w.evicting.Load(); policy != nil {
		return policy
	}
	return nil
}
