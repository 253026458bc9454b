package writer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/schemas/topics"
)

func (l *ledger) members(t *testing.T, n int) {
	t.Helper()
	until(t, "group stable", func() string {
		info := l.kafka.Cluster().GroupInfo(l.cfg.Group)
		if info == nil {
			return "unknown"
		}
		if len(info.Members) != n {
			return fmt.Sprintf("%d members, not %d", len(info.Members), n)
		}
		return ""
	})
}

func TestWritersThatComeAndGoGiveEveryCommandOneOutcome(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stops := []func() error{l.run(t)}
	l.during(t, traffic("change", 4000), 8, func(piece int) {
		l.decided(t, piece*350+1)
		switch piece {
		case 0, 1, 5:
			stops = append(stops, l.run(t))
		case 3, 4, 6:
			must(t, stops[0]())
			stops = stops[1:]
		}
	})
	l.audit(t)
	l.members(t, len(stops))
}

func TestTheEndOfItsContextFinishesTheBatchAndLeavesTheGroup(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.during(t, traffic("stop", 3000), 6, func(piece int) {
		stop := l.run(t)
		l.decided(t, piece*250+1) // in the middle
		must(t, stop())
		l.members(t, 0)
		for shard := range shards {
			if n, err := l.rdb.XLen(t.Context(), "ledger:{"+fmt.Sprint(shard)+"}:outbox").Result(); err != nil || n > 0 {
				t.Errorf("%d entries left in the outbox of shard %d, %v", n, shard, err)
			}
		}
	})
	l.run(t)
	l.audit(t)
}

func TestAStopBeforeAnythingRunsIsClean(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stop := l.run(t)
	must(t, stop())
	l.redis.Kill()
	stop = l.run(t) // waits for Redis
	must(t, stop())
}

func TestAnEvictingRedisIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, open("a"))
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		must(t, l.rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		err := fails(t, l.writer(t))
		for _, word := range []string{policy, "maxmemory-policy", "noeviction"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error does not say %q: %v", policy, word, err)
			}
		}
	}
	if n := len(l.read(t, topics.Events)); n != 0 {
		t.Errorf("%d events", n)
	}
}

func TestTopicsThatContradictTheLedgerAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.cfg.Kafka.Shards = shards * 2
	if err := fails(t, l.writer(t)); !strings.Contains(err.Error(), "LEDGER_SHARDS") {
		t.Errorf("another number of shards: %v", err)
	}
}
