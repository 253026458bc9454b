package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/chassis/redis"
)

// reply is an error that a server sent.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestTransientErrorsAreToldFromThoseThatStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{net.ErrClosed, true},
		{syscall.ECONNRESET, true},
		{syscall.EPIPE, true},
		{os.ErrDeadlineExceeded, true},
		{context.DeadlineExceeded, true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{&net.DNSError{Err: "no such host", Name: "redis"}, true},
		{goredis.ErrPoolTimeout, true},
		{goredis.ErrPoolExhausted, true},
		{errors.New("redis: all sentinels specified in configuration are unreachable"), true},
		{errors.New("redis: cluster has no nodes"), true},

		{reply("OOM command not allowed when used memory > 'maxmemory'."), true},
		{reply("OOM command not allowed when used memory > 'maxmemory'. script: 0123, on @user_script:3."), true},
		{reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), true},
		{reply("LOADING Redis is loading the dataset in memory"), true},
		{reply("READONLY You can't write against a read only replica."), true},
		{reply("READONLY You can't write against a read only replica. script: 0123, on @user_script:1."), true},
		{reply("ERR Error running script (call to f_01): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica."), true},
		{reply("ERR Error running script (call to f_01): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'."), true},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), true},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{reply("CLUSTERDOWN Hash slot not served"), true},
		{reply("MOVED 3999 127.0.0.1:6381"), true},
		{reply("ASK 3999 127.0.0.1:6381"), true},
		{reply("NOREPLICAS Not enough good replicas to write."), true},
		{reply("NOSCRIPT No matching script. Please use EVAL."), true},
		{goredis.ErrNoScript, true},
		{reply("ERR max number of clients reached"), true},

		{nil, false},
		{goredis.Nil, false},
		{goredis.ErrClosed, false},
		{context.Canceled, false},
		{errors.New("anything else"), false},
		{goredis.ErrCrossSlot, false},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), false},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value script: 0123, on @user_script:1."), false},
		{reply("ERR Error running script (call to f_01): @user_script:9: attempt to compare nil with number"), false},
		{reply("ERR unknown command 'BUSY', with args beginning with: 'LOADING' "), false},
		{reply("NOAUTH Authentication required."), false},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), false},
		{reply("NOPERM this user has no permissions to run the 'evalsha' command"), false},
		{reply("OOMPH is not a code"), false},
		{&redis.PolicyError{Addr: "a:1", Policy: "allkeys-lru"}, false},
	} {
		if got := redis.IsTransient(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
		if c.err == nil {
			continue
		}
		if got := redis.IsTransient(fmt.Errorf("apply: %w", fmt.Errorf("call script: %w", c.err))); got != c.want {
			t.Errorf("wrapped %v: got %v", c.err, got)
		}
	}
}

func TestErrorsOfARealServerAreTransient(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	c := client(t, load(t, "REDIS_ADDRS="+addr, "REDIS_TIMEOUT=500ms"))
	ctx := t.Context()
	const write = "return redis.call('SET', KEYS[1], ARGV[1])"

	check := func(what string, err error) {
		t.Helper()
		if err == nil || !redis.IsTransient(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("unknown script", c.EvalSha(ctx, "0123456789012345678901234567890123456789", []string{"k"}).Err())
	if err := c.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	check("full", c.Set(ctx, "k", "v", 0).Err())
	check("full, in a script", c.Eval(ctx, write, []string{"k"}, "v").Err())
	if err := c.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Do(ctx, "replicaof", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	check("replica, in a script", c.Eval(ctx, write, []string{"k"}, "v").Err())
	if err := c.Do(ctx, "replicaof", "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(ctx, "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	check("no replicas, in a script", c.Eval(ctx, write, []string{"k"}, "v").Err())
	if err := c.Eval(ctx, "return redis.call('HGET', KEYS[1])", []string{"k"}).Err(); err == nil || redis.IsTransient(err) {
		t.Errorf("a broken script: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	check("caller's deadline", c.BLPop(short, 0, "none").Err())
	check("a slow script", c.Eval(ctx, "while true do end", []string{"k"}).Err())
	check("nobody there", client(t, load(t, "REDIS_ADDRS=127.0.0.1:1")).Ping(ctx).Err())
}
