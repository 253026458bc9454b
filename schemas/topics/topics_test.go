package topics_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/schemas/topics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The hashes are those of Kafka's own UtilsTest.testMurmur2.
func TestShardOfIsKafkasDefaultPartitioner(t *testing.T) {
	t.Parallel()
	for key, hash := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		for _, n := range []int{1, 2, 4, 7, 64, 1000} {
			want := int(uint32(hash)&0x7fffffff) % n
			if got := topics.ShardOf(key, n); got != want {
				t.Errorf("ShardOf(%q, %d) = %d, want %d", key, n, got, want)
			}
			if got := topics.PartitionOf(key, n); int(got) != want {
				t.Errorf("PartitionOf(%q, %d) = %d, want %d", key, n, got, want)
			}
		}
	}
}

func TestTheEmptyKeyHasAFixedPartition(t *testing.T) {
	t.Parallel()
	want := topics.PartitionOf("", 1000)
	for range 100 {
		if got := topics.PartitionOf("", 1000); got != want {
			t.Fatalf("PartitionOf(\"\", 1000) = %d, then %d", want, got)
		}
	}
}

func TestShardOfServesManyGoroutines(t *testing.T) {
	t.Parallel()
	const keys, shards = 2000, 64
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("")
	want := make([]int, keys)
	for i := range want {
		want[i] = partitioner.Partition(&kgo.Record{Key: []byte(strconv.Itoa(i))}, shards)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range want {
				if got := topics.ShardOf(strconv.Itoa(i), shards); got != want[i] {
					t.Errorf("ShardOf(%d) = %d, want %d", i, got, want[i])
				}
			}
		})
	}
	all.Wait()
}

func TestTheLogIsNeverCompactedOrExpired(t *testing.T) {
	t.Parallel()
	events := topicOf(t, topics.Events)
	required := strings.Join(events.Required, " ")
	for config, want := range map[string]string{
		"cleanup.policy":         "delete",
		"retention.ms":           "-1",
		"retention.bytes":        "-1",
		"message.timestamp.type": "LogAppendTime",
	} {
		if got := events.Configs[config]; got != want {
			t.Errorf("%s: %s=%s, want %s", events.Name, config, got, want)
		}
		if !strings.Contains(required, config) {
			t.Errorf("%s: %s is not checked at every start", events.Name, config)
		}
	}
}

func TestNoTopicIsCompacted(t *testing.T) {
	t.Parallel()
	for _, topic := range topics.Table() {
		if got := topic.Configs["cleanup.policy"]; got != "delete" {
			t.Errorf("%s: cleanup.policy=%s", topic.Name, got)
		}
	}
}

func TestTheTableIsComplete(t *testing.T) {
	t.Parallel()
	for _, name := range []string{topics.Commands, topics.Events, topics.Replies, topics.DeadLetters} {
		topic := topicOf(t, name)
		if topic.Key == "" || topic.Purpose == "" || len(topic.Required) == 0 {
			t.Errorf("%s: key, purpose or required configs missing", name)
		}
		for _, config := range topic.Required {
			if topic.Configs[config] == "" {
				t.Errorf("%s: %s is required and has no value", name, config)
			}
		}
	}
	if got := len(topics.Table()); got != 4 {
		t.Errorf("%d topics in the table, want 4", got)
	}
}

func TestTheTableIsTheCallers(t *testing.T) {
	t.Parallel()
	topics.Table()[1].Configs["retention.ms"] = "1"
	if got := topicOf(t, topics.Events).Configs["retention.ms"]; got != "-1" {
		t.Errorf("a caller changed the table: retention.ms=%s", got)
	}
}

func topicOf(t *testing.T, name string) topics.Topic {
	t.Helper()
	for _, topic := range topics.Table() {
		if topic.Name == name {
			return topic
		}
	}
	t.Fatalf("no topic %s in the table", name)
	return topics.Topic{}
}

func BenchmarkShardOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		topics.ShardOf("Assets:US:BofA:Checking", 64)
	}
}
