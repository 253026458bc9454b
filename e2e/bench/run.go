package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/stack"
	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
)

// Size is how long and how much.
type Size struct {
	Lasting    time.Duration // of each figure of one engine alone, and of each rate of the latencies
	Turns      int           // of figures that take turns with their reference
	Turn       time.Duration // of each of one engine alone
	TurnCount  int           // commands of each of the whole path
	Commands   int           // of the whole path otherwise
	Rounds     int           // of as many commands each, on one account and one log
	Kept       int           // accounts, and command ids, of the memory figures
	Remembered []int         // accounts, and command ids, of a shard on which apply.lua is measured
	Accounts   int           // of the whole path over many
	Projected  int           // events
	Apache     bool          // latencies on the real Kafka, too
	Rebuilt    []int         // accounts of each rebuild; ClickHouse is started for it
	Compared   []int         // accounts of each reconciliation, with ten events each; likewise
}

// The two sizes.
var (
	Quick = Size{Lasting: 2 * time.Second, Turns: 2, Turn: time.Second, TurnCount: 50_000, Commands: 100_000, Rounds: 2, Kept: 20_000, Remembered: []int{2_000, 20_000},
		Accounts: 20_000, Projected: 100_000}
	Full = Size{Lasting: 10 * time.Second, Turns: 9, Turn: 2 * time.Second, TurnCount: 250_000, Commands: 1_000_000, Rounds: 10, Kept: 500_000,
		Remembered: []int{10_000, 1_000_000, 10_000_000}, Accounts: 1_000_000, Projected: 1_000_000, Apache: true, Rebuilt: []int{5_000, 50_000, 500_000}, Compared: []int{10_000, 1_000_000}}
)

const (
	// depth is how many commands go to Redis in one round trip, for every figure alike.
	depth = 500
	// clients that wait for each answer, where a reference works like that.
	clients = 50
)

// Figures that others are compared with.
const (
	literatureName = "literature_script"
	postgresName   = "postgres_for_update"
	hotName        = "hot_account"
)

// bench is one run on private engines.
type bench struct {
	size   Size
	rdb    *redis.Client
	report *Report
}

// figures are the steps of a run, in their order: references first.
var figures = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{literatureName, (*bench).literature}, {"watch_multi", (*bench).watchMulti}, {postgresName, (*bench).postgres},
	{"apply", (*bench).apply}, {"verbs", (*bench).verbs}, {hotName, (*bench).hotAccount}, {"memory", (*bench).memory}, {"grown", (*bench).grown},
	{"log", (*bench).log},
	{"zipf_accounts", (*bench).zipf}, {"latency", (*bench).latency}, {"projector", (*bench).projector}, {"shards", (*bench).shards},
	{"rebuild", (*bench).rebuild}, {"reconcile", (*bench).reconcile},
}

