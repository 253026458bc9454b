// Package kafka builds the one Kafka client of a process, each option with its reason, and sees to it that the topics
// are as the ledger needs them.
package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"

	"github.com/hotledger/hotledger/chassis/config"
)

// Config says where Kafka is and which ledger is meant.
type Config struct {
	Brokers           []string      `env:"KAFKA_BROKERS" envDefault:"localhost:9092" help:"host:port of the first brokers to ask; two or more survive the loss of one"`
	Shards            int           `env:"LEDGER_SHARDS" envDefault:"4" help:"partitions of every topic; fixed when a ledger is created"`
	ReplicationFactor int           `env:"KAFKA_REPLICATION_FACTOR" envDefault:"-1" help:"replicas of a topic that has to be created; -1 = the brokers' default"`
	ClientID          string        `env:"KAFKA_CLIENT_ID" envDefault:"hotledger" help:"name in the brokers' logs, metrics and quotas"`
	TLS               bool          `env:"KAFKA_TLS" envDefault:"false" help:"encrypt connections; the server's certificate is checked"`
	CAFile            string        `env:"KAFKA_CA_FILE" help:"PEM file of the authority that signed the brokers' certificates; empty = the system's"`
	SASLMechanism     string        `env:"KAFKA_SASL_MECHANISM" help:"plain, scram-sha-256 or scram-sha-512; empty = no authentication"`
	SASLUsername      string        `env:"KAFKA_SASL_USERNAME" help:"user for SASL"`
	SASLPassword      config.Secret `env:"KAFKA_SASL_PASSWORD" help:"password for SASL"`
}

// shardsMax keeps shard numbers within the 16 bits that they have in ClickHouse.
const shardsMax = 1 << 10

// Validate reports all problems, each naming its key.
func (c Config) Validate() error {
	problems := []error{config.CheckAddrs("KAFKA_BROKERS", c.Brokers)}
	if c.Shards < 1 || c.Shards > shardsMax {
		problems = append(problems, fmt.Errorf("LEDGER_SHARDS: %d is not within 1..%d", c.Shards, shardsMax))
	}
	if c.ReplicationFactor != -1 && (c.ReplicationFactor < 1 || c.ReplicationFactor > math.MaxInt16) {
		problems = append(problems, fmt.Errorf("KAFKA_REPLICATION_FACTOR: %d is neither -1 nor positive", c.ReplicationFactor))
	}
	if c.CAFile != "" && !c.TLS {
		problems = append(problems, errors.New("KAFKA_CA_FILE: is of no use without KAFKA_TLS=true"))
	}
	switch c.SASLMechanism {
	case "":
		if c.SASLUsername != "" || c.SASLPassword != "" {
			problems = append(problems, errors.New("KAFKA_SASL_MECHANISM: is missing, but a SASL user or password is set"))
		}
	case "plain", "scram-sha-256", "scram-sha-512":
		if c.SASLUsername == "" {
			problems = append(problems, errors.New("KAFKA_SASL_USERNAME: is missing for KAFKA_SASL_MECHANISM"))
		}
		if c.SASLPassword == "" {
			problems = append(problems, errors.New("KAFKA_SASL_PASSWORD: is missing for KAFKA_SASL_MECHANISM"))
		}
	default:
		problems = append(problems, errors.New("KAFKA_SASL_MECHANISM: is none of plain, scram-sha-256, scram-sha-512"))
	}
	return errors.Join(problems...)
}

// tlsConfig is nil where TLS is off.
func (c Config) tlsConfig() (*tls.Config, error) {
	if !c.TLS {
		return nil, nil //nolint:nilnil // nil is what kgo takes for "no TLS"
	}
	return config.TLS("KAFKA_CA_FILE", c.CAFile)
}
