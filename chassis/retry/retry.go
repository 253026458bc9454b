// Package retry is the one backoff policy: exponential with jitter, without an end of its own. What must not be retried
// is marked Permanent; how long to go on is the context's business.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"
)

const (
	// delayFirst is about the time in which a Redis or a broker comes back from a dropped connection; shorter only
	// burns CPU, longer is felt by a caller who waits for an outcome.
	delayFirst = 50 * time.Millisecond
	// delayMax bounds how late a process notices that an engine is back after a long outage.
	delayMax = 5 * time.Second
	// growth reaches delayMax after seven tries: an engine that restarts is not stampeded.
	growth = 2.0
	// jitter spreads each delay over 50..150 %, so that many clients of one engine do not come back in step.
	jitter = 0.5
)

// Policy returns the backoff of one operation. It never stops on its own and is not for use by several goroutines.
func Policy() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(delayFirst),
		backoff.WithMaxInterval(delayMax),
		backoff.WithMultiplier(growth),
		backoff.WithRandomizationFactor(jitter),
		backoff.WithMaxElapsedTime(0), // 0 = no end: a ledger waits for its engines, the context says when to give up
	)
}

// Permanent marks an error that no repetition can heal; Do returns it at once, unmarked. Permanent(nil) is nil.
func Permanent(err error) error { return backoff.Permanent(err) }

// Do calls try until it returns nil, a Permanent error, or ctx ends. what names the attempt in present tense ("read
// head"), for the log and for the error, which wraps both the context's cause and the last error of try.
//
// Trouble is logged at warn for the tries 1, 2, 4, 8, ...: an outage of an hour leaves about ten lines, not thousands.
// The success after it is logged once.
func Do(ctx context.Context, logger *zap.Logger, what string, try func(ctx context.Context) error) error {
	var tries int
	var last error
	start := time.Now()
	err := backoff.RetryNotify(func() error {
		tries++
		err := try(ctx)
		if err != nil {
			last = err
		}
		return err
	}, backoff.WithContext(Policy(), ctx), func(err error, delay time.Duration) {
		if tries&(tries-1) == 0 {
			logger.Warn("attempt went wrong, retrying", zap.String("what", what), zap.Error(err),
				zap.Int("tries", tries), zap.Duration("next_in", delay))
		}
	})
	switch {
	case err == nil:
		if tries > 1 {
			logger.Info("attempt succeeded after retries", zap.String("what", what), zap.Int("tries", tries),
				zap.Duration("took", time.Since(start)))
		}
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		if last == nil || errors.Is(last, ctx.Err()) {
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
		return fmt.Errorf("%s: %w (tries %d, last error: %w)", what, context.Cause(ctx), tries, last)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
