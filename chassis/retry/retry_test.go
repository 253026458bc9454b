package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hotledger/hotledger/chassis/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("engine is down")

func TestAttemptIsRepeatedUntilItSucceedsAndLoggedSparsely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a clock of its own: an outage of an hour in no time
		core, logs := observer.New(zap.DebugLevel)
		const tries = 700
		n := 0
		start := time.Now()
		err := retry.Do(t.Context(), zap.New(core), "read head", func(context.Context) error {
			if n++; n < tries {
				return errDown
			}
			return nil
		})
		if err != nil || n != tries {
			t.Fatalf("%d tries: %v", n, err)
		}
		if warned := logs.FilterLevelExact(zap.WarnLevel).Len(); warned != 10 { // 1, 2, 4 ... 512
			t.Errorf("warned %d times", warned)
		}
		if told := logs.FilterLevelExact(zap.InfoLevel).Len(); told != 1 {
			t.Errorf("told of the success %d times", told)
		}
		if mean := time.Since(start) / tries; mean > 7500*time.Millisecond || mean < 2500*time.Millisecond {
			t.Errorf("%s between tries of a long outage", mean)
		}
	})
}

func TestFirstSuccessIsSilent(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	if err := retry.Do(t.Context(), zap.New(core), "ping", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

func TestPermanentErrorIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	n := 0
	err := retry.Do(t.Context(), zap.NewNop(), "check policy", func(context.Context) error {
		n++
		return retry.Permanent(errDown)
	})
	if n != 1 || !errors.Is(err, errDown) || err.Error() != "check policy: engine is down" {
		t.Fatalf("%d tries: %v", n, err)
	}
	if retry.Permanent(nil) != nil {
		t.Error("Permanent(nil) is an error")
	}
}

func TestEndOfContextGivesItsCauseAndTheLastError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("received terminated")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		err := retry.Do(ctx, zap.NewNop(), "read head", func(context.Context) error { return errDown })
		if !errors.Is(err, cause) || !errors.Is(err, errDown) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestEndedContextIsTriedOnceAndNotRepeated(t *testing.T) {
	t.Parallel()
	cause := errors.New("received terminated")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	n := 0
	err := retry.Do(ctx, zap.NewNop(), "read head", func(ctx context.Context) error { n++; return ctx.Err() })
	if n != 1 || !errors.Is(err, cause) {
		t.Fatalf("%d tries: %v", n, err)
	}
}
