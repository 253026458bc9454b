package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// RedisSentinelOptions of a master with replicas that Sentinels watch.
type RedisSentinelOptions struct {
	// Replicas of the master, default 2.
	Replicas int
	// DownAfter is how long a master is silent before a Sentinel calls it down, default 1s. A failover takes a second or two more.
	DownAfter time.Duration
	// ExtraArgs go to each data server, not to the Sentinels.
	ExtraArgs []string
}

// RedisSentinel is one master, its replicas, and three Sentinels that agree on which of them is the master. Replication is asynchronous,
// and nothing is persisted: a master that is killed and restarted before a failover comes back empty and empties its replicas.
type RedisSentinel struct {
	nodes     []*Redis // the master and its replicas; who is what changes
	sentinels []*Redis
	remove    func()
}

// SentinelMaster is the name of the master at the Sentinels.
const SentinelMaster = "ledger"

const (
	sentinels       = 3
	sentinelQuorum  = 2
	downAfter       = time.Second
	failoverTimeout = 2 * time.Second // after it the Sentinels try again
)

// StartRedisSentinel starts the servers and returns when replication runs and the Sentinels know each other. ctx bounds the start only.
func StartRedisSentinel(ctx context.Context, options RedisSentinelOptions) (_ *RedisSentinel, err error) {
	dir, remove, err := dataDir("", "sentinel")
	if err != nil {
		return nil, err
	}
	s := &RedisSentinel{remove: remove}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start redis with sentinels: %w", err), s.Stop())
		}
	}()
	if options.Replicas == 0 {
		options.Replicas = 2
	}
	if options.DownAfter == 0 {
		options.DownAfter = downAfter
	}
	for i := range 1 + options.Replicas {
		node, err := StartRedis(ctx, RedisOptions{
			Dir: filepath.Join(dir, "node"+strconv.Itoa(i)), ExtraArgs: append(slices.Clone(replicationArgs), options.ExtraArgs...),
		})
		if err != nil {
			return s, err
		}
		s.nodes = append(s.nodes, node)
		if err := follow(ctx, node, s.nodes[0]); err != nil {
			return s, err
		}
	}
	for i := range sentinels {
		if err := s.startSentinel(ctx, filepath.Join(dir, "sentinel"+strconv.Itoa(i)), options.DownAfter); err != nil {
			return s, err
		}
	}
	if err := s.awaitReplication(ctx); err != nil {
		return s, err
	}
	return s, s.awaitAgreement(ctx, options.Replicas)
}

// follow makes a server a replica of master, unless it is that. It is not among the server's arguments: after a restart it would follow
// whoever was the master at its first start.
func follow(ctx context.Context, node, master *Redis) error {
	if node == master {
		return nil
	}
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		return err
	}
	client := nodeClient(node)
	defer func() { _ = client.Close() }()
	if err := client.ReplicaOf(ctx, host, port).Err(); err != nil {
		return fmt.Errorf("make %s follow %s: %w", node.Addr(), master.Addr(), err)
	}
	return nil
}

// replicationArgs make a replica whole within a fraction of a second.
var replicationArgs = []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-diskless-load", "swapdb", "--repl-ping-replica-period", "1"}

func (s *RedisSentinel) startSentinel(ctx context.Context, dir string, downAfter time.Duration) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	host, port, err := net.SplitHostPort(s.nodes[0].Addr())
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "sentinel.conf")
	lines := fmt.Sprintf("sentinel monitor %[1]s %s %s %d\nsentinel down-after-milliseconds %[1]s %[5]d\nsentinel failover-timeout %[1]s %[6]d\nsentinel parallel-syncs %[1]s 8\n",
		SentinelMaster, host, port, sentinelQuorum, downAfter.Milliseconds(), failoverTimeout.Milliseconds())
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		return fmt.Errorf("write configuration of a sentinel: %w", err)
	}
	sentinel, err := StartRedis(ctx, RedisOptions{Dir: dir, configFile: file, ExtraArgs: []string{"--sentinel"}})
	if err != nil {
		return err
	}
	s.sentinels = append(s.sentinels, sentinel)
	return nil
}

// awaitReplication waits until every replica holds its master's data.
func (s *RedisSentinel) awaitReplication(ctx context.Context) error {
	for _, replica := range s.nodes[1:] {
		if err := awaitInfo(ctx, replica, "replication", "master_link_status:up"); err != nil {
			return err
		}
	}
	return nil
}

