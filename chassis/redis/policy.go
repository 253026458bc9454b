package redis

import (
	"cmp"
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
)

// PolicyError is a master that would throw away balances when its memory is full.
type PolicyError struct {
	Addr   string // host:port as the client knows it
	Policy string // what it has instead of noeviction
}

// Error names the server and the fix.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("redis at %s has maxmemory-policy %s and would evict balances: set maxmemory-policy noeviction (CONFIG SET and redis.conf)",
		e.Addr, e.Policy)
}

// CheckPolicy returns a *PolicyError unless every master that client reaches has maxmemory-policy noeviction. Call it
// at the start, and again now and then: a failover or CONFIG SET may change the answer. Other errors are Redis's own.
func CheckPolicy(ctx context.Context, client goredis.UniversalClient) error {
	switch c := client.(type) {
	case *goredis.ClusterClient:
		return c.ForEachMaster(ctx, checkServer)
	case *goredis.Client:
		return checkServer(ctx, c)
	default:
		return fmt.Errorf("check eviction policy: %T is neither a server nor a Cluster", client)
	}
}

func checkServer(ctx context.Context, server *goredis.Client) error {
	// INFO and not CONFIG GET: managed Redis often forbids CONFIG.
	info := server.InfoMap(ctx, "memory")
	if err := info.Err(); err != nil {
		return fmt.Errorf("read eviction policy of redis at %s: %w", server.Options().Addr, err)
	}
	if policy := cmp.Or(info.Item("Memory", "maxmemory_policy"), "unknown"); policy != "noeviction" {
		return &PolicyError{Addr: server.Options().Addr, Policy: policy}
	}
	return nil
}
