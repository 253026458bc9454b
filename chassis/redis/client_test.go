package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/redis"
)

const password = "S3cr3t%zz#@/:"

func client(t *testing.T, cfg redis.Config) goredis.UniversalClient {
	t.Helper()
	c, err := redis.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestOneConfigReachesAServerAClusterAndSentinel(t *testing.T) {
	t.Parallel()
	for want, environ := range map[string][]string{
		"*redis.Client":         {"REDIS_ADDRS=127.0.0.1:1"},
		"*redis.ClusterClient":  {"REDIS_ADDRS=127.0.0.1:1,127.0.0.1:2"},
		"*redis.ClusterClient ": {"REDIS_ADDRS=127.0.0.1:1", "REDIS_CLUSTER=true"},
		"*redis.Client ":        {"REDIS_ADDRS=127.0.0.1:1,127.0.0.1:2", "REDIS_MASTER_NAME=ledger"},
	} {
		if got := fmt.Sprintf("%T", client(t, load(t, environ...))); got != strings.TrimSpace(want) {
			t.Errorf("%q: got %s", environ, got)
		}
	}
}

func TestBadSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"REDIS_ADDRS=redis://u:" + password + "@h:6379", "REDIS_ADDRS=localhost", "REDIS_ADDR=localhost:1",
		"REDIS_TIMEOUT=3", "REDIS_TIMEOUT=0s", "REDIS_TIMEOUT=-1s", "REDIS_TIMEOUT=1h", "REDIS_POOL_SIZE=0", "REDIS_POOL_SIZE=-1", "REDIS_POOL_SIZE=many",
		"REDIS_CA_FILE=/tmp/x", "REDIS_CLUSTER=ja",
	} {
		var cfg redis.Config
		err := config.Load("test", &cfg, nil, []string{entry, "REDIS_PASSWORD=" + password})
		key, _, _ := strings.Cut(entry, "=")
		if err == nil || !strings.Contains(err.Error(), "  "+key+": ") || strings.Contains(err.Error(), "S3cr3t") {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

func TestPolicyOtherThanNoevictionIsRefusedAlsoWhenItChangesLater(t *testing.T) {
	t.Parallel()
	addr := startServer(t)
	c := client(t, load(t, "REDIS_ADDRS="+addr))
	if err := redis.CheckPolicy(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"allkeys-lru", "volatile-lru", "volatile-ttl"} {
		if err := c.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		var refused *redis.PolicyError
		if err := redis.CheckPolicy(t.Context(), c); !errors.As(err, &refused) || refused.Policy != policy || refused.Addr != addr || redis.IsTransient(err) {
			t.Errorf("%s: %v", policy, err)
		}
	}
}

func TestPolicyOfEveryMasterOfAClusterIsChecked(t *testing.T) {
	t.Parallel()
	addrs := []string{startServer(t, "--cluster-enabled", "yes"), startServer(t, "--cluster-enabled", "yes")}
	nodes := make([]*goredis.Client, len(addrs))
	for i, addr := range addrs {
		nodes[i] = goredis.NewClient(&goredis.Options{Addr: addr})
		t.Cleanup(func() { _ = nodes[i].Close() })
	}
	half := 16384 / 2
	for i, node := range nodes {
		if err := node.ClusterAddSlotsRange(t.Context(), i*half, (i+1)*half-1).Err(); err != nil {
			t.Fatal(err)
		}
		if err := node.Do(t.Context(), "cluster", "set-config-epoch", i+1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := net.SplitHostPort(addrs[1])
	if err := nodes[0].ClusterMeet(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes { // they gossip; how long that takes is theirs
		for {
			info, err := node.ClusterInfo(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:2") {
				break
			}
		}
	}
	c := client(t, load(t, "REDIS_ADDRS="+strings.Join(addrs, ",")))
	if err := redis.CheckPolicy(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random").Err(); err != nil {
		t.Fatal(err)
	}
	var refused *redis.PolicyError
	if err := redis.CheckPolicy(t.Context(), c); !errors.As(err, &refused) || refused.Addr != addrs[1] {
		t.Errorf("got %v", err)
	}
}

func TestPasswordOpensAndIsNotInErrors(t *testing.T) {
	t.Parallel()
	addr := startServer(t, "--requirepass", password)
	if err := client(t, load(t, "REDIS_ADDRS="+addr, "REDIS_PASSWORD="+password)).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	wrong := load(t, "REDIS_ADDRS="+addr, "REDIS_PASSWORD=S3cr3t")
	err := redis.CheckPolicy(t.Context(), client(t, wrong))
	if err == nil || redis.IsTransient(err) || strings.Contains(fmt.Sprintf("%v %+v", err, wrong), "S3cr3t") {
		t.Errorf("got %v", err)
	}
}

// cutter is a server that executes every command and never answers those that contain EVALSHA: it closes instead.
type cutter struct {
	listener  net.Listener
	evaluated atomic.Int64
	asked     atomic.Int64 // for the map of slots
}

func startCutter(t *testing.T) *cutter {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener}
	var connections sync.WaitGroup
	connections.Go(func() { // ends when the listener is closed
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { c.serve(conn) }) // ends when the client hangs up, or at an EVALSHA
		}
	})
	t.Cleanup(func() { _ = listener.Close(); connections.Wait() })
	return c
}

func (c *cutter) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		var words []string
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var n int
		_, _ = fmt.Sscanf(line, "*%d", &n)
		for range n {
			_, _ = in.ReadString('\n')
			word, err := in.ReadString('\n')
			if err != nil {
				return
			}
			words = append(words, strings.ToLower(strings.TrimSpace(word)))
		}
		host, port, _ := net.SplitHostPort(c.listener.Addr().String())
		switch {
		case len(words) == 0:
			return
		case words[0] == "evalsha":
			c.evaluated.Add(1)
			return
		case words[0] == "hello":
			_, _ = fmt.Fprint(conn, "%1\r\n+proto\r\n:3\r\n")
		case words[0] == "cluster" && words[1] == "slots":
			c.asked.Add(1)
			_, _ = fmt.Fprintf(conn, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
		case words[0] == "command":
			_, _ = fmt.Fprint(conn, "*0\r\n")
		default:
			_, _ = fmt.Fprint(conn, "+OK\r\n")
		}
	}
}

func TestScriptWhoseAnswerIsLostIsNeverSentAgainByTheLibrary(t *testing.T) {
	t.Parallel()
	for _, cluster := range []bool{false, true} {
		t.Run(fmt.Sprintf("cluster=%v", cluster), func(t *testing.T) {
			t.Parallel()
			server := startCutter(t)
			c := client(t, load(t, "REDIS_ADDRS="+server.listener.Addr().String(), fmt.Sprintf("REDIS_CLUSTER=%v", cluster)))
			err := c.EvalSha(t.Context(), strings.Repeat("a", 40), []string{"ledger:{0}:head"}).Err()
			if !redis.IsTransient(err) {
				t.Errorf("not transient: %v", err)
			}
			if n := server.evaluated.Load(); n != 1 {
				t.Errorf("single call: sent %d times", n)
			}
			_, err = c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
				p.EvalSha(context.WithoutCancel(t.Context()), strings.Repeat("a", 40), []string{"ledger:{0}:head"})
				p.EvalSha(context.WithoutCancel(t.Context()), strings.Repeat("b", 40), []string{"ledger:{0}:head"})
				return nil
			})
			if !redis.IsTransient(err) {
				t.Errorf("not transient: %v", err)
			}
			if n := server.evaluated.Load(); n != 2 { // the first of the pipeline cuts the connection
				t.Errorf("pipeline: sent %d times", n-1)
			}
		})
	}
}

func TestTroubleWithAMasterMakesTheClusterClientAskWhoServesItsSlots(t *testing.T) {
	t.Parallel()
	server := startCutter(t)
	c := client(t, load(t, "REDIS_ADDRS="+server.listener.Addr().String(), "REDIS_CLUSTER=true"))
	call := func(s goredis.Scripter) {
		_ = s.EvalSha(t.Context(), strings.Repeat("a", 40), []string{"ledger:{0}:head"}).Err()
	}
	call(c) // the first one asks in any case
	for name, failing := range map[string]func(){
		"single call": func() { call(c) },
		"pipeline": func() {
			_, _ = c.Pipelined(t.Context(), func(p goredis.Pipeliner) error { call(p); return nil })
		},
	} {
		const patience = 20 * time.Second // by itself the library asks once a minute
		for before, start := server.asked.Load(), time.Now(); server.asked.Load() == before; failing() {
			if time.Since(start) > patience {
				t.Fatalf("%s: nobody asked", name)
			}
		}
	}
}
