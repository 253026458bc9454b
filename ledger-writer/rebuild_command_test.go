package writer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

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
			var said bytes.Buffer
			err := rebuildOnce(t.Context(), l.cfg, zap.NewNop(), shard, fromLog, &said)
			if code := run.ExitCode(err); code != 0 && code != exitOvertaken {
				t.Errorf("shard %d: %v", shard, err)
			}
			if err == nil && !strings.Contains(said.String(), fmt.Sprintf("shard %d rebuilt to ", shard)) {
				t.Errorf("shard %d: said %q", shard, said.String())
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
	l.send(t, open("a"), credit("c1", "a", "1"))
	l.audit(t)
	must(t, stop())
	shard := topics.ShardOf("a", shards)
	status := func(shard int, from string) int {
		cfg := l.cfg
		if err := checkRebuild(&cfg, shard, from); err != nil {
			return 2
		}
		return run.ExitCode(rebuildOnce(t.Context(), cfg, zap.NewNop(), shard, from, &bytes.Buffer{}))
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
