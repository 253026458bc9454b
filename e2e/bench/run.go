package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
)

// Size is how long and how much.
type Size struct {
	Lasting  time.Duration // of each figure of Redis alone
	Commands int           // of the whole path
}

// The two sizes.
var (
	Quick = Size{Lasting: 2 * time.Second, Commands: 100_000}
	Full  = Size{Lasting: 15 * time.Second, Commands: 2_000_000}
)

// depth is how many commands go to Redis in one round trip, for every figure alike.
const depth = 500

// Run measures everything on private engines and prints it.
func Run(ctx context.Context, size Size, out io.Writer) error {
	dir, err := os.MkdirTemp("", "hotledger-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engines, err := stack.Start(ctx, stack.Options{Shards: 1, Kafka: true, Redis: true, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { _ = engines.Close() }()
	rdb := redis.NewClient(&redis.Options{Addr: engines.Redis.Addr(), MaxRetries: -1, ReadTimeout: time.Minute})
	defer func() { _ = rdb.Close() }()

	report := NewReport(out)
	report.Note("one account, %d commands to a round trip, engines and load on the same cores", depth)
	literature, err := Literature(ctx, rdb, depth, size.Lasting)
	if err != nil {
		return fmt.Errorf("literature_script: %w", err)
	}
	report.Add(Figure{Name: "literature_script", Value: literature, Unit: "commands/s"})
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	apply, err := Apply(ctx, lua.New(rdb), depth, size.Lasting)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	report.Add(Figure{Name: "apply", Value: apply, Unit: "commands/s", Reference: "literature_script"})
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	hot, err := HotAccount(ctx, engines.Environ, size.Commands)
	if err != nil {
		return fmt.Errorf("hot_account: %w", err)
	}
	report.Add(Figure{Name: "hot_account", Value: hot, Unit: "commands/s", Reference: "literature_script"})
	return nil
}
