package reconciler

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hotledger/hotledger/sandbox"
)

// asReconciler makes the test's own executable the command line, so that a test can kill it.
const asReconciler = "HOTLEDGER_TEST_AS_RECONCILER"

// process is a reconciler in a process of its own.
type process struct {
	w     *world
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan error

	mu    sync.Mutex
	lines []string
	line  *sync.Cond
	over  bool
}

// start runs `reconciler args`, with more in its environment. It is killed at the end of the test at the latest.
func (w *world) start(environ []string, args ...string) *process {
	w.t.Helper()
	p := &process{w: w, cmd: exec.Command(os.Args[0], args...), ended: make(chan error, 1)}
	p.line = sync.NewCond(&p.mu)
	p.cmd.Env = append(append(append(os.Environ(), w.environ()...), asReconciler+"=1", "LOG_LEVEL=info"), environ...)
	p.cmd.Stdout = &p.out
	log, err := p.cmd.StderrPipe()
	w.must(err)
	w.must(p.cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() { // ends with the process
		for scanner := bufio.NewScanner(log); scanner.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.line.Broadcast()
			p.mu.Unlock()
		}
	})
	go func() { // ends with the process
		reading.Wait()
		err := p.cmd.Wait()
		p.mu.Lock()
		p.over = true
		p.line.Broadcast()
		p.mu.Unlock()
		p.ended <- err
	}()
	stop := context.AfterFunc(w.ctx, func() { _ = p.cmd.Process.Kill() }) // whoever waits for a line then sees the end
	w.t.Cleanup(func() { stop(); _ = p.cmd.Process.Kill(); _ = p.wait() })
	return p
}

// says waits until the log has a line with the words.
func (p *process) says(words string) {
	p.w.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !strings.Contains(strings.Join(p.lines, "\n"), words) {
		if p.over {
			p.w.t.Fatalf("it ended without %q:\n%s", words, strings.Join(p.lines, "\n"))
		}
		p.line.Wait()
	}
}

func (p *process) said(words string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Count(strings.Join(p.lines, "\n"), words)
}

// wait returns the exit status; -1 for a signal.
func (p *process) wait() int {
	err := <-p.ended
	p.ended <- err
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return failed.ExitCode()
	}
	return 0
}

// gate stands between a reconciler and ClickHouse, and stops it at an insert: the n-th one into a table is kept until open.
type gate struct {
	proxy   *sandbox.Proxy
	reached chan struct{}
	open    func()

	mu   sync.Mutex
	seen int // inserts into the table
}

func (w *world) gate(table string, n int) *gate {
	w.t.Helper()
	proxy, err := sandbox.StartProxy(w.cfg.ClickHouse.Addrs[0])
	w.must(err)
	hold := make(chan struct{})
	g := &gate{proxy: proxy, reached: make(chan struct{}), open: sync.OnceFunc(func() { close(hold) })}
	proxy.Lose(func(request []byte) bool {
		if !bytes.Contains(request, []byte("INSERT")) || !bytes.Contains(request, []byte(table)) {
			return false
		}
		g.mu.Lock()
		g.seen++
		stop := g.seen == n
		g.mu.Unlock()
		if stop {
			close(g.reached)
			<-hold
		}
		return false
	})
	w.t.Cleanup(func() { g.open(); proxy.Close() })
	return g
}

// environ sends a reconciler through the gate.
func (g *gate) environ() []string { return []string{"CLICKHOUSE_ADDRS=" + g.proxy.Addr()} }

// stop waits until a reconciler is at the gate, and gives it a signal there.
func (g *gate) stop(t *testing.T, p *process, signal syscall.Signal) {
	t.Helper()
	select {
	case <-g.reached:
	case err := <-p.ended:
		p.ended <- err
		t.Fatalf("it ended before it was stopped: %v\n%s%s", err, &p.out, strings.Join(p.lines, "\n"))
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	p.wait()
	g.proxy.Cut() // what was kept never arrives
	g.open()
}
