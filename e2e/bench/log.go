package bench

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/e2e/stack"
)

// logRound is how many commands one figure of Log covers.
const logRound = 1_000_000

// Log measures the hot account until its log has so many events, million by million, on Apache Kafka, which keeps them on disk. Redis remembers all of
// them, so 50 million take some 10 GiB of memory.
func Log(ctx context.Context, events int, report *Report) error {
	if events < logRound || events%logRound != 0 {
		return fmt.Errorf("a log of %d events: whole millions are possible", events)
	}
	return withRedis(ctx, apachePath, func(e *stack.Engines, rdb *redis.Client) error {
		first := "log_" + short(logRound)
		_, err := hotRounds(ctx, e.Environ, rdb, logRound, events/logRound, func(round int, l Load) {
			figure := Figure{Name: "log_" + short(round*logRound), Value: l.PerSecond, Unit: "commands/s"}
			if round > 1 {
				figure.Reference = first
			}
			report.Add(figure)
		})
		return err
	})
}
