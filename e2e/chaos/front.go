package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hotledger/hotledger/sandbox"
)

// front stands before a broker in a process of its own, so that requests are seen and answers lost there too. The broker names it as its
// address, so everybody comes this way, the broker itself included.
type front struct {
	listener net.Listener // of conversations
	target   string
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil after close
}

// startApache starts the real broker behind a front.
func (b *broker) startApache(ctx context.Context) error {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("front of a broker: %w", err)
	}
	address := inner.Addr().String()
	b.real, err = sandbox.StartApacheKafka(ctx, sandbox.ApacheKafkaOptions{Settings: map[string]string{"advertised.listeners": "PLAINTEXT://" + address}})
	if err != nil {
		_ = inner.Close()
		return err
	}
	b.front = &front{listener: &listener{inner, b}, target: b.real.Addr(), conns: map[net.Conn]bool{}}
	b.front.running.Go(b.front.serve) // ends with the listener
	return nil
}

// kill takes the real broker down with SIGKILL, and brings it back. What it acknowledged stays.
func (b *broker) kill(ctx context.Context, away func()) error {
	b.real.Kill()
	away()
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // whatever happens, it comes back
	defer cancel()
	return b.real.Restart(starting)
}

func (f *front) addr() string { return f.listener.Addr().String() }

func (f *front) serve() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		f.running.Go(func() { f.pair(client) }) // ends with either connection
	}
}

func (f *front) pair(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		return // the broker is down
	}
	defer func() { _ = server.Close() }()
	if !f.admit(client, server) {
		return
	}
	defer f.forget(client, server)
	var answers sync.WaitGroup
	answers.Go(func() {
		_ = answer(client, server) // whichever side ends, both do
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	answers.Wait()
}

// answer forwards answers, each in one piece: a conversation tells them by their beginnings.
func answer(client io.Writer, server io.Reader) error {
	for {
		var size [4]byte
		if _, err := io.ReadFull(server, size[:]); err != nil {
			return err
		}
		piece := slices.Concat(size[:], make([]byte, binary.BigEndian.Uint32(size[:])))
		if _, err := io.ReadFull(server, piece[len(size):]); err != nil {
			return err
		}
		if _, err := client.Write(piece); err != nil {
			return err
		}
	}
}

func (f *front) admit(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.conns == nil {
			return false
		}
		f.conns[c] = true
	}
	return true
}

func (f *front) forget(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		delete(f.conns, c)
	}
}

func (f *front) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
	f.mu.Unlock()
	f.running.Wait()
}
