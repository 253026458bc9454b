package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// What can happen to a Cluster while it serves: failovers, slots that move, nodes that come back.

// AwaitWhole waits until every running node says that all slots are served, and every replica follows its master.
func (c *RedisCluster) AwaitWhole(ctx context.Context) error {
	for _, node := range c.nodes {
		if node.PID() == 0 {
			continue
		}
		if err := c.awaitNode(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

func (c *RedisCluster) awaitNode(ctx context.Context, node *Redis) error {
	client := nodeClient(node)
	defer func() { _ = client.Close() }()
	return poll(ctx, node.Addr()+" finds the cluster whole", func() (bool, error) {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", clusterSlots)) ||
			!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(c.nodes))) {
			return false, err
		}
		replication, err := client.Info(ctx, "replication").Result()
		return strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"), err
	})
}

// AwaitOwner waits until another node than before is the master of a key's slot.
func (c *RedisCluster) AwaitOwner(ctx context.Context, key string, before *Redis) error {
	return poll(ctx, fmt.Sprintf("%s has another master than %s", key, before.Addr()), func() (bool, error) {
		master, _, err := c.Owner(ctx, key)
		return err == nil && master != before, err
	})
}

// Failover promotes a replica of the key's master in good order (CLUSTER FAILOVER): the master stops, the replica catches up.
// With force the replica does not ask its master, which then need not be there.
func (c *RedisCluster) Failover(ctx context.Context, key string, force bool) error {
	master, replicas, err := c.Owner(ctx, key)
	if err != nil {
		return err
	}
	if len(replicas) == 0 {
		return fmt.Errorf("fail over %s: its master %s has no replica", key, master.Addr())
	}
	command := []any{"cluster", "failover"}
	if force {
		command = append(command, "force")
	}
	if err := c.do(ctx, replicas[0], command...); err != nil {
		return err
	}
	return c.AwaitOwner(ctx, key, master)
}

// MoveSlot moves a key's slot, with all keys in it, to another master while clients go on: MIGRATING and IMPORTING, then key by key, then
// everybody is told. It returns the new owner. between runs once after the first key has moved; nil is allowed.
func (c *RedisCluster) MoveSlot(ctx context.Context, key string, between func()) (*Redis, error) {
	slot, err := c.Slot(ctx, key)
	if err != nil {
		return nil, err
	}
	from, _, err := c.Owner(ctx, key)
	if err != nil {
		return nil, err
	}
	members, err := c.members(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(members, func(m member) bool { return m.master && !m.gone && m.addr != from.Addr() && len(m.slots) > 0 })
	if at < 0 {
		return nil, errors.New("move slot: there is no other master")
	}
	to, err := c.nodeAt(members[at].addr)
	if err != nil {
		return nil, err
	}
	fromID, err := c.id(ctx, from)
	if err != nil {
		return nil, err
	}
	toID := members[at].id
	if err := c.do(ctx, to, "cluster", "setslot", slot, "importing", fromID); err != nil {
		return nil, err
	}
	if err := c.do(ctx, from, "cluster", "setslot", slot, "migrating", toID); err != nil {
		return nil, err
	}
	if err := c.moveKeys(ctx, slot, from, to, between); err != nil {
		return nil, err
	}
	for _, node := range []*Redis{to, from} { // the new owner first, then the old one; the others hear of it
		if err := c.do(ctx, node, "cluster", "setslot", slot, "node", toID); err != nil {
			return nil, err
		}
	}
	return to, c.AwaitOwner(ctx, key, from)
}

func (c *RedisCluster) moveKeys(ctx context.Context, slot int, from, to *Redis, between func()) error {
	client := nodeClient(from)
	defer func() { _ = client.Close() }()
	host, port, err := net.SplitHostPort(to.Addr())
	if err != nil {
		return err
	}
	const oneByOne = 1 // so that the keys of a shard are apart for a while, as they are in a large slot
	for moved := 0; ; {
		keys, err := client.ClusterGetKeysInSlot(ctx, slot, oneByOne).Result()
		if err != nil {
			return fmt.Errorf("list keys of slot %d: %w", slot, err)
		}
		if len(keys) == 0 {
			return nil
		}
		for _, key := range keys {
			if err := client.Migrate(ctx, host, port, key, 0, time.Minute).Err(); err != nil {
				return fmt.Errorf("migrate %s: %w", key, err)
			}
		}
		if moved += len(keys); moved == oneByOne && between != nil {
			between()
		}
	}
}

// RollingRestart restarts one node after the other, as an upgrade does: a master hands over to a replica first. The data stay.
func (c *RedisCluster) RollingRestart(ctx context.Context) error {
	for _, node := range c.nodes {
		if err := c.restartInTurn(ctx, node); err != nil {
			return fmt.Errorf("rolling restart: %w", err)
		}
	}
	return nil
}

func (c *RedisCluster) restartInTurn(ctx context.Context, node *Redis) error {
	if err := c.AwaitWhole(ctx); err != nil {
		return err
	}
	members, err := c.members(ctx)
	if err != nil {
		return err
	}
	self := slices.IndexFunc(members, func(m member) bool { return m.addr == node.Addr() })
	if self >= 0 && members[self].master && len(members[self].slots) > 0 {
		follower := slices.IndexFunc(members, func(m member) bool { return m.masterID == members[self].id && !m.gone })
		if follower < 0 {
			return fmt.Errorf("%s has no replica to hand over to", node.Addr())
		}
		replica, err := c.nodeAt(members[follower].addr)
		if err != nil {
			return err
		}
		if err := c.do(ctx, replica, "cluster", "failover"); err != nil {
			return err
		}
		if err := awaitInfo(ctx, node, "replication", "role:slave"); err != nil {
			return err
		}
	}
	if err := node.Restart(ctx); err != nil {
		return err
	}
	return c.AwaitWhole(ctx)
}
