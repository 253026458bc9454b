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
	Lasting  time.Duration // of each figure of one engine alone
	Commands int           // of the whole path
	Kept     int           // accounts, and command ids, of the memory figures
	Rebuilt  []int         // accounts of each rebuild; ClickHouse is started for it
	Compared []int         // accounts of each reconciliation, with ten events each; likewise
}

// The two sizes.
var (
	Quick = Size{Lasting: 2 * time.Second, Commands: 100_000, Kept: 20_000}
	Full  = Size{Lasting: 15 * time.Second, Commands: 2_000_000, Kept: 500_000, Rebuilt: []int{5_000, 50_000, 500_000},
		Compared: []int{10_000, 1_000_000}}
)

const (
	// depth is how many commands go to Redis in one round trip, for every figure alike.
	depth = 500
	// clients that wait for each answer, where a reference works like that.
	clients = 50
)

// bench is one run on private engines.
type bench struct {
	size    Size
	engines *stack.Engines
	rdb     *redis.Client
	report  *Report
}

// Run measures everything and prints it.
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
	rdb := redis.NewClient(&redis.Options{Addr: engines.Redis.Addr(), MaxRetries: -1, ReadTimeout: time.Minute, PoolSize: clients})
	defer func() { _ = rdb.Close() }()
	b := &bench{size: size, engines: engines, rdb: rdb, report: NewReport(out)}
	b.report.Note("one account; %d commands to a round trip, or %d clients that wait for each answer; engines and load on the same cores", depth, clients)
	for _, step := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"literature_script", b.literature}, {"watch_multi", b.watchMulti}, {"postgres_for_update", b.postgres},
		{"apply", b.apply}, {"hot_account", b.hotAccount}, {"memory", b.memory},
	} {
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		if err := step.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	for _, accounts := range size.Rebuilt {
		if err := Rebuild(ctx, accounts, b.report); err != nil {
			return fmt.Errorf("rebuild of %d accounts: %w", accounts, err)
		}
	}
	for _, accounts := range size.Compared {
		if err := Reconcile(ctx, accounts, b.report); err != nil {
			return fmt.Errorf("reconciliation of %d accounts: %w", accounts, err)
		}
	}
	return nil
}

func (b *bench) literature(ctx context.Context) error {
	value, err := Literature(ctx, b.rdb, depth, b.size.Lasting)
	b.report.Add(Figure{Name: "literature_script", Value: value, Unit: "commands/s"})
	return err
}

func (b *bench) watchMulti(ctx context.Context) error {
	value, err := WatchMulti(ctx, b.rdb, clients, b.size.Lasting)
	b.report.Add(Figure{Name: "watch_multi", Value: value, Unit: "commands/s", Reference: "literature_script"})
	return err
}

func (b *bench) postgres(ctx context.Context) error {
	value, err := PostgresForUpdate(ctx, clients, b.size.Lasting)
	b.report.Add(Figure{Name: "postgres_for_update", Value: value, Unit: "commands/s", Reference: "literature_script"})
	return err
}

func (b *bench) apply(ctx context.Context) error {
	value, err := Apply(ctx, lua.New(b.rdb), depth, b.size.Lasting)
	b.report.Add(Figure{Name: "apply", Value: value, Unit: "commands/s", Reference: "literature_script"})
	return err
}

func (b *bench) hotAccount(ctx context.Context) error {
	value, err := HotAccount(ctx, b.engines.Environ, b.size.Commands)
	b.report.Add(Figure{Name: "hot_account", Value: value, Unit: "commands/s", Reference: "literature_script"})
	b.report.Add(Figure{Name: "hot_account_beside_postgres", Value: value, Unit: "commands/s", Reference: "postgres_for_update"})
	return err
}

func (b *bench) memory(ctx context.Context) error {
	account, id, err := Memory(ctx, b.rdb, b.size.Kept)
	b.report.Add(Figure{Name: "bytes_per_account", Value: account, Unit: "bytes"})
	b.report.Add(Figure{Name: "bytes_per_command_id", Value: id, Unit: "bytes"})
	return err
}
