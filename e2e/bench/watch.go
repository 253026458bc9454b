package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// WatchMulti debits one account optimistically: WATCH, GET, compare, MULTI, DECRBY, EXEC, again when somebody else was faster. clients at once,
// for about the given time. Debits of 1 that succeeded per second.
func WatchMulti(ctx context.Context, rdb *redis.Client, clients int, lasting time.Duration) (perSecond float64, err error) {
	const account, funds = "watch:balance", 1_000_000_000
	if err := rdb.Set(ctx, account, funds, 0).Err(); err != nil {
		return 0, err
	}
	debit := func(tx *redis.Tx) error {
		balance, err := tx.Get(ctx, account).Int64()
		if err != nil {
			return err
		}
		if balance < 1 {
			return errors.New("out of funds")
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.DecrBy(ctx, account, 1)
			return nil
		})
		return err
	}
	var done atomic.Int64
	start := time.Now()
	var group errgroup.Group
	for range clients {
		group.Go(func() error {
			for time.Since(start) < lasting {
				switch err := rdb.Watch(ctx, debit, account); {
				case err == nil:
					done.Add(1)
				case !errors.Is(err, redis.TxFailedErr):
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	took := time.Since(start)
	balance, err := rdb.Get(ctx, account).Int64()
	if err != nil {
		return 0, err
	}
	if balance != funds-done.Load() {
		return 0, fmt.Errorf("balance %d after %d debits", balance, done.Load())
	}
	return float64(done.Load()) / took.Seconds(), nil
}
