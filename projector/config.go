package projector

import (
	"errors"
	"fmt"
	"time"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
)

// Config is everything that a projector can be told.
type Config struct {
	Kafka      kafka.Config
	ClickHouse clickhouse.Config
	Metrics    metrics.Config
	Log        log.Config

	Group         string        `env:"PROJECTOR_GROUP" envDefault:"projector" help:"consumer group; one group per ClickHouse, or two would write the same rows"`
	BatchRows     int           `env:"PROJECTOR_BATCH_ROWS" envDefault:"100000" help:"rows of one insert, at most"`
	BatchBytes    int           `env:"PROJECTOR_BATCH_BYTES" envDefault:"33554432" help:"bytes of events in one insert, at most (one event more, if it is larger); bounds the memory per shard"`
	BatchWait     time.Duration `env:"PROJECTOR_BATCH_WAIT" envDefault:"1s" help:"how long a batch waits for more rows; also the delay before finance sees a lone event"`
	InsertTimeout time.Duration `env:"PROJECTOR_INSERT_TIMEOUT" envDefault:"60s" help:"after this an insert counts as unknown and is sent again under the same token"`
	Migrate       bool          `env:"PROJECTOR_MIGRATE" envDefault:"true" help:"bring the tables and views of ClickHouse up to date at the start; false where projector migrate runs before"`
}

const (
	// batchRowsMax keeps a batch in one block: the server cuts above 1,048,449 rows, and a token names one block.
	batchRowsMax = 500_000
	// batchBytesMax keeps a batch below the 256 MiB at which the server cuts, with room for what rows add to events.
	batchBytesMax = 128 << 20
	// insertTimeoutMin leaves a server time for an fsync on a slow disk.
	insertTimeoutMin = time.Second
)

// Validate reports all problems, each naming its key.
func (c Config) Validate() error {
	var problems []error
	if c.Group == "" {
		problems = append(problems, errors.New("PROJECTOR_GROUP: is empty"))
	}
	if c.BatchRows < 1 || c.BatchRows > batchRowsMax {
		problems = append(problems, fmt.Errorf("PROJECTOR_BATCH_ROWS: %d is not within 1..%d", c.BatchRows, batchRowsMax))
	}
	if c.BatchBytes < 1 || c.BatchBytes > batchBytesMax {
		problems = append(problems, fmt.Errorf("PROJECTOR_BATCH_BYTES: %d is not within 1..%d", c.BatchBytes, batchBytesMax))
	}
	if c.BatchWait <= 0 || c.BatchWait > time.Minute {
		problems = append(problems, fmt.Errorf("PROJECTOR_BATCH_WAIT: %s is not within 1ns..1m", c.BatchWait))
	}
	if c.InsertTimeout < insertTimeoutMin || c.InsertTimeout > 10*time.Minute {
		problems = append(problems, fmt.Errorf("PROJECTOR_INSERT_TIMEOUT: %s is not within %s..10m", c.InsertTimeout, insertTimeoutMin))
	}
	return errors.Join(problems...)
}