// awaitAgreement waits until each Sentinel knows the replicas and the other Sentinels.
func (s *RedisSentinel) awaitAgreement(ctx context.Context, replicas int) error {
	want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", s.nodes[0].Addr(), replicas, sentinels)
	for _, sentinel := range s.sentinels {
		if err := awaitInfo(ctx, sentinel, "sentinel", want); err != nil {
			return err
		}
	}
	return nil
}

// awaitInfo polls INFO of a server until it says everything that is wanted.
func awaitInfo(ctx context.Context, server *Redis, section string, wanted ...string) error {
	client := nodeClient(server)
	defer func() { _ = client.Close() }()
	return poll(ctx, fmt.Sprintf("%s says %q", server.Addr(), wanted), func() (bool, error) {
		info, err := client.Info(ctx, section).Result()
		return !slices.ContainsFunc(wanted, func(want string) bool { return !strings.Contains(info, want) }), err
	})
}

// poll asks until the answer is yes. Errors count as no: servers in these tests are often away.
func poll(ctx context.Context, what string, ask func() (bool, error)) error {
	for {
		ok, err := ask()
		if ok && err == nil {
			return nil
		}
		select {
		case <-time.After(10 * pollInterval):
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.Join(context.Cause(ctx), err))
		}
	}
}

// nodeClient talks to one server as it is, whatever its part. The caller closes it.
func nodeClient(server *Redis) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: server.Addr(), DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second, DialTimeout: time.Second, PoolSize: 2,
	})
}

// Addrs are host:port of the Sentinels.
func (s *RedisSentinel) Addrs() []string { return addrsOf(s.sentinels) }

func addrsOf(servers []*Redis) []string {
	addrs := make([]string, 0, len(servers))
	for _, server := range servers {
		addrs = append(addrs, server.Addr())
	}
	return addrs
}

// Nodes are the data servers.
func (s *RedisSentinel) Nodes() []*Redis { return slices.Clone(s.nodes) }

// Sentinels are the servers that watch.
func (s *RedisSentinel) Sentinels() []*Redis { return slices.Clone(s.sentinels) }

// Master is the data server that the first Sentinel takes for the master.
func (s *RedisSentinel) Master(ctx context.Context) (*Redis, error) {
	client := goredis.NewSentinelClient(&goredis.Options{Addr: s.sentinels[0].Addr(), DisableIdentity: true})
	defer func() { _ = client.Close() }()
	parts, err := client.GetMasterAddrByName(ctx, SentinelMaster).Result()
	if err != nil {
		return nil, fmt.Errorf("ask a sentinel for the master: %w", err)
	}
	addr := net.JoinHostPort(parts[0], parts[1])
	for _, node := range s.nodes {
		if node.Addr() == addr {
			return node, nil
		}
	}
	return nil, fmt.Errorf("the master at %s is none of ours", addr)
}

// Failover makes the Sentinels promote a replica although the master is well, and returns when they have.
func (s *RedisSentinel) Failover(ctx context.Context) error {
	before, err := s.Master(ctx)
	if err != nil {
		return err
	}
	client := goredis.NewSentinelClient(&goredis.Options{Addr: s.sentinels[0].Addr(), DisableIdentity: true})
	defer func() { _ = client.Close() }()
	err = poll(ctx, "the sentinels begin a failover", func() (bool, error) { // refused while another one is under way
		err := client.Failover(ctx, SentinelMaster).Err()
		return err == nil, err
	})
	if err != nil {
		return err
	}
	return s.AwaitFailover(ctx, before)
}

// AwaitFailover waits until another server than before is the master, for the Sentinels and for itself.
func (s *RedisSentinel) AwaitFailover(ctx context.Context, before *Redis) error {
	var master *Redis
	err := poll(ctx, "the sentinels have another master than "+before.Addr(), func() (bool, error) {
		var err error
		master, err = s.Master(ctx)
		return err == nil && master != before, err
	})
	if err != nil {
		return err
	}
	return awaitInfo(ctx, master, "replication", "role:master")
}

// AwaitReplica waits until a server follows a master and has its data. Of an old master that came back the Sentinels make a replica
// about ten seconds later; until then it takes writes.
func (s *RedisSentinel) AwaitReplica(ctx context.Context, node *Redis) error {
	return awaitInfo(ctx, node, "replication", "role:slave", "master_link_status:up")
}

// Stop ends all servers and removes their files.
func (s *RedisSentinel) Stop() error {
	defer s.remove()
	var problems []error
	for _, server := range slices.Concat(s.sentinels, s.nodes) {
		problems = append(problems, server.Stop())
	}
	return errors.Join(problems...)
}
