package writer

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// parallelTests: most tests wait for a timeout of Kafka's group or a backoff; more of them than cores run well beside each other.
const parallelTests = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		panic(err)
	}
	code := m.Run()
	if sharedStarted.Load() {
		engine, _ := sharedClickHouse()
		if err := engine.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop ClickHouse:", err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	shards = 4
	// waitMax bounds every wait for a fact: far beyond what any of them takes.
	waitMax = time.Minute
)

// ledger is one private ledger: Kafka, Redis and a configuration that names them.
type ledger struct {
	cfg     Config
	redis   *sandbox.Redis
	kafka   *sandbox.Kafka
	client  *kgo.Client
	admin   *kadm.Client
	rdb     goredis.UniversalClient
	store   *lua.Store
	writers atomic.Int32
}

// setup starts a ledger. environ adds to its configuration or changes it.
func setup(t *testing.T, environ ...string) *ledger {
	t.Helper()
	server, err := sandbox.StartRedis(t.Context(), sandbox.RedisOptions{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	broker, err := sandbox.StartKafka(sandbox.KafkaOptions{Options: []kfake.Opt{
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}), // Kafka's default is 6 s
	}})
	must(t, err)
	t.Cleanup(broker.Close)
	l := &ledger{redis: server, kafka: broker}
	environ = append([]string{
		"REDIS_ADDRS=" + server.Addr(), "KAFKA_BROKERS=" + broker.Addrs()[0], fmt.Sprintf("LEDGER_SHARDS=%d", shards),
		// Short, so that what a test takes down is noticed soon.
		"REDIS_TIMEOUT=500ms", "LEDGER_WRITER_REDIS_BUDGET=1s", "LEDGER_WRITER_TRANSACTION_TIMEOUT=3s", "LEDGER_WRITER_SESSION_TIMEOUT=6s",
		"LEDGER_WRITER_IDLE_CHECK=1s",
	}, environ...)
	must(t, config.Load("ledger-writer", &l.cfg, nil, environ))
	l.client, err = kafka.NewClient(l.cfg.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	t.Cleanup(l.client.Close)
	_, err = kafka.EnsureTopics(t.Context(), l.cfg.Kafka, l.client)
	must(t, err)
	l.admin = kadm.NewClient(l.client)
	l.rdb, err = redis.NewClient(l.cfg.Redis)
	must(t, err)
	t.Cleanup(func() { _ = l.rdb.Close() })
	l.store = lua.New(l.rdb)
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writer builds a writer with an instance id of its own that is not running.
func (l *ledger) writer(t *testing.T) *Writer {
	t.Helper()
	return l.instance(t, fmt.Sprintf("w%d", l.writers.Add(1)))
}

func (l *ledger) instance(t *testing.T, id string) *Writer {
	t.Helper()
	level := zapcore.ErrorLevel
	if os.Getenv("LEDGER_TEST_LOG") != "" {
		level = zapcore.InfoLevel
	}
	cfg := l.cfg
	cfg.InstanceID = id
	w, err := New(cfg, zaptest.NewLogger(t, zaptest.Level(level)), prometheus.NewRegistry(), metrics.NewHealth())
	must(t, err)
	t.Cleanup(w.close) // also where it never runs
	return w
}

// run runs a writer until stop is called; stop returns what Run returned.
func (l *ledger) run(t *testing.T) (stop func() error) {
	t.Helper()
	return start(t, l.writer(t))
}

func start(t *testing.T, w *Writer) (stop func() error) {
	t.Helper()
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

// fails runs a writer that must end by itself, with an error.
func fails(t *testing.T, w *Writer) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	err := w.Run(ctx)
	if err == nil {
		t.Fatal("the writer went on")
	}
	return err
}

// record is a command on its way to the partition of its account.
func record(t testing.TB, c *ledgerv1.Command) *kgo.Record {
	t.Helper()
	value, err := proto.Marshal(c)
	must(t, err)
	return &kgo.Record{Topic: topics.Commands, Partition: int32(topics.ShardOf(c.GetAccount(), shards)), Key: []byte(c.GetAccount()), Value: value}
}

// send produces commands to their partitions, in order.
func (l *ledger) send(t testing.TB, commands ...*ledgerv1.Command) {
	t.Helper()
	records := make([]*kgo.Record, len(commands))
	for i, c := range commands {
		records[i] = record(t, c)
	}
	l.sendRaw(t, records...)
}

func (l *ledger) sendRaw(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	must(t, l.client.ProduceSync(context.Background(), records...).FirstErr())
}

// until waits for a fact. missing says what is not so yet; "" ends the wait.
func until(t testing.TB, what string, missing func() string) {
	t.Helper()
	deadline := time.Now().Add(waitMax)
	for {
		last := missing()
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: still %s", what, last)
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
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

// traffic is n commands over a handful of accounts, with holds, transfers, reversals, rejections and repeated ids among them. Every call with the
// same name gives the same commands.
func traffic(name string, n int) []*ledgerv1.Command {
	const accounts = 7
	commands := make([]*ledgerv1.Command, 0, n)
	for i := range accounts {
		commands = append(commands, open(fmt.Sprintf("account-%d", i)))
	}
	for i := range n - accounts {
		account, id := fmt.Sprintf("account-%d", i%accounts), fmt.Sprintf("%s-%d", name, i)
		switch {
		case i%11 == 10:
			commands = append(commands, commands[len(commands)-3]) // a caller's retry
		case i%17 == 3:
			commands = append(commands, hold(id, account, fmt.Sprint(1+i%5), 0))
		case i%17 == 10: // the hold of a round before, if there was one
			commands = append(commands, capture(id, account, fmt.Sprintf("%s-%d", name, i-accounts), ""))
		case i%17 == 5:
			commands = append(commands, transfer(id, account, fmt.Sprintf("account-%d", (i+1)%accounts), fmt.Sprint(1+i%9)))
		case i%17 == 6:
			commands = append(commands, reverse(id, account, fmt.Sprintf("%s-%d", name, i-2*accounts), "1"))
		case i%3 == 2:
			commands = append(commands, debit(id, account, fmt.Sprint(1+i%97)))
		default:
			commands = append(commands, credit(id, account, fmt.Sprint(1+i%13)))
		}
	}
	return commands
}
