package writer

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// proxy stands before Redis and now and then loses the reply of a script: the request is executed, the connection ends.
type proxy struct {
	listener net.Listener
	target   string
	losing   atomic.Bool
	calls    atomic.Int64
	lost     atomic.Int64
	conns    sync.WaitGroup
}

// lossEvery: of so many calls, the reply of one is lost.
const lossEvery = 7 // a recovery of four shards needs four in a row

func (p *proxy) serve() {
	defer p.conns.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		var lose atomic.Bool
		p.conns.Add(2)
		go func() { // ends with either connection
			defer p.conns.Done()
			p.copy(server, client, func(request []byte) bool {
				if bytes.Contains(request, []byte("evalsha")) && p.losing.Load() && p.calls.Add(1)%lossEvery == 0 {
					lose.Store(true)
				}
				return true
			})
		}()
		go func() { // ends with either connection
			defer p.conns.Done()
			p.copy(client, server, func([]byte) bool {
				if lose.Load() {
					p.lost.Add(1)
				}
				return !lose.Load()
			})
		}()
	}
}

// copy forwards until an end closes or keep says to cut; then it closes both.
func (p *proxy) copy(to io.WriteCloser, from io.ReadCloser, keep func([]byte) bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !keep(buffer[:n]) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func TestLostRepliesOfScriptsDoubleNothing(t *testing.T) {
	t.Parallel()
	l := setup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: listener, target: l.redis.Addr()}
	p.conns.Add(1)
	go p.serve()
	t.Cleanup(func() {
		_ = listener.Close()
		_ = l.redis.Stop() // ends the connections
		p.conns.Wait()
	})
	w := l.writer(t)
	_ = w.rdb.Close()
	w.cfg.Redis.Addrs = []string{listener.Addr().String()}
	lossy, err := New(w.cfg, w.logger, prometheus.NewRegistry(), w.health)
	must(t, err)
	start(t, lossy)
	commands := traffic("lossy", 2000)
	l.during(t, commands, 20, func(piece int) {
		l.decided(t, piece*80+1)
		p.losing.Store(true)
	})
	l.decided(t, 1500)
	p.losing.Store(false)
	l.audit(t)
	if p.lost.Load() == 0 {
		t.Error("no reply was lost")
	}
}
