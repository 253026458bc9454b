package sandbox

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy stands before a server (TCP) and spoils its connections on demand: replies get lost, requests and replies come late, connections are
// cut or refused. Fresh from StartProxy it only forwards. Safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	lost     atomic.Int64
	running  sync.WaitGroup

	mu                    sync.Mutex
	lose                  func(request []byte) bool // nil = nothing
	lateRequest, lateBack time.Duration
	refusing              bool
	conns                 map[net.Conn]struct{} // both ends of every pair; nil after Close
}

// StartProxy listens on a free port of 127.0.0.1 and forwards to target, host:port, which may come and go.
func StartProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy before %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	p.running.Go(p.serve)
	return p, nil
}

// Addr is host:port to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Lose makes replies get lost: match sees each piece of a request as it arrives; where it says true the piece still reaches the server,
// but the connection ends with the first byte of the answer. nil ends it.
func (p *Proxy) Lose(match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = match
}

// Lost counts the answers that were lost so far.
func (p *Proxy) Lost() int64 { return p.lost.Load() }

// Delay holds every piece of a request, or of an answer, back for so long. A request reaches the server though its sender has hung up
// meanwhile. 0 and 0 end it.
func (p *Proxy) Delay(request, answer time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lateRequest, p.lateBack = request, answer
}

// Refuse ends every new connection at once, while true.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Cut ends every open connection; new ones are served.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Close ends the listener and every connection, and waits for them.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
	p.mu.Lock()
	p.conns = nil
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.pair(client) }) // ends with either connection
	}
}

// pair serves one connection.
func (p *Proxy) pair(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !p.admit(client, server) {
		return
	}
	defer p.forget(client, server)
	var doomed atomic.Bool // the next answer gets lost
	var answers sync.WaitGroup
	answers.Go(func() {
		forward(client, server, func([]byte) bool {
			_, late, _ := p.mood()
			time.Sleep(late)
			if doomed.Load() {
				p.lost.Add(1)
			}
			return !doomed.Load()
		})
		_ = client.Close()
		_ = server.Close()
	})
	forward(server, client, func(request []byte) bool {
		late, _, lose := p.mood()
		if lose != nil && lose(request) {
			doomed.Store(true)
		}
		time.Sleep(late)
		return true
	})
	_ = server.Close()
	_ = client.Close()
	answers.Wait()
}

func (p *Proxy) mood() (request, answer time.Duration, lose func([]byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lateRequest, p.lateBack, p.lose
}

func (p *Proxy) admit(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.conns == nil {
		return false
	}
	for _, conn := range conns {
		p.conns[conn] = struct{}{}
	}
	return true
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.conns, conn)
	}
}

// forward copies until either end closes or pass says no.
func forward(to, from net.Conn, pass func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !pass(buffer[:n]) {
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
