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
		return hotRounds(ctx, e.Environ, rdb, logRound, events/logRound, func(round int, l Load) { report.Add(logFigure(round, logRound, l)) })
	})
}

// log measures the same on the embedded Kafka: the first round and the last.
func (b *bench) log(ctx context.Context) error {
	return withRedis(ctx, onePath, func(e *stack.Engines, rdb *redis.Client) error {
		return hotRounds(ctx, e.Environ, rdb, b.size.Commands, b.size.Rounds, func(round int, l Load) {
			if round == 1 || round == b.size.Rounds {
				b.report.Add(logFigure(round, b.size.Commands, l))
			}
		})
	})
}

// logFigure is how fast a round of so many commands went, named by how long it left the log; later ones beside the first.
func logFigure(round, commands int, l Load) Figure {
	name := func(round int) string { return "log_" + short(round*commands) }
	f := Figure{Name: name(round), Value: l.PerSecond, Unit: "commands/s"}
	if round > 1 {
		f.Reference = name(1)
	}
	return f
}