// Run measures everything, or only some steps of it, and prints it. The garbage collector works as in a writer's own process, for the references, too.
func Run(ctx context.Context, size Size, only []string, out io.Writer) error {
	defer run.TuneGC(writer.GCPercent)()
	dir, err := os.MkdirTemp("", "hotledger-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := sandbox.StartRedis(ctx, sandbox.RedisOptions{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ReadTimeout: time.Minute, PoolSize: clients})
	defer func() { _ = rdb.Close() }()
	b := &bench{size: size, rdb: rdb, report: NewReport(out)}
	engine, err := engineOf(ctx, rdb)
	if err != nil {
		return err
	}
	b.report.Note("%s; one account; %d commands to a round trip, or %d clients that wait for each answer; engines and load on the same cores", engine, depth, clients)
	for _, step := range figures {
		if len(only) > 0 && !slices.Contains(only, step.name) {
			continue
		}
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		if err := step.measure(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// engineOf names the Redis, or what takes its place, with its version.
func engineOf(ctx context.Context, rdb *redis.Client) (string, error) {
	info := rdb.InfoMap(ctx, "server")
	if valkey := info.Item("Server", "valkey_version"); valkey != "" {
		return "Valkey " + valkey, info.Err()
	}
	return "Redis " + info.Item("Server", "redis_version"), info.Err()
}

// with starts engines of one step's own, and ends them after it.
func with(ctx context.Context, o stack.Options, measure func(*stack.Engines) error) (err error) {
	if o.Dir, err = os.MkdirTemp("", "hotledger-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(o.Dir) }()
	engines, err := stack.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	return measure(engines)
}

// withRedis is with, and a client of the Redis.
func withRedis(ctx context.Context, o stack.Options, measure func(*stack.Engines, *redis.Client) error) error {
	return with(ctx, o, func(e *stack.Engines) error {
		rdb := redis.NewClient(&redis.Options{Addr: e.Redis.Addr()})
		defer func() { _ = rdb.Close() }()
		return measure(e, rdb)
	})
}

func (b *bench) literature(ctx context.Context) error {
	l, err := newLiterature(ctx, b.rdb, depth)
	if err != nil {
		return err
	}
	value, err := l.measure(ctx, b.size.Lasting)
	b.report.Add(Figure{Name: literatureName, Value: value, Unit: "commands/s"})
	return err
}

func (b *bench) watchMulti(ctx context.Context) error {
	value, err := WatchMulti(ctx, b.rdb, clients, b.size.Lasting)
	b.report.Add(Figure{Name: "watch_multi", Value: value, Unit: "commands/s", Reference: literatureName})
	return err
}

func (b *bench) postgres(ctx context.Context) error {
	p, err := startPostgres(ctx, clients)
	if err != nil {
		return err
	}
	defer p.stop()
	value, err := p.measure(ctx, b.size.Lasting)
	b.report.Add(Figure{Name: postgresName, Value: value, Unit: "commands/s", Reference: literatureName})
	return err
}

func (b *bench) apply(ctx context.Context) error {
	l, err := newLiterature(ctx, b.rdb, depth)
	if err != nil {
		return err
	}
	a, err := newHotApplier(ctx, lua.New(b.rdb), depth)
	if err != nil {
		return err
	}
	took, err := takeTurns(ctx, b.size.Turns, contender{literatureName, perSecond(l.measure, b.size.Turn)}, contender{"apply", perSecond(a.hotDebits, b.size.Turn)})
	if err != nil {
		return err
	}
	b.report.Compare("apply", took["apply"], literatureName, took[literatureName])
	return nil
}

// hotAccount takes turns with both references.
func (b *bench) hotAccount(ctx context.Context) error {
	l, err := newLiterature(ctx, b.rdb, depth)
	if err != nil {
		return err
	}
	p, err := startPostgres(ctx, clients)
	if err != nil {
		return err
	}
	defer p.stop()
	return b.withHot(ctx, func(hot *hotPath) error {
		took, err := takeTurns(ctx, b.size.Turns,
			contender{literatureName, perSecond(l.measure, b.size.Turn)}, contender{postgresName, perSecond(p.measure, b.size.Turn)}, contender{hotName, hot.round})
		if err != nil {
			return err
		}
		bytes, err := hot.verify(ctx)
		if err != nil {
			return err
		}
		b.report.Compare("hot_account_beside_postgres", took[hotName], postgresName, took[postgresName])
		b.report.Compare(hotName, took[hotName], literatureName, took[literatureName])
		b.unitCosts(hotName, took[hotName])
		b.report.Add(Figure{Name: "hot_account_event", Value: float64(bytes) / float64(hot.done+2), Unit: "bytes"})
		return nil
	})
}

// withHot starts engines and the path on one account, and ends them after it.
func (b *bench) withHot(ctx context.Context, measure func(*hotPath) error) error {
	return withRedis(ctx, onePath, func(e *stack.Engines, rdb *redis.Client) (err error) {
		hot, err := startHot(ctx, e.Environ, rdb, b.size.TurnCount)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, hot.close()) }()
		return measure(hot)
	})
}

// unitCosts are the CPU of the turns of a path, per command.
func (b *bench) unitCosts(name string, turns []Load) {
	perCommand := func(spent func(Load) time.Duration) float64 {
		return median(sorted(turns, func(i int) float64 { return float64(spent(turns[i]).Microseconds()) / float64(b.size.TurnCount) }))
	}
	b.report.Add(Figure{Name: name + "_redis", Value: perCommand(func(l Load) time.Duration { return l.Redis }), Unit: "us/command"})
	b.report.Add(Figure{Name: name + "_go", Value: perCommand(func(l Load) time.Duration { return l.CPU }), Unit: "us/command"})
}

// What the whole path on one shard needs, on either Kafka.
var (
	onePath    = stack.Options{Shards: 1, Kafka: true, Redis: true}
	apachePath = stack.Options{Shards: 1, Kafka: true, Redis: true, Apache: true}
)

func (b *bench) memory(ctx context.Context) error {
	account, id, err := Memory(ctx, b.rdb, b.size.Kept)
	b.report.Add(Figure{Name: "bytes_per_account", Value: account, Unit: "bytes"})
	b.report.Add(Figure{Name: "bytes_per_command_id", Value: id, Unit: "bytes"})
	return err
}

func (b *bench) grown(ctx context.Context) error {
	reference := ""
	for _, accounts := range b.size.Remembered {
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		alike, byZipf, err := Grown(ctx, b.rdb, accounts, b.size.Lasting)
		if err != nil {
			return err
		}
		name := "apply_alike_" + short(accounts)
		b.report.Add(Figure{Name: name, Value: alike, Unit: "commands/s", Reference: reference})
		b.report.Add(Figure{Name: "apply_zipf_" + short(accounts), Value: byZipf, Unit: "commands/s", Reference: "apply"})
		if reference == "" {
			reference = name
		}
	}
	return nil
}

// short writes 10k for 10,000.
func short(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%dm", n/1_000_000)
	case n >= 1_000 && n%1_000 == 0:
		return fmt.Sprintf("%dk", n/1_000)
	}
	return strconv.Itoa(n)
}

// zipf takes turns with the hot account: one shard with one writer, as that has, and then what a Redis of many accounts would have, several shards and more
// writers.
func (b *bench) zipf(ctx context.Context) error {
	for _, s := range []scale{{1, 1}, {4, 2}} {
		path, name := onePath, "zipf_accounts"
		if path.Shards = s.shards; s.shards > 1 {
			name = fmt.Sprintf("%s_shards_%d_writers_%d", name, s.shards, s.writers)
		}
		err := b.withHot(ctx, func(hot *hotPath) error {
			return withRedis(ctx, path, func(e *stack.Engines, rdb *redis.Client) error {
				zipf, err := startZipf(ctx, e.Environ, rdb, s.writers, b.size.Accounts, b.size.TurnCount)
				if err != nil {
					return err
				}
				return errors.Join(b.beside(ctx, hot, name, zipf), zipf.close())
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) beside(ctx context.Context, hot *hotPath, name string, zipf *zipfPath) error {
	took, err := takeTurns(ctx, b.size.Turns, contender{hotName, hot.round}, contender{name, zipf.round})
	if err != nil {
		return err
	}
	if err := zipf.verify(ctx); err != nil {
		return err
	}
	b.report.Compare(name, took[name], hotName, took[hotName])
	b.unitCosts(name, took[name])
	return nil
}

func (b *bench) latency(ctx context.Context) error {
	measure := func(kafka string) func(*stack.Engines) error {
		return func(e *stack.Engines) error { return Latency(ctx, e.Environ, kafka, b.size.Lasting, b.report) }
	}
	if err := with(ctx, onePath, measure("kfake")); err != nil || !b.size.Apache {
		return err
	}
	return with(ctx, apachePath, measure("apache"))
}

func (b *bench) projector(ctx context.Context) error {
	return withRedis(ctx, stack.Options{Shards: 1, Redis: true, ClickHouse: true}, func(e *stack.Engines, rdb *redis.Client) error {
		p, err := Projector(ctx, e, rdb, b.size.Projected)
		if err != nil {
			return err
		}
		b.report.Add(Figure{Name: "projector", Value: p.PerCore, Unit: "events/s/core", Reference: hotName})
		b.report.Add(Figure{Name: "projector_clickhouse", Value: p.ClickHouse, Unit: "us/event"})
		b.report.Note("projector: %.0f events/s, ClickHouse and Kafka on the same cores; the process held %d MiB at most", p.PerSecond, p.PeakMemory>>20)
		return nil
	})
}

func (b *bench) shards(ctx context.Context) error { return Shards(ctx, b.size.Commands, b.report) }

func (b *bench) rebuild(ctx context.Context) error {
	for _, accounts := range b.size.Rebuilt {
		if err := Rebuild(ctx, accounts, b.report); err != nil {
			return fmt.Errorf("%d accounts: %w", accounts, err)
		}
	}
	return nil
}

func (b *bench) reconcile(ctx context.Context) error {
	for _, accounts := range b.size.Compared {
		if err := Reconcile(ctx, accounts, b.report); err != nil {
			return fmt.Errorf("%d accounts: %w", accounts, err)
		}
	}
	return nil
}
