package writer

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotledger/hotledger/sandbox"
)

// lossEvery: of so many calls, the reply of one is lost.
const lossEvery = 7 // a recovery of four shards needs four in a row

func TestLostRepliesOfScriptsDoubleNothing(t *testing.T) {
	t.Parallel()
	l := setup(t)
	p, err := sandbox.StartProxy(l.redis.Addr())
	must(t, err)
	t.Cleanup(p.Close)
	w := l.writer(t)
	_ = w.rdb.Close()
	w.cfg.Redis.Addrs = []string{p.Addr()}
	lossy, err := New(w.cfg, w.logger, prometheus.NewRegistry(), w.health)
	must(t, err)
	start(t, lossy)
	var calls atomic.Int64
	commands := traffic("lossy", 2000)
	l.during(t, commands, 20, func(piece int) {
		l.decided(t, piece*80+1)
		p.Lose(func(request []byte) bool {
			return bytes.Contains(request, []byte("evalsha")) && calls.Add(1)%lossEvery == 0
		})
	})
	l.decided(t, 1500)
	p.Lose(nil)
	l.audit(t)
	if p.Lost() == 0 {
		t.Error("no reply was lost")
	}
}
