package producer

import (
	"errors"
	"fmt"
	"time"

	"github.com/hotledger/hotledger/chassis/kafka"
)

// Config says where the ledger is and how a client of it behaves.
type Config struct {
	Kafka kafka.Config
	// Source names the caller on commands that name none, and begins the client's reply address.
	Source string `env:"PRODUCER_SOURCE" envDefault:"producer" help:"name of the caller, kept on every command; 1 to 64 bytes"`
	// OutcomeTimeout ends the wait for one command. After it the outcome is unknown, not negative.
	OutcomeTimeout time.Duration `env:"PRODUCER_OUTCOME_TIMEOUT" envDefault:"30s" help:"how long the outcome of a sent command is waited for before it counts as unknown"`
	// InFlightMax bounds memory: sending blocks while this many commands wait for their outcome.
	InFlightMax int `env:"PRODUCER_IN_FLIGHT_MAX" envDefault:"10000" help:"commands sent and not yet answered before sending blocks; one larger than 1 KiB counts once per KiB"`
}

const (
	// sourceBytesMax leaves room for "-" and a UUID in a reply address.
	sourceBytesMax = 64
	// slotBytes is what one command in flight may weigh before it counts as several.
	slotBytes = 1 << 10
	// inFlightMin lets the largest command that the ledger takes (64 KiB) and its envelope through.
	inFlightMin = 128
	// inFlightMax keeps a client below a gigabyte.
	inFlightMax = 1_000_000
)

// Validate reports all problems of this struct, each naming its key.
func (c Config) Validate() error {
	var problems []error
	if c.Source == "" || len(c.Source) > sourceBytesMax {
		problems = append(problems, fmt.Errorf("PRODUCER_SOURCE: is %d bytes long, want 1 to %d", len(c.Source), sourceBytesMax))
	}
	if c.OutcomeTimeout <= 0 {
		problems = append(problems, fmt.Errorf("PRODUCER_OUTCOME_TIMEOUT: %s is not positive", c.OutcomeTimeout))
	}
	if c.InFlightMax < inFlightMin || c.InFlightMax > inFlightMax {
		problems = append(problems, fmt.Errorf("PRODUCER_IN_FLIGHT_MAX: %d is not within %d..%d", c.InFlightMax, inFlightMin, inFlightMax))
	}
	return errors.Join(problems...)
}
