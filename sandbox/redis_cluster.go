package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// RedisClusterOptions of a private Redis Cluster.
type RedisClusterOptions struct {
	// Masters share the slots evenly; default 3, the fewest that can elect.
	Masters int
	// Replicas of each master, default 1.
	Replicas int
	// NodeTimeout is how long a node is silent before the others call it failed, default 1s. A failover takes a second or two more.
	NodeTimeout time.Duration
	// ExtraArgs go to each server.
	ExtraArgs []string
}

// RedisCluster is a Redis Cluster. Replication is asynchronous and nothing is persisted but who is in the Cluster: a master that is
// killed and restarted before a failover comes back empty and empties its replicas.
type RedisCluster struct {
	nodes  []*Redis // masters first at the start; who is what changes
	remove func()
}

const (
	clusterSlots = 16384
	nodeTimeout  = time.Second
)

// StartRedisCluster starts the servers, joins them, and returns when all slots are served and all replicas follow. ctx bounds the start only.
func StartRedisCluster(ctx context.Context, options RedisClusterOptions) (_ *RedisCluster, err error) {
	dir, remove, err := dataDir("", "cluster")
	if err != nil {
		return nil, err
	}
	c := &RedisCluster{remove: remove}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start redis cluster: %w", err), c.Stop())
		}
	}()
	if options.Masters == 0 {
		options.Masters = 3
	}
	if options.Replicas == 0 {
		options.Replicas = 1
	}
	if options.NodeTimeout == 0 {
		options.NodeTimeout = nodeTimeout
	}
	for i := range options.Masters * (1 + options.Replicas) {
		node, err := startClusterNode(ctx, filepath.Join(dir, "node"+strconv.Itoa(i)), options)
		if err != nil {
			return c, err
		}
		c.nodes = append(c.nodes, node)
	}
	return c, c.join(ctx, options.Masters)
}

