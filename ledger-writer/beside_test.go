package writer

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/topics"
)

// stall holds back every reading of a shard's events from the log's beginning, which only a rebuild does, until release is called.
// stalled is closed when there is one.
func (l *ledger) stall(t *testing.T, shard int) (stalled chan struct{}, release func()) {
	t.Helper()
	cluster := l.kafka.Cluster()
	id := cluster.TopicInfo(topics.Events).TopicID
	stalled, gate := make(chan struct{}), make(chan struct{})
	said := false
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for _, topic := range request.(*kmsg.FetchRequest).Topics {
			for _, p := range topic.Partitions {
				if topic.TopicID != id || p.Partition != int32(shard) || p.FetchOffset != 0 {
					continue
				}
				if !said {
					said = true
					close(stalled)
				}
				cluster.SleepControl(func() { <-gate })
			}
		}
		return nil, nil, false
	})
	released := false
	release = func() {
		if !released {
			released = true
			close(gate)
		}
	}
	t.Cleanup(release)
	return stalled, release
}

// elsewhere is an account of another shard than this one.
func elsewhere(shard int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("elsewhere-%d", i); topics.ShardOf(name, shards) != shard {
			return name
		}
	}
}

func TestOtherShardsGoOnWhileOneIsRebuilt(t *testing.T) {
	t.Parallel()
	l := setup(t)
	w := l.writer(t)
	w.besideEvents = 100
	start(t, w)
	shard, other := topics.ShardOf("a", shards), elsewhere(topics.ShardOf("a", shards))
	l.send(t, open("a"), open(other))
	for i := range 200 {
		l.send(t, credit(fmt.Sprintf("c%d", i), "a", "1"))
	}
	l.audit(t)
	stalled, release := l.stall(t, shard)
	must(t, l.rdb.Del(t.Context(), lua.AccountsKey(shard), lua.OutcomesKey(shard), lua.OutboxKey(shard), lua.HeadKey(shard)).Err())
	l.send(t, debit("waits", "a", "1"))
	<-stalled
	ends, err := l.admin.ListEndOffsets(t.Context(), topics.Events)
	must(t, err)
	for i := range 20 { // each in a batch of its own, committed while commands of the rebuilt shard wait
		l.send(t, credit(fmt.Sprintf("goes on %d", i), other, "1"), credit(fmt.Sprintf("waits %d", i), "a", "1"))
		until(t, "decided", func() string {
			if a, _, err := l.store.Account(t.Context(), topics.ShardOf(other, shards), other); err != nil || a.Balance != int64(i)+1 {
				return fmt.Sprintf("%d of %d, %v", a.Balance, i+1, err)
			}
			return ""
		})
	}
	after, err := l.admin.ListEndOffsets(t.Context(), topics.Events)
	must(t, err)
	if from, to := ends[topics.Events][int32(shard)].Offset, after[topics.Events][int32(shard)].Offset; from != to {
		t.Errorf("events from offset %d to %d: a shard without state decided something", from, to)
	}
	release()
	events := l.audit(t)
	if got := events["waits 19"].GetOutcome().GetAfter().GetBalance(); got != "219" {
		t.Errorf("balance %s", got)
	}
}

func TestARebuildEndsWithItsTenureAndWithItsShard(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stop := l.run(t)
	l.send(t, open("a"))
	for i := range 100 {
		l.send(t, credit(fmt.Sprintf("c%d", i), "a", "1"))
	}
	l.audit(t)
	must(t, stop())
	shard := topics.ShardOf("a", shards)
	must(t, l.rdb.FlushAll(t.Context()).Err())
	stalled, release := l.stall(t, shard)
	w := l.writer(t)
	w.besideEvents = 10
	stop = start(t, w)
	<-stalled
	must(t, stop()) // in the middle
	release()
	for range 3 { // shards change hands while they are rebuilt
		w := l.writer(t)
		w.besideEvents = 10
		start(t, w)
		must(t, l.rdb.FlushAll(t.Context()).Err())
	}
	l.send(t, credit("last", "a", "1"))
	events := l.audit(t)
	if got := events["last"].GetOutcome().GetAfter().GetBalance(); got != "101" {
		t.Errorf("balance %s", got)
	}
}
