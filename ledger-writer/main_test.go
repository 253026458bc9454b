package writer

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shards = 4

// ledger is one private ledger: Kafka, Redis and a configuration that names them.
type ledger struct {
	cfg    Config
	redis  *sandbox.Redis
	kafka  *sandbox.Kafka
	client *kgo.Client
	store  *lua.Store
	sent   int
}

func setup(t *testing.T) *ledger {
	t.Helper()
	redis, err := sandbox.StartRedis(t.Context(), sandbox.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	broker, err := sandbox.StartKafka(sandbox.KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	l := &ledger{redis: redis, kafka: broker}
	environ := []string{"REDIS_ADDRS=" + redis.Addr(), "KAFKA_BROKERS=" + broker.Addrs()[0], fmt.Sprintf("LEDGER_SHARDS=%d", shards)}
	if err := config.Load("ledger-writer", &l.cfg, nil, environ); err != nil {
		t.Fatal(err)
	}
	l.client, err = kafka.NewClient(l.cfg.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.client.Close)
	if _, err := kafka.EnsureTopics(t.Context(), l.cfg.Kafka, l.client); err != nil {
		t.Fatal(err)
	}
	return l
}

// writer builds a writer that is not running.
func (l *ledger) writer(t *testing.T) *Writer {
	t.Helper()
	level := zap.NewAtomicLevelAt(zap.WarnLevel)
	if os.Getenv("LEDGER_TEST_LOG") != "" {
		level.SetLevel(zap.InfoLevel)
	}
	w, err := New(l.cfg, zaptest.NewLogger(t, zaptest.Level(level)), prometheus.NewRegistry(), metrics.NewHealth())
	if err != nil {
		t.Fatal(err)
	}
	l.store = w.store
	return w
}

// run runs a writer until stop is called; stop returns what Run returned.
func (l *ledger) run(t *testing.T) (stop func() error) {
	t.Helper()
	w := l.writer(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return stop
}

// send produces commands to their partitions, in order.
func (l *ledger) send(t *testing.T, commands ...*ledgerv1.Command) {
	t.Helper()
	for _, c := range commands {
		value, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		l.sendRaw(t, &kgo.Record{Topic: topics.Commands, Partition: int32(topics.ShardOf(c.GetAccount(), shards)), Key: []byte(c.GetAccount()), Value: value})
	}
}

func (l *ledger) sendRaw(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	if err := l.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// read returns the first n committed records of a topic, over all partitions, in the order of each partition.
func (l *ledger) read(t *testing.T, topic string, n int) []*kgo.Record {
	t.Helper()
	client, err := kafka.NewClient(l.cfg.Kafka, zap.NewNop(), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s: %d records, want %d", topic, len(records), n)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// events returns the first n events by command id, having checked that each shard's are linked from Genesis without a gap.
func (l *ledger) events(t *testing.T, n int) map[string]*ledgerv1.Event {
	t.Helper()
	heads := map[int32]lua.Head{}
	byID := map[string]*ledgerv1.Event{}
	for _, r := range l.read(t, topics.Events, n) {
		e := &ledgerv1.Event{}
		if err := proto.Unmarshal(r.Value, e); err != nil {
			t.Fatal(err)
		}
		before, ok := heads[r.Partition]
		if !ok {
			before = lua.Genesis
		}
		after, err := lua.HeadAfter(before, e)
		if err != nil {
			t.Fatalf("shard %d: %v", r.Partition, err)
		}
		heads[r.Partition] = after
		if byID[e.GetOutcome().GetCommandId()] != nil {
			t.Fatalf("command %s has two events", e.GetOutcome().GetCommandId())
		}
		byID[e.GetOutcome().GetCommandId()] = e
	}
	return byID
}

func open(account string) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: "open:" + account, Account: account, Operation: ledgerv1.Operation_OPERATION_OPEN, Currency: "EUR"}
}

func credit(id, account, amount string) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: id, Account: account, Operation: ledgerv1.Operation_OPERATION_CREDIT, Amount: amount, Currency: "EUR"}
}

func debit(id, account, amount string) *ledgerv1.Command {
	c := credit(id, account, amount)
	c.Operation = ledgerv1.Operation_OPERATION_DEBIT
	return c
}
