package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/schemas/topics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = "S3cr3t%zz#@/:"

// setup starts a Kafka and builds a client as a service does.
func setup(t *testing.T, shards int, opts ...kgo.Opt) (kafka.Config, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cfg := load(t, "KAFKA_BROKERS="+strings.Join(cluster.ListenAddrs(), ","), fmt.Sprintf("LEDGER_SHARDS=%d", shards))
	return cfg, client(t, cfg, opts...)
}

func load(t *testing.T, environ ...string) kafka.Config {
	t.Helper()
	var cfg kafka.Config
	if err := config.Load("test", &cfg, nil, environ); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func client(t *testing.T, cfg kafka.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kafka.NewClient(cfg, zap.NewNop(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func TestMissingTopicsAreCreatedFromTheTableAndFoundAgain(t *testing.T) {
	t.Parallel()
	cfg, cl := setup(t, 3)
	first, err := kafka.EnsureTopics(t.Context(), cfg, cl)
	if err != nil {
		t.Fatal(err)
	}
	again, err := kafka.EnsureTopics(t.Context(), cfg, cl)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != len(topics.Table()) || !reflect.DeepEqual(first, again) {
		t.Errorf("ids %v, then %v", first, again)
	}
	admin := kadm.NewClient(cl)
	for _, topic := range topics.Table() {
		details, err := admin.ListTopics(t.Context(), topic.Name)
		if err != nil || len(details[topic.Name].Partitions) != 3 || first[topic.Name] == (kadm.TopicID{}) || first[topic.Name] != details[topic.Name].ID {
			t.Errorf("%s: %v, %v", topic.Name, details, err)
		}
		configs, err := admin.DescribeTopicConfigs(t.Context(), topic.Name)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range topic.Configs {
			got := "unset"
			for _, c := range configs[0].Configs {
				if c.Key == key {
					got = c.MaybeValue()
				}
			}
			if got != want {
				t.Errorf("%s %s: %s, want %s", topic.Name, key, got, want)
			}
		}
	}
}

func TestServicesThatStartTogetherCreateTheTopicsOnce(t *testing.T) {
	t.Parallel()
	cfg, _ := setup(t, 2)
	var starts sync.WaitGroup
	for range 4 {
		cl := client(t, cfg)
		starts.Go(func() {
			if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
}

func TestAnotherNumberOfShardsIsRefusedWithAllTopicsNamed(t *testing.T) {
	t.Parallel()
	cfg, cl := setup(t, 4)
	if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
		t.Fatal(err)
	}
	cfg.Shards = 8
	_, err := kafka.EnsureTopics(t.Context(), cfg, cl)
	var refused *kafka.TopicError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{topics.Commands, topics.Events, topics.Replies, topics.DeadLetters, "has 4 partitions, LEDGER_SHARDS is 8", "fixed when a ledger is created", "set LEDGER_SHARDS=4"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestTopicThatLosesTheLogIsRefusedWithTheCommandThatMendsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ topic, key, value, want string }{
		{topics.Events, "retention.ms", "604800000", "-1"},
		{topics.Events, "retention.bytes", "1073741824", "-1"},
		{topics.Events, "cleanup.policy", "compact", "delete"},
		{topics.Events, "message.timestamp.type", "CreateTime", "LogAppendTime"},
		{topics.Commands, "cleanup.policy", "compact", "delete"},
	} {
		t.Run(c.topic+" "+c.key, func(t *testing.T) {
			t.Parallel()
			cfg, cl := setup(t, 1)
			if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
				t.Fatal(err)
			}
			alter(t, cl, c.topic, c.key, c.value)
			_, err := kafka.EnsureTopics(t.Context(), cfg, cl)
			fix := fmt.Sprintf("--entity-name %s --add-config %s=%s", c.topic, c.key, c.want)
			var refused *kafka.TopicError
			if !errors.As(err, &refused) || refused.Topic != c.topic || !strings.HasSuffix(refused.Fix, fix) {
				t.Fatalf("got %v", err)
			}
			alter(t, cl, c.topic, c.key, c.want)
			if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
				t.Errorf("mended: %v", err)
			}
		})
	}
}

func TestLongerRetentionOfCommandsIsTheOperatorsChoice(t *testing.T) {
	t.Parallel()
	cfg, cl := setup(t, 1)
	if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
		t.Fatal(err)
	}
	alter(t, cl, topics.Commands, "retention.ms", "1209600000")
	if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
		t.Error(err)
	}
}

func alter(t *testing.T, cl *kgo.Client, topic, key, value string) {
	t.Helper()
	done, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: key, Value: &value}}, topic)
	if err != nil || done[0].Err != nil {
		t.Fatalf("%v, %v", err, done)
	}
}

