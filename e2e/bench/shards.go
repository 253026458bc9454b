package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// scale is one set-up of Shards.
type scale struct{ shards, writers int }

var scales = []scale{{1, 1}, {4, 1}, {4, 2}}

// Shards measures the whole path over two masters of a Redis Cluster, a hot account on every shard, for each scale.
func Shards(ctx context.Context, count int, report *Report) (err error) {
	cluster, err := sandbox.StartRedisCluster(ctx, sandbox.RedisClusterOptions{Masters: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	reference := ""
	for _, s := range scales {
		flush := func(ctx context.Context, master *redis.Client) error { return master.FlushAll(ctx).Err() }
		if err := rdb.ForEachMaster(ctx, flush); err != nil {
			return err
		}
		name := fmt.Sprintf("shards_%d_writers_%d", s.shards, s.writers)
		perSecond, err := s.run(ctx, cluster.Addrs(), count)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		masters, err := s.masters(ctx, cluster)
		if err != nil {
			return err
		}
		report.Add(Figure{Name: name, Value: perSecond, Unit: "commands/s", Reference: reference})
		report.Note("%s: the shards are on %d masters, each with a replica", name, masters)
		if reference == "" {
			reference = name
		}
	}
	return nil
}

func (s scale) masters(ctx context.Context, cluster *sandbox.RedisCluster) (int, error) {
	owners := map[*sandbox.Redis]bool{}
	for shard := range s.shards {
		owner, _, err := cluster.Owner(ctx, lua.AccountsKey(shard))
		if err != nil {
			return 0, err
		}
		owners[owner] = true
	}
	return len(owners), nil
}

// run spreads the commands over the shards and returns how many were committed per second by all writers.
func (s scale) run(ctx context.Context, addrs []string, count int) (perSecond float64, err error) {
	dir, err := os.MkdirTemp("", "hotledger-shards-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engines, err := stack.Start(ctx, stack.Options{Shards: s.shards, Kafka: true, Dir: dir})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	p, err := startPath(ctx, append(engines.Environ, "REDIS_CLUSTER=true", "REDIS_ADDRS="+strings.Join(addrs, ",")), s.writers, count)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	each := count / s.shards
	accounts := make([]string, s.shards)
	for shard := range accounts {
		accounts[shard] = accountOf(shard, s.shards)
	}
	load := p.spread()
	funding, err := load.records(2*s.shards, func(i int) *ledgerv1.Command {
		open, credit := openAndFund(accounts[i/2])
		return []*ledgerv1.Command{open, credit}[i%2]
	})
	if err != nil {
		return 0, err
	}
	if err := load.push(ctx, funding); err != nil {
		return 0, err
	}
	debits, err := load.records(each*s.shards, func(i int) *ledgerv1.Command { return debit(i, accounts[i%s.shards]) })
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := load.push(ctx, debits); err != nil {
		return 0, err
	}
	took := time.Since(start)
	books, err := load.readBack(ctx)
	if err != nil {
		return 0, err
	}
	for _, account := range accounts {
		if err := books[account].debited(account, each); err != nil {
			return 0, err
		}
	}
	return float64(each*s.shards) / took.Seconds(), nil
}

// accountOf is the first account of a shard.
func accountOf(shard, shards int) string {
	for i := 0; ; i++ {
		if name := manyName(i); topics.ShardOf(name, shards) == shard {
			return name
		}
	}
}
