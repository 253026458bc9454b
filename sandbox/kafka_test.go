package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotledger/hotledger/sandbox"
)

func kafkaClient(t *testing.T, addrs []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addrs...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func createTopic(t *testing.T, ctx context.Context, client *kgo.Client, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 2, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func TestKafkaInProcessCreatesNoTopicByItselfAndTakesFaults(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	kafka, err := sandbox.StartKafka(sandbox.KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	client := kafkaClient(t, kafka.Addrs(), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "nowhere", Value: []byte("v")}).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatal(err)
	}
	createTopic(t, ctx, client, "t")
	failed := false
	kafka.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		failed = true
		return nil, errors.New("the connection breaks"), true
	})
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err) // the client tries again
	}
	if !failed {
		t.Fatal("the fault was not injected")
	}
}

func TestKafkaProcessKeepsRecordsAndOffsetsOverKillAndStop(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	kafka, err := sandbox.StartKafkaProcess(ctx, sandbox.KafkaOptions{SyncWrites: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kafka.Stop(); err != nil {
			t.Error(err)
		}
	})
	client := kafkaClient(t, kafka.Addrs(), kgo.TransactionalID("writer"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
	createTopic(t, ctx, client, "t")
	addrs := fmt.Sprint(kafka.Addrs())
	end := func(stop func()) int64 {
		t.Helper()
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: 0, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := kafka.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(kafka.Addrs()); got != addrs {
			t.Fatalf("moved from %s to %s", addrs, got)
		}
		fresh := kafkaClient(t, kafka.Addrs(), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		ends, err := kadm.NewClient(fresh).ListCommittedOffsets(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		var records int64
		ends.Each(func(offset kadm.ListedOffset) { records += offset.Offset })
		read := int64(0)
		for read < records-markers(records) {
			fetches := fresh.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			read += int64(fetches.NumRecords())
		}
		return read
	}
	if n := end(kafka.Kill); n != 1 {
		t.Fatal(n, "records after kill")
	}
	if n := end(func() {}); n != 2 {
		t.Fatal(n, "records after stop")
	}
}

// markers counts the transaction markers among offsets: here every transaction holds one record.
func markers(offsets int64) int64 { return offsets / 2 }
