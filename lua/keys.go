// Package lua holds the scripts that may change a balance, their keys, and the typed calls around them.
// Nothing else in Hotledger writes to Redis.
package lua

import "fmt"

// The keys of a shard share one hash tag, so that a script finds them all on one node of a Redis Cluster.
// Outcomes live in numbered buckets; until forgetting is built there is one, number 0.

// AccountsKey names the hash account -> record; its field "" carries the chain it was last written at.
func AccountsKey(shard int) string { return key(shard, "accounts") }

// OutcomesKey names the hash command id -> fingerprint and record.
func OutcomesKey(shard int) string { return key(shard, "outcomes:0") }

// OutboxKey names the stream of what is applied and not yet known to be in Kafka.
func OutboxKey(shard int) string { return key(shard, "outbox") }

// HeadKey names the hash with position, chain and generation.
func HeadKey(shard int) string { return key(shard, "head") }

func key(shard int, name string) string { return fmt.Sprintf("ledger:{%d}:%s", shard, name) }

// liveKeys are the KEYS of apply, replay and inspect.
func liveKeys(shard int) []string {
	return []string{AccountsKey(shard), OutcomesKey(shard), OutboxKey(shard), HeadKey(shard)}
}

// buildKeys are the keys of a shard that is being rebuilt beside the live one.
func buildKeys(shard int) []string {
	return []string{key(shard, "build:accounts"), key(shard, "build:outcomes:0"), key(shard, "build:outbox"), key(shard, "build:head")}
}
