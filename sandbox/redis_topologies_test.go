package sandbox_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/sandbox"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRedisClusterFailsOverMovesSlotsAndRestarts(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c, err := sandbox.StartRedisCluster(ctx, sandbox.RedisClusterOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, c.Stop()) })
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	keys := []string{"{k}1", "{k}2", "{k}3"}
	for _, key := range keys {
		must(t, client.Set(ctx, key, "v", 0).Err())
	}
	before, _, err := c.Owner(ctx, "{k}")
	must(t, err)
	owner, err := c.MoveSlot(ctx, "{k}", nil)
	must(t, err)
	if owner == before {
		t.Fatal("the slot did not move")
	}
	must(t, c.Failover(ctx, "{k}", false))
	must(t, c.RollingRestart(ctx))
	for _, key := range keys {
		if v, err := client.Get(ctx, key).Result(); err != nil || v != "v" {
			t.Errorf("%s: %q %v", key, v, err)
		}
	}
	killed, _, err := c.Owner(ctx, "{k}")
	must(t, err)
	killed.Kill()
	must(t, c.AwaitOwner(ctx, "{k}", killed))
	must(t, killed.Restart(ctx))
	must(t, c.AwaitWhole(ctx))
}

func TestRedisSentinelFailsOver(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	s, err := sandbox.StartRedisSentinel(ctx, sandbox.RedisSentinelOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Stop()) })
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: sandbox.SentinelMaster, SentinelAddrs: s.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	must(t, client.Set(ctx, "k", "v", 0).Err())
	must(t, client.Wait(ctx, 2, 0).Err())
	must(t, s.Failover(ctx))
	if v, err := client.Get(ctx, "k").Result(); err != nil || v != "v" {
		t.Errorf("%q %v", v, err)
	}
	master, err := s.Master(ctx)
	must(t, err)
	must(t, master.Pause())
	must(t, s.AwaitFailover(ctx, master))
	must(t, master.Resume())
	must(t, s.AwaitReplica(ctx, master))
}
