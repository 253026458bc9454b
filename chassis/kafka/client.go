package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kzap"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/schemas/topics"
)

// Bounds on what a client holds in memory, whatever the backlog: about fetchesMax * fetchBytesMax plus
// produceBytesMax, times the ratio of compression.
const (
	// fetchBytesMax is one answer of one broker; 50 MiB is the library's default, too much for a small container.
	fetchBytesMax = 8 << 20
	// fetchPartitionBytesMax lets several shards share one answer, and holds more records than one batch takes.
	fetchPartitionBytesMax = 2 << 20
	// fetchesMax is the number of answers in flight or waiting to be polled: one being worked on, one on its way per
	// neighbour.
	fetchesMax = 3
	// readBytesMax is the largest answer of any kind that is read at all: metadata included, bombs excluded.
	readBytesMax = 32 << 20
	// produceBytesMax and produceRecordsMax block the producer before it fills the memory while brokers are slow.
	produceBytesMax   = 64 << 20
	produceRecordsMax = 50_000
	// brokerBatchBytesMax is the library's default, a little below Kafka's default of max.message.bytes.
	brokerBatchBytesMax = 1_000_012
)

// ClientOptions returns the options that every client of the ledger has in common, for kgo.NewClient or
// kgo.NewGroupTransactSession. Later options win, so a service appends its own: topics, group, transactional id,
// partitioner where it must be manual (commands need none: for records with a key the library's default is Kafka's own
// murmur2). The error names the key that is wrong.
func ClientOptions(cfg Config, logger *zap.Logger) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		// The library's "info" tells each step of each connection; to us that is debug.
		kgo.WithLogger(kzap.New(logger.Named("kafka"), kzap.LevelFn(levelFor(logger)))),

		// An acknowledged record must survive the loss of a broker: all in-sync replicas have it. Idempotence stays on.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// The default became 10 ms in 1.20. Batches form by themselves while a request is in flight; waiting would
		// only be added to every caller's latency.
		kgo.ProducerLinger(0),
		// A topic that takes larger records than a broker's default must also be offered them.
		kgo.ProducerBatchMaxBytesFn(batchBytesMax()),
		kgo.MaxBufferedBytes(produceBytesMax),
		kgo.MaxBufferedRecords(produceRecordsMax),

		// A new group begins at the beginning: skipping records would lose money.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// The default rewinds by a minute when an offset is out of range. Here that means that the log lost data, or
		// that retention overtook us; both are for an operator to decide, so it is a hard error.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// Commands, events and replies are written in transactions: what was aborted never happened.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(fetchBytesMax),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytesMax),
		kgo.MaxConcurrentFetches(fetchesMax),
		kgo.BrokerMaxReadBytes(readBytesMax),

		// A leader that moved is found within a minute even if no request to the old one failed.
		kgo.MetadataMaxAge(time.Minute),
		// After a failed request the new leader is looked up at once; the default of 5 s is a visible stall.
		kgo.MetadataMinAge(250 * time.Millisecond),
		// A broker that does not answer the SYN is skipped before a caller's patience ends.
		kgo.DialTimeout(5 * time.Second),
		// AllowAutoTopicCreation is left off: a topic made by accident has the wrong partitions and expires its data.
	}
	tlsConfig, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		opts = append(opts, kgo.DialTLSConfig(tlsConfig))
	}
	mechanism, err := cfg.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// NewClient builds a client from ClientOptions and opts; opts win. It does not connect: an unreachable broker shows at
// the first request. The caller closes it.
func NewClient(cfg Config, logger *zap.Logger, opts ...kgo.Opt) (*kgo.Client, error) {
	common, err := ClientOptions(cfg, logger)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(common, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("build Kafka client: %w", err)
	}
	return client, nil
}

// batchBytesMax gives the largest batch per topic: its max.message.bytes, or what a broker takes by default.
func batchBytesMax() func(topic string) int32 {
	limits := map[string]int32{}
	for _, topic := range topics.Table() {
		if n, err := strconv.ParseInt(topic.Configs["max.message.bytes"], 10, 32); err == nil {
			limits[topic.Name] = int32(n)
		}
	}
	return func(topic string) int32 {
		if n, ok := limits[topic]; ok {
			return n
		}
		return brokerBatchBytesMax
	}
}

func (c Config) mechanism() (sasl.Mechanism, error) {
	user, password := c.SASLUsername, c.SASLPassword.Reveal()
	switch c.SASLMechanism {
	case "":
		return nil, nil //nolint:nilnil // no authentication is a valid choice
	case "plain":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, errors.New("KAFKA_SASL_MECHANISM: is none of plain, scram-sha-256, scram-sha-512")
}

func levelFor(logger *zap.Logger) func() kgo.LogLevel {
	return func() kgo.LogLevel {
		switch {
		case logger.Core().Enabled(zap.DebugLevel):
			return kgo.LogLevelInfo
		case logger.Core().Enabled(zap.WarnLevel):
			return kgo.LogLevelWarn
		default:
			return kgo.LogLevelError
		}
	}
}
