package sandbox_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hotledger/hotledger/sandbox"
)

func TestApacheKafkaKeepsTransactionsOverKillAndRestart(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	k, err := sandbox.StartApacheKafka(ctx, sandbox.ApacheKafkaOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, k.Stop()) })
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr()), kgo.TransactionalID("one"), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	must(t, err)
	t.Cleanup(client.Close)
	_, err = kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "t")
	must(t, err)
	must(t, client.BeginTransaction())
	must(t, client.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr())
	must(t, client.EndTransaction(ctx, kgo.TryCommit))
	k.Kill()
	must(t, k.Restart(ctx))
	if records := client.PollFetches(ctx).Records(); len(records) != 1 || string(records[0].Value) != "v" {
		t.Errorf("%v", records)
	}
}
