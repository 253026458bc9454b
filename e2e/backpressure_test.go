package e2e

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/sandbox"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

const (
	// backlogMin waits in Kafka at least, bytes, and heapMax of it, or for any other reason, may be in the process of writer and projector.
	backlogMin = 256 << 20
	heapMax    = 128 << 20
	// overload: so many times more is sent than decided.
	overload = 3
)

// Redis is slow, ClickHouse stands still, and callers send far more than can be decided: what is too much waits in Kafka and nowhere else, callers
// learn it, and once the engines are well again everything is decided and projected without anybody's help.
func TestMoreThanCanBeDecidedWaitsInKafka(t *testing.T) { // not in parallel: it looks at the heap of the process
	w, redis := apart(t)
	w.serve(t)
	for _, account := range crowd {
		mustApply(t, w.client, &ledgerv1.Command{CommandId: "open-" + account, Operation: ledgerv1.Operation_OPERATION_OPEN, Account: account, Currency: "EUR",
			Open: &ledgerv1.OpenTerms{Floor: "-1000000000"}})
	}
	before := heap()
	redis.Delay(30*time.Millisecond, 0) // of each 64 KiB of a call: some hundred commands a second
	must(t, w.engines.ClickHouse.Pause())
	flood := newFlood(t, w)
	most := uint64(0)
	for flood.bytes < backlogMin || !flood.beyond(t, w) {
		flood.send(t)
		most = max(most, heap())
	}
	t.Logf("%d MiB in Kafka; heap %d MiB before, %d MiB at most", flood.bytes>>20, before>>20, most>>20)
	if most > before+heapMax {
		t.Errorf("the heap grew from %d to %d MiB", before>>20, most>>20)
	}

	unknown := awaitHeldUp(t, w)

	redis.Delay(0, 0)
	must(t, w.engines.ClickHouse.Resume())
	w.awaitDecided(t)
	mustApply(t, w.client, unknown) // a retry learns what became of it
	w.awaitDecided(t)
	verdict := w.audit(t)
	if verdict.Events <= flood.count {
		t.Errorf("%d events of %d commands", verdict.Events, flood.count)
	}
}

var crowd = []string{"busy-1", "busy-2", "busy-3", "busy-4"}

// apart is a ledger whose engines all have processes of their own, so that this one holds the services alone, with a proxy before Redis.
func apart(t *testing.T) (*whole, *sandbox.Proxy) {
	t.Helper()
	broker, err := sandbox.StartKafkaProcess(t.Context(), sandbox.KafkaOptions{})
	must(t, err)
	t.Cleanup(func() { check(t, broker.Stop()) })
	engines, err := stack.Start(t.Context(), stack.Options{Shards: 4, ClickHouse: true, Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { check(t, engines.Close()) })
	server, err := sandbox.StartRedis(t.Context(), sandbox.RedisOptions{})
	must(t, err)
	t.Cleanup(func() { check(t, server.Stop()) })
	proxy, err := sandbox.StartProxy(server.Addr())
	must(t, err)
	t.Cleanup(proxy.Close)
	engines.Environ = append(engines.Environ, "KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","), "REDIS_ADDRS="+proxy.Addr())
	l, err := stack.Connect(engines, zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), "LEDGER_WRITER_INSTANCE_ID="+t.Name(), "LEDGER_WRITER_BATCH_RECORDS=1000")
	must(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	must(t, l.EnsureTopics(t.Context()))
	w := &whole{Ledger: l, engines: engines}
	w.client, err = l.Producer(t.Context(), "e2e")
	must(t, err)
	t.Cleanup(w.client.Close)
	return w, proxy
}

// check is must for what ends a test.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func mustApply(t *testing.T, client *producer.Client, c *ledgerv1.Command) {
	t.Helper()
	outcome, err := client.Submit(t.Context(), c)
	if err != nil || outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
		t.Fatalf("%s: %v %v", c.GetCommandId(), outcome, err)
	}
}

// heap is what this process still needs.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// flood sends large commands.
type flood struct {
	client *kgo.Client
	count  int
	bytes  int
}

func newFlood(t *testing.T, w *whole) *flood {
	t.Helper()
	client, err := kafka.NewClient(w.Writer.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	t.Cleanup(client.Close)
	return &flood{client: client}
}

// send waits until Kafka has some hundred more.
func (f *flood) send(t *testing.T) {
	t.Helper()
	const piece = 400
	records := make([]*kgo.Record, piece)
	for i := range records {
		account := crowd[f.count%len(crowd)]
		c := &ledgerv1.Command{
			CommandId: fmt.Sprintf("flood-%d", f.count), Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: account, Amount: "1", Currency: "EUR",
			Description: strings.Repeat("d", 1000), Metadata: map[string]string{},
		}
		for k := range 10 {
			c.Metadata[fmt.Sprint(k)] = strings.Repeat("m", 500)
		}
		value, err := proto.Marshal(c)
		must(t, err)
		records[i] = &kgo.Record{Topic: topics.Commands, Partition: int32(topics.ShardOf(account, 4)), Key: []byte(account), Value: value}
		f.count, f.bytes = f.count+1, f.bytes+len(value)
	}
	must(t, f.client.ProduceSync(t.Context(), records...).FirstErr())
}

// beyond tells whether so much more was sent than decided.
func (f *flood) beyond(t *testing.T, w *whole) bool {
	t.Helper()
	left, err := w.auditor().Undecided(bounded(t), w.Writer.Group)
	must(t, err)
	return f.count >= overload*(f.count-left)
}

// awaitHeldUp sends as a caller does, who first hears that the outcome is unknown, and cannot send any more while too many of those are open. It
// returns a command whose outcome is unknown.
func awaitHeldUp(t *testing.T, w *whole) *ledgerv1.Command {
	t.Helper()
	var cfg producer.Config
	must(t, config.Load("producer", &cfg, nil, append(w.Environ, "PRODUCER_SOURCE=impatient", "PRODUCER_OUTCOME_TIMEOUT=1s", "PRODUCER_IN_FLIGHT_MAX=128")))
	client, err := producer.New(t.Context(), cfg, zap.NewNop())
	must(t, err)
	defer client.Close()
	var first *producer.Pending
	for i, ctx := 0, bounded(t); ; i++ {
		must(t, ctx.Err())
		soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		p, err := client.Send(soon, &ledgerv1.Command{CommandId: fmt.Sprintf("caller-%d", i), Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: crowd[0], Amount: "1", Currency: "EUR"})
		cancel()
		if first == nil {
			first = p
		}
		if held := (*producer.NotSentError)(nil); errors.As(err, &held) {
			break
		}
		must(t, err)
	}
	if _, err := first.Wait(bounded(t)); !errors.Is(err, producer.ErrOutcomeTimeout) {
		t.Fatalf("a caller heard %v", err)
	}
	return first.Command()
}
