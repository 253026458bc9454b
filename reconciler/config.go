package reconciler

import (
	"errors"
	"fmt"
	"time"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/redis"
)

// Config says where the ledger is and how far a run may go.
type Config struct {
	Kafka      kafka.Config
	Redis      redis.Config
	ClickHouse clickhouse.Config
	Log        log.Config
	Metrics    metrics.Config

	// BarrierTimeout bounds the one wait of a run. After it the run could not tell.
	BarrierTimeout time.Duration `env:"RECONCILER_BARRIER_TIMEOUT" envDefault:"2m" help:"how long ClickHouse may take to reach Redis's position before the run could not tell"`
	// ScansMax bounds how often a shard is read again because a recovery came in between.
	ScansMax int `env:"RECONCILER_SCANS_MAX" envDefault:"3" help:"how often a shard is read, at most, before the run could not tell; a recovery during the reading asks for another"`
	// PageSize is a hint to HSCAN; a page is read in one Redis transaction and delays the ledger-writer by about a microsecond per account.
	PageSize int `env:"RECONCILER_PAGE_SIZE" envDefault:"1000" help:"accounts per page read from Redis, about"`
	// RepairsMax is the circuit breaker: where much is broken at once, the cause is not one account.
	RepairsMax int `env:"RECONCILER_REPAIRS_MAX" envDefault:"100" help:"repairs of one run, at most; above it none is issued; 0 = never repair"`
	// OutcomeTimeout bounds the wait for all repairs of a run together.
	OutcomeTimeout time.Duration `env:"RECONCILER_OUTCOME_TIMEOUT" envDefault:"30s" help:"how long outcomes of repairs are waited for before they are reported as unknown"`
	// BreaksMax bounds memory and the report; the number of breaks is exact beyond it.
	BreaksMax int `env:"RECONCILER_BREAKS_MAX" envDefault:"10000" help:"breaks listed one by one, at most; with more nothing is repaired"`
	// SnapshotDays bounds the disk that the readings of Redis take. The table drops them after 30 days in any case.
	SnapshotDays int `env:"RECONCILER_SNAPSHOT_DAYS" envDefault:"7" help:"days that the readings of Redis are kept, 1 to 30; breaks and runs are kept for ever"`
	// SliceRows bounds ClickHouse's memory: about 100 MB per million.
	SliceRows int `env:"RECONCILER_SLICE_ROWS" envDefault:"2000000" help:"events compared at a time, about; bounds ClickHouse's memory, and a stopped run goes on after the last slice"`
	// PolicyFile says what happens without a person.
	PolicyFile string `env:"RECONCILER_POLICY_FILE" help:"YAML file that says what is automatic up to which caps; empty = the built-in policy (reconciler policy show)"`
	// Schedule, TimeZone and SweepInterval are for `reconciler serve`.
	Schedule      string        `env:"RECONCILER_SCHEDULE" envDefault:"03:10" help:"serve: time of day after which yesterday is closed"`
	TimeZone      string        `env:"RECONCILER_TIME_ZONE" envDefault:"UTC" help:"serve: whose day it is, such as Europe/Berlin"`
	SweepInterval time.Duration `env:"RECONCILER_SWEEP_INTERVAL" envDefault:"0s" help:"serve: pause between incremental runs through the day; 0s = none"`
	// AccountsPerSecond bounds what a run asks of Redis.
	AccountsPerSecond int `env:"RECONCILER_ACCOUNTS_PER_SECOND" envDefault:"0" help:"accounts read from Redis per second and shard, at most; 0 = as fast as it answers"`
	// BusinessDate is the day that a run closes, "2026-11-30"; empty for none. `reconciler run --business-date` sets it.
	BusinessDate string
	// Incremental goes on from what earlier runs verified, instead of from the beginning of the log.
	Incremental bool
	// DryRun shows what would be issued and issues nothing. `reconciler run --dry-run` sets it.
	DryRun bool
}

const (
	pageMax         = 100_000
	scansMax        = 100
	repairsMax      = 10_000
	breaksMax       = 1_000_000
	sliceRowsMax    = 1_000_000_000
	snapshotDaysMax = 30 // the time to live of ledger.account_snapshots
)

// Validate reports all problems, each naming its key.
func (c Config) Validate() error {
	var problems []error
	for key, d := range map[string]time.Duration{
		"RECONCILER_BARRIER_TIMEOUT": c.BarrierTimeout, "RECONCILER_OUTCOME_TIMEOUT": c.OutcomeTimeout,
	} {
		if d <= 0 {
			problems = append(problems, fmt.Errorf("%s: %s is not positive", key, d))
		}
	}
	if _, _, err := c.schedule(); err != nil {
		problems = append(problems, err)
	}
	if c.SweepInterval < 0 {
		problems = append(problems, fmt.Errorf("RECONCILER_SWEEP_INTERVAL: %s is negative", c.SweepInterval))
	}
	for _, n := range []struct {
		key              string
		value, low, high int
	}{
		{"RECONCILER_SCANS_MAX", c.ScansMax, 1, scansMax},
		{"RECONCILER_PAGE_SIZE", c.PageSize, 1, pageMax},
		{"RECONCILER_REPAIRS_MAX", c.RepairsMax, 0, repairsMax},
		{"RECONCILER_BREAKS_MAX", c.BreaksMax, 1, breaksMax},
		{"RECONCILER_SLICE_ROWS", c.SliceRows, granuleRows, sliceRowsMax},
		{"RECONCILER_ACCOUNTS_PER_SECOND", c.AccountsPerSecond, 0, sliceRowsMax},
		{"RECONCILER_SNAPSHOT_DAYS", c.SnapshotDays, 1, snapshotDaysMax},
	} {
		if n.value < n.low || n.value > n.high {
			problems = append(problems, fmt.Errorf("%s: %d is not within %d..%d", n.key, n.value, n.low, n.high))
		}
	}
	return errors.Join(problems...)
}