func TestOffsetThatIsGoneIsAHardErrorAndNothingIsSkipped(t *testing.T) {
	t.Parallel()
	cfg, cl := setup(t, 1)
	if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		record := &kgo.Record{Topic: topics.Commands, Key: []byte("a"), Value: []byte{byte(i)}}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	admin := kadm.NewClient(cl)
	offsets := make(kadm.Offsets)
	offsets.Add(kadm.Offset{Topic: topics.Commands, At: 2})
	if _, err := admin.DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	committed := make(kadm.Offsets)
	committed.Add(kadm.Offset{Topic: topics.Commands, At: 1, LeaderEpoch: -1})
	if _, err := admin.CommitOffsets(t.Context(), "ledger-writer", committed); err != nil {
		t.Fatal(err)
	}
	consumer := client(t, cfg, kgo.ConsumerGroup("ledger-writer"), kgo.ConsumeTopics(topics.Commands), kgo.DisableAutoCommit())
	fetches := consumer.PollFetches(t.Context())
	if err := fetches.Err(); !errors.Is(err, kerr.OffsetOutOfRange) || fetches.NumRecords() != 0 {
		t.Errorf("%d records, %v", fetches.NumRecords(), err)
	}
}

func TestNewGroupReadsFromTheBeginningAndOnlyWhatWasCommitted(t *testing.T) {
	t.Parallel()
	cfg, cl := setup(t, 1, kgo.TransactionalID("ledger-writer-0"))
	if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
		t.Fatal(err)
	}
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		record := &kgo.Record{Topic: topics.Events, Key: []byte("a"), Value: fmt.Appendf(nil, "commit=%v", end)}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	consumer := client(t, cfg, kgo.ConsumerGroup("projector"), kgo.ConsumeTopics(topics.Events), kgo.DisableAutoCommit())
	fetches := consumer.PollFetches(t.Context())
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if records := fetches.Records(); len(records) != 1 || string(records[0].Value) != "commit=true" {
		t.Errorf("got %v", records)
	}
}

func TestKeyAloneDecidesThePartition(t *testing.T) {
	t.Parallel()
	cfg, cl := setup(t, 5)
	if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		account := fmt.Sprintf("account-%d", i)
		record := &kgo.Record{Topic: topics.Commands, Key: []byte(account)}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if want := topics.ShardOf(account, 5); int(record.Partition) != want {
			t.Errorf("%s: partition %d, shard %d", account, record.Partition, want)
		}
	}
}

func TestDeadLetterMayBeLargerThanWhatItHolds(t *testing.T) {
	t.Parallel()
	cfg, cl := setup(t, 1)
	if _, err := kafka.EnsureTopics(t.Context(), cfg, cl); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 1_100_000)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topics.DeadLetters, Key: []byte("a"), Value: large}).FirstErr(); err != nil {
		t.Error(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topics.Commands, Key: []byte("a"), Value: large}).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("command: %v", err)
	}
}

func TestSASLOpensAndItsPasswordIsNowhereToBeRead(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(mechanism), "ledger", password))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			core, logs := observer.New(zapcore.DebugLevel)
			open := func(secret string) (kafka.Config, error) {
				cfg := load(t, "KAFKA_BROKERS="+strings.Join(cluster.ListenAddrs(), ","), "LEDGER_SHARDS=1",
					"KAFKA_SASL_MECHANISM="+mechanism, "KAFKA_SASL_USERNAME=ledger", "KAFKA_SASL_PASSWORD="+secret)
				cl, err := kafka.NewClient(cfg, zap.New(core), kgo.RequestRetries(0))
				if err != nil {
					return cfg, err
				}
				defer cl.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				return cfg, cl.Ping(ctx)
			}
			cfg, err := open(password)
			if err != nil {
				t.Error(err)
			}
			_, wrong := open("S3cr3t-but-wrong")
			if wrong == nil {
				t.Error("a wrong password opens")
			}
			if all := fmt.Sprintf("%v %+v %v %v", cfg, cfg, wrong, logs.All()); strings.Contains(all, "S3cr3t") {
				t.Errorf("the secret is in %s", all)
			}
		})
	}
}

func TestBadSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"KAFKA_BROKERS=localhost", "KAFKA_BROKERS=,", "KAFKA_BROKERS=u:" + password + "@h:9092", "KAFKA_BROKER=h:9092",
		"LEDGER_SHARDS=0", "LEDGER_SHARDS=-4", "LEDGER_SHARDS=four", "LEDGER_SHARDS=1000000", "LEDGER_SHARD=4",
		"KAFKA_REPLICATION_FACTOR=0", "KAFKA_REPLICATION_FACTOR=-2", "KAFKA_REPLICATION_FACTOR=40000", "KAFKA_TLS=on", "KAFKA_CA_FILE=/tmp/x",
		"KAFKA_SASL_MECHANISM=gssapi", "KAFKA_SASL_MECHANISM=PLAIN",
	} {
		var cfg kafka.Config
		err := config.Load("test", &cfg, nil, []string{entry})
		key, _, _ := strings.Cut(entry, "=")
		if err == nil || !strings.Contains(err.Error(), "  "+key+": ") || strings.Contains(err.Error(), "S3cr3t") {
			t.Errorf("%s: %v", entry, err)
		}
	}
	var cfg kafka.Config
	err := config.Load("test", &cfg, nil, []string{"KAFKA_SASL_MECHANISM=plain"})
	if err == nil || !strings.Contains(err.Error(), "KAFKA_SASL_USERNAME") || !strings.Contains(err.Error(), "KAFKA_SASL_PASSWORD") {
		t.Errorf("got %v", err)
	}
	if err := config.Load("test", &cfg, nil, []string{"KAFKA_SASL_PASSWORD=" + password}); err == nil || strings.Contains(err.Error(), "S3cr3t") {
		t.Errorf("got %v", err)
	}
}
