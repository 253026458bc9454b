// Package topics is the one table of Kafka topics: their names, their policies, and which partition a key belongs to.
// chassis/kafka creates what is missing from this table and refuses to start on a topic that contradicts it.
package topics

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The names of the four topics. Every topic has as many partitions as the ledger has shards.
const (
	Commands    = "ledger.commands"
	Events      = "ledger.events"
	Replies     = "ledger.replies"
	DeadLetters = "ledger.deadletters"
)

// A dead letter carries a whole foreign record, which may already be as large as a broker takes by default
// (1,048,588 bytes), plus its headers and the cause. So its topic takes twice that.
const deadLetterBytesMax = "2097152"

const (
	sevenDays = "604800000"
	oneDay    = "86400000"
	oneYear   = "31536000000"
	forever   = "-1"
)

// Topic is one line of the table.
type Topic struct {
	Name string
	// Key says what the record key is, for people.
	Key string
	// Purpose says what the topic holds and why its policy is what it is, for people.
	Purpose string
	// Configs are the topic configs that the topic is created with, by Kafka's own names.
	//
	// Not in here, because they depend on the cluster and not on the ledger: the replication factor and min.insync.replicas.
	// With three replicas a ledger needs min.insync.replicas=2: with 1, an acknowledged event can stand on a single disk.
	Configs map[string]string
	// Required names the Configs that are checked at every start: with another value the ledger is not safe, so a service refuses to start.
	// The others are set once, at creation; an operator may change them later (a longer retention, say).
	Required []string
}

// Table returns the table, in the order of the data's journey. The caller owns what is returned.
func Table() []Topic {
	return []Topic{
		{
			Name: Commands,
			Key:  "account",
			Purpose: "Requests. Kept for a week, so that a writer that was down catches up. Never compacted: that would drop all but the last command of an account. " +
				"The broker stamps the time: a client with a wrong clock could otherwise have its commands expire before they are read.",
			Configs: map[string]string{
				"cleanup.policy":         "delete",
				"retention.ms":           sevenDays,
				"message.timestamp.type": "LogAppendTime",
			},
			Required: []string{"cleanup.policy", "message.timestamp.type"},
		},
		{
			Name: Events,
			Key:  "account",
			Purpose: "The authoritative log: everything else is derived from it, so nothing in it is ever compacted or expired. " +
				"The broker stamps the time, which ClickHouse partitions by: it only ever grows within a partition.",
			Configs: map[string]string{
				"cleanup.policy":         "delete",
				"retention.ms":           forever,
				"retention.bytes":        forever,
				"message.timestamp.type": "LogAppendTime",
			},
			Required: []string{"cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type"},
		},
		{
			Name:    Replies,
			Key:     "command id",
			Purpose: "Outcomes for callers that wait. Each is also in the log, so a day is plenty.",
			Configs: map[string]string{
				"cleanup.policy": "delete",
				"retention.ms":   oneDay,
			},
			Required: []string{"cleanup.policy"},
		},
		{
			Name: DeadLetters,
			Key:  "original key",
			Purpose: "Records that could not become an outcome, byte for byte, with the cause. They are evidence: kept for a year, " +
				"and bounded all the same, because anybody who may produce commands can fill this topic.",
			Configs: map[string]string{
				"cleanup.policy":    "delete",
				"retention.ms":      oneYear,
				"max.message.bytes": deadLetterBytesMax,
			},
			Required: []string{"cleanup.policy", "max.message.bytes"},
		},
	}
}

// partitioner is Kafka's default partitioner (murmur2 of the key) as franz-go has it. For a record with a key it reads
// nothing but the key and writes nothing, so one instance serves all goroutines.
var partitioner = kgo.StickyKeyPartitioner(nil).ForTopic("")

// records spares an allocation per call: the partitioner takes a whole record. A key in here is never nil, not even for
// the empty key; for a nil key the partitioner would choose at random.
var records = sync.Pool{New: func() any { return &kgo.Record{Key: make([]byte, 0, 128)} }}

// ShardOf returns the shard of an account, 0 to shards-1: the partition of ledger.commands and ledger.events that Kafka's
// default partitioner gives to the account as a key. It panics if shards is below 1.
func ShardOf(account string, shards int) int {
	record := records.Get().(*kgo.Record)
	defer records.Put(record)
	record.Key = append(record.Key[:0], account...)
	return partitioner.Partition(record, shards)
}

// PartitionOf returns the partition that Kafka's default partitioner gives to any key, among n. It panics if n is below 1.
func PartitionOf(key string, n int) int32 {
	return int32(ShardOf(key, n))
}
