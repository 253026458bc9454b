// Package lua holds the scripts that may change a balance, their keys, and the typed calls around them.
// Nothing else in Hotledger writes to Redis.
package lua

import "fmt"

// The keys of a shard share one hash tag, so that a script finds them all on one node of a Redis Cluster.

// AccountsKey names the hash account -> record; its field "" carries the chain it was last written at, as in HoldsKey and the outcomes.
func AccountsKey(shard int) string { return key(shard, "accounts") }

// HoldsKey names the hash hold id -> what is left of it.
func HoldsKey(shard int) string { return key(shard, "holds") }

// OutcomesKey names the hash OutcomeField -> fingerprint and record, of the commands decided since the last turn.
func OutcomesKey(shard int) string { return key(shard, "outcomes:recent") }

// OldOutcomesKey names the same of the window before; the next turn drops it.
func OldOutcomesKey(shard int) string { return key(shard, "outcomes:old") }

// OutboxKey names the stream of what is applied and not yet known to be in Kafka.
func OutboxKey(shard int) string { return key(shard, "outbox") }

// HeadKey names the hash with position, chain, generation, and how far outcomes are remembered.
func HeadKey(shard int) string { return key(shard, "head") }

func key(shard int, name string) string { return fmt.Sprintf("ledger:{%d}:%s", shard, name) }

// names of a shard's keys, in the order of the scripts' KEYS.
var names = [...]string{"accounts", "holds", "outcomes:recent", "outcomes:old", "outbox", "head"}

// LiveKeys are all keys of a shard.
func LiveKeys(shard int) []string { return keys(shard, "") }

// buildKeys are the keys of a shard that is being rebuilt beside the live one.
func buildKeys(shard int) []string { return keys(shard, "build:") }

func keys(shard int, prefix string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = key(shard, prefix+name)
	}
	return all
}
