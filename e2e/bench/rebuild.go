package bench

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/e2e/stack"
	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Rebuild measures how a shard of some accounts comes back after Redis lost everything: from the log alone, from ClickHouse, and, as the
// reference, with plain pipelined HSETs of the very same fields. Each account has two events, so there are three fields to two events.
// A rebuilt shard is compared field by field before its figure counts.
func Rebuild(ctx context.Context, accounts int, report *Report) (err error) {
	dir, err := os.MkdirTemp("", "hotledger-rebuild-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engines, err := stack.Start(ctx, stack.Options{Shards: 1, Kafka: true, Redis: true, ClickHouse: true, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	ledger, err := stack.Connect(engines, zap.NewNop(), "LEDGER_WRITER_REBUILD_FROM_CLICKHOUSE=true")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	r := &rebuildBench{ledger: ledger, events: 2 * accounts}
	if r.load.client, err = kafka.NewClient(ledger.Writer.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(r.events+2)); err != nil {
		return err
	}
	defer r.load.client.Close()
	r.load.group = ledger.Writer.Group
	if err := r.fill(ctx, accounts); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	report.Note("rebuild of a shard with %d accounts and %d events after Redis lost everything", accounts, r.events)
	plain, err := r.hset(ctx)
	if err != nil {
		return fmt.Errorf("hset_load: %w", err)
	}
	report.Add(Figure{Name: "hset_load", Value: plain, Unit: "events/s"})
	for _, from := range []string{writer.FromLog, writer.FromClickHouse} {
		done, err := r.rebuild(ctx, from)
		if err != nil {
			return fmt.Errorf("rebuild_%s: %w", from, err)
		}
		report.Add(Figure{Name: "rebuild_" + from, Value: float64(r.events) / done.Took.Seconds(), Unit: "events/s", Reference: "hset_load"})
		report.Note("rebuild_%s took %s: %.0f accounts/s", from, done.Took.Round(time.Millisecond), float64(accounts)/done.Took.Seconds())
		took, err := r.recovery(ctx, from)
		if err != nil {
			return fmt.Errorf("recovery_%s: %w", from, err)
		}
		report.Note("from the wipe to the next outcome, by the running writer, from %s: %s", from, took.Round(time.Millisecond))
	}
	return nil
}

type rebuildBench struct {
	ledger *stack.Ledger
	load   hotLoad
	events int
	sent   int64
	want   uint64 // digest of the shard
}

// fill opens and funds the accounts through a writer, and waits until a projector has brought all events to ClickHouse.
func (r *rebuildBench) fill(ctx context.Context, accounts int) error {
	if err := r.ledger.EnsureTopics(ctx); err != nil {
		return err
	}
	stopProjector, err := r.ledger.StartProjector()
	if err != nil {
		return err
	}
	stop, err := r.ledger.StartWriter()
	if err != nil {
		return err
	}
	for i := range r.events {
		c := command("command-"+strconv.Itoa(i), ledgerv1.Operation_OPERATION_OPEN, "")
		if c.Account = "account-" + strconv.Itoa(i%accounts); i >= accounts {
			c.Operation, c.Amount = ledgerv1.Operation_OPERATION_CREDIT, strconv.Itoa(1+i%997)
		}
		record, err := r.load.record(c)
		if err != nil {
			return err
		}
		r.load.client.Produce(ctx, record, nil) // a lost one shows in the count
	}
	r.sent = int64(r.events)
	if err := r.load.waitCommitted(ctx, r.sent); err != nil {
		return err
	}
	if err := r.ledger.AwaitProjected(ctx, []uint64{uint64(r.events)}); err != nil {
		return err
	}
	if err := errors.Join(stop(), stopProjector()); err != nil {
		return err
	}
	r.want, err = r.digest(ctx, func(string, string, string) {})
	return err
}

// digest sums up all fields of the shard's hashes, whatever their order, and shows each to see.
func (r *rebuildBench) digest(ctx context.Context, see func(key, field, value string)) (sum uint64, err error) {
	const page = 5000
	fields := 0
	for _, key := range []string{lua.AccountsKey(0), lua.OutcomesKey(0)} {
		all := map[string]string{} // HSCAN may give a field twice
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var pairs []string
			if pairs, cursor, err = r.ledger.Redis.HScan(ctx, key, cursor, "", page).Result(); err != nil {
				return 0, err
			}
			for i := 0; i < len(pairs); i += 2 {
				all[pairs[i]] = pairs[i+1]
			}
		}
		for field, value := range all {
			h := fnv.New64a()
			_, _ = h.Write([]byte(key + "\n" + field + "\n" + value))
			sum += h.Sum64()
			see(key, field, value)
		}
		fields += len(all)
	}
	if fields < r.events {
		return 0, fmt.Errorf("%d fields for %d events", fields, r.events)
	}
	return sum, nil
}

// hset is the reference: the same fields, one HSET each, depth of them to a round trip, as anybody would load them.
func (r *rebuildBench) hset(ctx context.Context) (perSecond float64, err error) {
	var all [][3]string
	if _, err := r.digest(ctx, func(key, field, value string) { all = append(all, [3]string{key, field, value}) }); err != nil {
		return 0, err
	}
	if err := r.ledger.Redis.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	start := time.Now()
	for from := 0; from < len(all); from += depth {
		_, err := r.ledger.Redis.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, f := range all[from:min(from+depth, len(all))] {
				p.HSet(ctx, f[0], f[1], f[2])
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	if sum, err := r.digest(ctx, func(string, string, string) {}); err != nil || sum != r.want {
		return 0, fmt.Errorf("loaded another shard: %w", err)
	}
	return float64(r.events) / took.Seconds(), nil
}

func (r *rebuildBench) rebuild(ctx context.Context, from string) (writer.Rebuilt, error) {
	if err := r.ledger.Redis.FlushAll(ctx).Err(); err != nil {
		return writer.Rebuilt{}, err
	}
	done, err := writer.Rebuild(ctx, r.ledger.Writer, zap.NewNop(), 0, from)
	if err != nil {
		return done, err
	}
	if sum, err := r.digest(ctx, func(string, string, string) {}); err != nil || sum != r.want {
		return done, fmt.Errorf("rebuilt another shard: %w", err)
	}
	return done, nil
}

// recovery is how long a caller waits whose command comes right after a wipe, with a writer that has been idle. The command is refused for
// its account, so that the accounts stay as they are.
func (r *rebuildBench) recovery(ctx context.Context, from string) (time.Duration, error) {
	cfg := r.ledger.Writer
	cfg.RebuildFromClickHouse = from == writer.FromClickHouse
	w, err := writer.New(cfg, zap.NewNop(), prometheus.NewRegistry(), metrics.NewHealth())
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }() // ends with stop
	ask := func(id string) error {
		c := command(id, ledgerv1.Operation_OPERATION_CREDIT, "1")
		c.Account = "nobody"
		if err := r.load.send(ctx, c); err != nil {
			return err
		}
		r.sent++
		return r.load.waitCommitted(ctx, r.sent)
	}
	err = ask("before the wipe, " + from)
	if err == nil {
		err = r.ledger.Redis.FlushAll(ctx).Err()
	}
	start := time.Now()
	if err == nil {
		err = ask("after the wipe, " + from)
	}
	took := time.Since(start)
	stop()
	if err = errors.Join(err, <-ended); err != nil {
		return 0, err
	}
	r.events += 2
	r.want, err = r.digest(ctx, func(string, string, string) {})
	return took, err
}
