package e2e

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
)

func TestALedgerOnAClusterSurvivesWhatBefallsItsMasters(t *testing.T) {
	t.Parallel()
	w := setupOn(t, stack.Options{Topology: stack.Cluster})
	c, key := w.engines.Cluster, lua.AccountsKey(busy)
	w.survive(t, replicated{
		master: func(t *testing.T) *sandbox.Redis {
			master, _, err := c.Owner(bounded(t), key)
			must(t, err)
			return master
		},
		replicas: func(t *testing.T) []*sandbox.Redis {
			_, replicas, err := c.Owner(bounded(t), key)
			must(t, err)
			return replicas
		},
		failover:   func(t *testing.T) { must(t, c.Failover(bounded(t), key, false)) },
		awaitOther: func(t *testing.T, before *sandbox.Redis) { must(t, c.AwaitOwner(bounded(t), key, before)) },
		awaitWhole: func(t *testing.T) { must(t, c.AwaitWhole(bounded(t))) },
	})
	owners := map[*sandbox.Redis]bool{}
	for shard := range 4 {
		owner, _, err := c.Owner(bounded(t), lua.AccountsKey(shard))
		must(t, err)
		owners[owner] = true
	}
	if len(owners) < 2 {
		t.Errorf("all shards are on one master")
	}
}

func TestAShardWhoseSlotMovesWaitsAndGoesOn(t *testing.T) {
	t.Parallel()
	w := setupOn(t, stack.Options{Topology: stack.Cluster})
	w.serve(t)
	l := newWorkload(t, 4)
	l.open(t, w)
	c, key := w.engines.Cluster, lua.AccountsKey(busy)
	w.under(t, l, func() {
		from, _, err := c.Owner(bounded(t), key)
		must(t, err)
		_, err = c.MoveSlot(bounded(t), key, func() { awaitRefusal(t, from, "TRYAGAIN") })
		must(t, err)
	})
}

// awaitRefusal waits until a server has refused a command with a code: somebody has met the state that it is in.
func awaitRefusal(t *testing.T, server *sandbox.Redis, code string) {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		info, err := client.Info(bounded(t), "errorstats").Result()
		if err == nil && strings.Contains(info, "errorstat_"+code) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody was refused with %s: %s %v", code, info, err)
		}
	}
}
