// Package writer is the ledger-writer: it reads commands, lets Redis decide them, and commits the events, the replies and the command
// offsets in one Kafka transaction. PROTOCOL rules are cited by number; ARCHITECTURE.md lists them.
package writer

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/redis"
)

// Config of a ledger-writer.
type Config struct {
	Kafka      kafka.Config
	Redis      redis.Config
	ClickHouse clickhouse.Config
	Log        log.Config
	Metrics    metrics.Config

	Group              string        `env:"LEDGER_WRITER_GROUP" envDefault:"ledger-writer" help:"consumer group; all writers of a ledger share it"`
	InstanceID         string        `env:"LEDGER_WRITER_INSTANCE_ID" help:"names this instance in its transactional id, so that its own restart settles what it left; unique among the writers; empty = the host name"`
	BatchRecords       int           `env:"LEDGER_WRITER_BATCH_RECORDS" envDefault:"16000" help:"commands of one transaction, at most; a quiet system commits fewer, without waiting, and so does a slow one, which is to be done with them soon"`
	RedisBudget        time.Duration `env:"LEDGER_WRITER_REDIS_BUDGET" envDefault:"5s" help:"how long one call keeps asking Redis before its batch is given up and recovered; less than the transaction timeout"`
	TransactionTimeout time.Duration `env:"LEDGER_WRITER_TRANSACTION_TIMEOUT" envDefault:"15s" help:"after this the broker aborts a batch whose writer went silent; less than the session timeout"`
	SessionTimeout     time.Duration `env:"LEDGER_WRITER_SESSION_TIMEOUT" envDefault:"20s" help:"after this a silent writer loses its shards to another"`
	IdleCheck          time.Duration `env:"LEDGER_WRITER_IDLE_CHECK" envDefault:"5s" help:"how often Redis's head is compared on a shard without traffic"`

	DedupeWindow time.Duration `env:"LEDGER_WRITER_DEDUPE_WINDOW" envDefault:"168h" help:"how long Redis remembers outcomes at least; what is older is looked up in ClickHouse before it is applied; the same for all writers; 0 = for ever, and ClickHouse is not asked"`
	TimeZone     string        `env:"LEDGER_WRITER_TIME_ZONE" envDefault:"UTC" help:"time zone of business dates; the same for all writers"`
	DayEnds      string        `env:"LEDGER_WRITER_DAY_ENDS" envDefault:"24:00" help:"time of day at which a business day ends: from 18:00 on, say, it is the next one"`

	RebuildFromClickHouse bool `env:"LEDGER_WRITER_REBUILD_FROM_CLICKHOUSE" envDefault:"false" help:"rebuild a shard from ClickHouse and the log's tail where ClickHouse proves to be a prefix of the log; false = from the log alone"`
}

// batchRecordsMax keeps one transaction below what its timeouts allow for, and the outbox below some tens of MB.
const batchRecordsMax = 100_000

// Validate returns all problems at once.
func (c Config) Validate() error {
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Group == "" {
		complain("LEDGER_WRITER_GROUP: is empty")
	}
	if c.BatchRecords < 1 || c.BatchRecords > batchRecordsMax {
		complain("LEDGER_WRITER_BATCH_RECORDS: %d is not within 1..%d", c.BatchRecords, batchRecordsMax)
	}
	if c.RedisBudget <= 0 || c.RedisBudget >= c.TransactionTimeout {
		complain("LEDGER_WRITER_REDIS_BUDGET: %s is not above 0 and below LEDGER_WRITER_TRANSACTION_TIMEOUT (%s)", c.RedisBudget, c.TransactionTimeout)
	}
	if c.TransactionTimeout >= c.SessionTimeout {
		complain("LEDGER_WRITER_TRANSACTION_TIMEOUT: %s is not below LEDGER_WRITER_SESSION_TIMEOUT (%s)", c.TransactionTimeout, c.SessionTimeout)
	}
	if c.IdleCheck < time.Second {
		complain("LEDGER_WRITER_IDLE_CHECK: %s is below 1s", c.IdleCheck)
	}
	if c.DedupeWindow != 0 && c.DedupeWindow < dedupeWindowMin {
		complain("LEDGER_WRITER_DEDUPE_WINDOW: %s is neither 0 nor at least %s", c.DedupeWindow, dedupeWindowMin)
	}
	if _, err := newCalendar(c.TimeZone, c.DayEnds); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// dedupeWindowMin: below, Redis would turn its buckets all the time.
const dedupeWindowMin = time.Second

func (c Config) transactionalID() (string, error) {
	instance := c.InstanceID
	if instance == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("LEDGER_WRITER_INSTANCE_ID: is empty, and the host has no name: %w", err)
		}
		instance = host
	}
	return c.Group + "-" + instance, nil
}
