package sandbox_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/sandbox"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the first start of an engine on a machine builds its command
	t.Cleanup(cancel)
	return ctx
}

func startRedis(t *testing.T, ctx context.Context, options sandbox.RedisOptions) (*sandbox.Redis, *goredis.Client) {
	t.Helper()
	server, err := sandbox.StartRedis(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func TestRedisNeverEvictsAndForgetsWithoutAppendOnly(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server, client := startRedis(t, ctx, sandbox.RedisOptions{})
	policy, err := client.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil || policy["maxmemory-policy"] != "noeviction" {
		t.Fatal(policy, err)
	}
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	pid := server.PID()
	server.Kill()
	if server.PID() != 0 || client.Ping(ctx).Err() == nil {
		t.Fatal("killed, and still there")
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := client.DBSize(ctx).Result(); err != nil || n != 0 || server.PID() == pid {
		t.Fatal(n, err)
	}
}

func TestRedisWithAppendOnlyKeepsItsDataOverKillAndRestart(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server, client := startRedis(t, ctx, sandbox.RedisOptions{Dir: t.TempDir(), AppendOnly: true, ExtraArgs: []string{"--appendfsync", "always"}})
	for _, stop := range []func(){server.Kill, func() {}} { // the second Restart stops the running server itself
		if err := client.Incr(ctx, "n").Err(); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := server.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := client.Get(ctx, "n").Int(); err != nil || n != 2 {
		t.Fatal(n, err)
	}
}

func TestRedisSaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	if _, err := sandbox.StartRedis(ctx, sandbox.RedisOptions{ExtraArgs: []string{"--no-such-option", "1"}}); err == nil {
		t.Fatal("started with an unknown option")
	} else {
		t.Log(err)
	}
}
