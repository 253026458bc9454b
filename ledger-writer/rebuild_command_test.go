package writer

import (
	"fmt"
	"testing"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/redis"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/schemas/topics"
)

func TestAnOperatorRebuildsShardsUnderLoad(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	commands := traffic("operator", 4000)
	l.during(t, commands, 9, func(piece int) {
		l.decided(t, piece*300+1)
		for shard := range shards {
			_, err := Rebuild(t.Context(), l.cfg, zap.NewNop(), shard, FromLog)
			if code := run.ExitCode(err); code != 0 && code != exitOvertaken && !redis.IsTransient(err) {
				t.Errorf("shard %d: %v", shard, err)
			}
		}
	})
	events := l.audit(t)
	l.repeated(t, events, commands[:100])
}

func TestARebuildSaysByItsStatusWhatItDid(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stop := l.run(t)
	l.send(t, open("a"))
	l.audit(t)
	l.send(t, credit("c1", "a", "1"))
	l.audit(t)
	must(t, stop())
	shard := topics.ShardOf("a", shards)
	status := func(shard int, from string) int {
		_, err := Rebuild(t.Context(), l.cfg, zap.NewNop(), shard, from)
		return run.ExitCode(err)
	}
	rows := l.rows(t)
	l.archived(t, rows[:1])
	must(t, l.rdb.FlushAll(t.Context()).Err())
	for want, call := range map[string]struct {
		shard int
		from  string
	}{
		"0 log": {shard, "log"}, "0 clickhouse": {shard, "clickhouse"}, "0 configured": {shard, ""},
		"2 no shard": {-1, "log"}, "2 beyond": {shards, "log"}, "2 source": {shard, "memory"},
		"4 not there": {(shard + 1) % shards, "clickhouse"},
	} {
		if got := status(call.shard, call.from); fmt.Sprint(got) != want[:1] {
			t.Errorf("%s: %d", want, got)
		}
	}
	must(t, l.rdb.FlushAll(t.Context()).Err())
	l.sendRaw(t, forged(shard))
	if got := status(shard, "log"); got != exitDamaged {
		t.Errorf("a damaged log: %d", got)
	}
	if n, err := l.rdb.Exists(t.Context(), "ledger:{"+fmt.Sprint(shard)+"}:head").Result(); err != nil || n != 0 {
		t.Errorf("a damaged log was rebuilt from: %d, %v", n, err)
	}
}