func startClusterNode(ctx context.Context, dir string, options RedisClusterOptions) (*Redis, error) {
	for attempt := 1; ; attempt++ {
		bus, err := freePort() // the default, 10000 above the port, may be beyond 65535
		if err != nil {
			return nil, err
		}
		args := append(slices.Clone(replicationArgs), "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
			"--cluster-node-timeout", strconv.FormatInt(options.NodeTimeout.Milliseconds(), 10),
			// A shard whose master is gone must not stop the others, and a replica is promoted however far behind it is.
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0")
		node, err := StartRedis(ctx, RedisOptions{Dir: dir, ExtraArgs: append(args, options.ExtraArgs...)})
		if err == nil || attempt == startAttemptsMax || ctx.Err() != nil || errors.Is(err, ErrRedisMissing) {
			return node, err
		}
	}
}

// join makes the started servers one Cluster.
func (c *RedisCluster) join(ctx context.Context, masters int) error {
	first := c.nodes[0]
	host, port, err := net.SplitHostPort(first.Addr())
	if err != nil {
		return err
	}
	for i, node := range c.nodes {
		commands := [][]any{{"cluster", "set-config-epoch", i + 1}}
		if i < masters {
			commands = append(commands, []any{"cluster", "addslotsrange", i * clusterSlots / masters, (i+1)*clusterSlots/masters - 1})
		}
		if node != first {
			commands = append(commands, []any{"cluster", "meet", host, port, busPort(first)})
		}
		for _, command := range commands {
			if err := c.do(ctx, node, command...); err != nil {
				return err
			}
		}
	}
	for i, node := range c.nodes[masters:] {
		id, err := c.id(ctx, c.nodes[i%masters])
		if err != nil {
			return err
		}
		err = poll(ctx, node.Addr()+" follows its master", func() (bool, error) { // refused until it has heard of it
			err := c.do(ctx, node, "cluster", "replicate", id)
			return err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return c.AwaitWhole(ctx)
}

// busPort finds the port that nodes talk to each other on.
func busPort(node *Redis) string {
	return node.options.ExtraArgs[slices.Index(node.options.ExtraArgs, "--cluster-port")+1]
}

// do runs one command on one node.
func (c *RedisCluster) do(ctx context.Context, node *Redis, args ...any) error {
	client := nodeClient(node)
	defer func() { _ = client.Close() }()
	if err := client.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("%v on %s: %w", args, node.Addr(), err)
	}
	return nil
}

func (c *RedisCluster) id(ctx context.Context, node *Redis) (string, error) {
	client := nodeClient(node)
	defer func() { _ = client.Close() }()
	return client.Do(ctx, "cluster", "myid").Text()
}

// Addrs are host:port of all nodes.
func (c *RedisCluster) Addrs() []string { return addrsOf(c.nodes) }

// Nodes are all servers, masters and replicas.
func (c *RedisCluster) Nodes() []*Redis { return slices.Clone(c.nodes) }

// member is one line of CLUSTER NODES.
type member struct {
	id, addr, masterID string
	master, gone       bool
	slots              []goredis.ClusterSlot
}

// members asks the first node that answers.
func (c *RedisCluster) members(ctx context.Context) ([]member, error) {
	var problems []error
	for _, node := range c.nodes {
		if node.PID() == 0 {
			continue
		}
		members, err := membersAt(ctx, node)
		if err == nil {
			return members, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("ask for the nodes of the cluster: %w", errors.Join(problems...))
}

func membersAt(ctx context.Context, node *Redis) ([]member, error) {
	client := nodeClient(node)
	defer func() { _ = client.Close() }()
	text, err := client.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, err
	}
	var members []member
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		const fixed = 8 // id, addr, flags, master, ping, pong, epoch, link
		if len(words) < fixed {
			return nil, fmt.Errorf("cluster nodes says %q", line)
		}
		addr, _, _ := strings.Cut(words[1], "@")
		m := member{id: words[0], addr: addr, masterID: words[3], master: strings.Contains(words[2], "master"), gone: strings.Contains(words[2], "fail")}
		for _, slots := range words[fixed:] {
			first, last, ranged := strings.Cut(slots, "-")
			if !ranged {
				last = first
			}
			from, errFrom := strconv.Atoi(first)
			to, errTo := strconv.Atoi(last)
			if errFrom != nil || errTo != nil {
				continue // a slot on its way: [slot->-node]
			}
			m.slots = append(m.slots, goredis.ClusterSlot{Start: from, End: to})
		}
		members = append(members, m)
	}
	return members, nil
}

func (m member) serves(slot int) bool {
	return slices.ContainsFunc(m.slots, func(s goredis.ClusterSlot) bool { return s.Start <= slot && slot <= s.End })
}

func (c *RedisCluster) nodeAt(addr string) (*Redis, error) {
	for _, node := range c.nodes {
		if node.Addr() == addr {
			return node, nil
		}
	}
	return nil, fmt.Errorf("the node at %s is none of ours", addr)
}

// Owner returns the master of the slot of a key, and its replicas that are well.
func (c *RedisCluster) Owner(ctx context.Context, key string) (master *Redis, replicas []*Redis, err error) {
	slot, err := c.Slot(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	members, err := c.members(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(members, func(m member) bool { return m.master && m.serves(slot) })
	if at < 0 {
		return nil, nil, fmt.Errorf("slot %d of %s has no master", slot, key)
	}
	if master, err = c.nodeAt(members[at].addr); err != nil {
		return nil, nil, err
	}
	for _, m := range members {
		if m.masterID == members[at].id && !m.gone {
			replica, err := c.nodeAt(m.addr)
			if err != nil {
				return nil, nil, err
			}
			replicas = append(replicas, replica)
		}
	}
	return master, replicas, nil
}

// Slot of a key.
func (c *RedisCluster) Slot(ctx context.Context, key string) (int, error) {
	for _, node := range c.nodes {
		if node.PID() == 0 {
			continue
		}
		client := nodeClient(node)
		slot, err := client.ClusterKeySlot(ctx, key).Result()
		_ = client.Close()
		if err == nil {
			return int(slot), nil
		}
	}
	return 0, fmt.Errorf("ask for the slot of %s: no node answers", key)
}

// Stop ends all servers and removes their files.
func (c *RedisCluster) Stop() error {
	defer c.remove()
	var problems []error
	for _, node := range c.nodes {
		problems = append(problems, node.Stop())
	}
	return errors.Join(problems...)
}
