package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopMax is how long a child may take to end after SIGTERM before it is killed.
const stopMax = 20 * time.Second

// outputBytesMax of a child's standard error is kept for error messages.
const outputBytesMax = 16 << 10

// child is a running engine. It dies with this process (on Linux), however this process ends.
type child struct {
	cmd    *exec.Cmd
	output *tail
	ended  chan struct{} // closed when the process is gone and waitErr is set
	err    error         // of Wait; read after ended is closed
}

// startChild starts the binary. stdout gets the child's standard output line by line until it closes; nil discards it.
func startChild(binary string, args []string, stdout func(line string)) (*child, error) {
	c := &child{cmd: exec.Command(binary, args...), //nolint:gosec // engines only, found by this package
		output: &tail{}, ended: make(chan struct{})}
	c.cmd.Stderr = c.output
	c.cmd.SysProcAttr = dieWithParent()
	var out *os.File
	if stdout != nil {
		reader, writer, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", binary, err)
		}
		out = reader
		c.cmd.Stdout = writer
		defer func() { _ = writer.Close() }() // the child has its own copy
	} else {
		c.cmd.Stdout = c.output
	}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that forked ends, so the thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		if out != nil {
			_ = out.Close()
		}
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	if out != nil {
		go func() { // ends when the child has closed its output
			defer func() { _ = out.Close() }()
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				stdout(lines.Text())
			}
		}()
	}
	return c, nil
}

// startListening starts one of this module's own engine commands and returns the addresses of its line "listening ADDR...".
func startListening(ctx context.Context, binary string, args []string) (*child, []string, error) {
	ready := make(chan []string, 1)
	var once sync.Once
	c, err := startChild(binary, args, func(line string) {
		if addrs, ok := strings.CutPrefix(line, "listening "); ok {
			once.Do(func() { ready <- strings.Fields(addrs) })
		}
	})
	if err != nil {
		return nil, nil, err
	}
	select {
	case addrs := <-ready:
		return c, addrs, nil
	case <-c.ended:
		return nil, nil, fmt.Errorf("start %s: %w: %s", binary, c.endedErr(), c.output)
	case <-ctx.Done():
		c.kill()
		return nil, nil, fmt.Errorf("start %s: %w: %s", binary, context.Cause(ctx), c.output)
	}
}

func (c *child) endedErr() error {
	if c.err != nil {
		return c.err
	}
	return errors.New("ended at once")
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the child to end, waits, and kills it when it takes too long. A child that is gone already is no error.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", c.pid(), err)
	}
	_ = c.cmd.Process.Signal(syscall.SIGCONT) // a paused child would not hear of it
	select {
	case <-c.ended:
		return nil
	case <-time.After(stopMax):
		c.kill()
		return fmt.Errorf("stop process %d: killed after %s: %s", c.pid(), stopMax, c.output)
	}
}

// kill sends SIGKILL and waits until the process is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only when the process is gone already
	<-c.ended
}

// tail keeps the end of what is written to it. Written by the copying goroutine of exec, read by whoever reports an error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if excess := len(t.text) - outputBytesMax; excess > 0 {
		t.text = t.text[excess:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// freePort asks the system for a free port on the loopback. Another process may take it before the caller does.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// dataDir returns dir, created when missing, or a new temporary directory and the func that removes it.
func dataDir(dir, engine string) (string, func(), error) {
	if dir == "" {
		temporary, err := os.MkdirTemp("", "hotledger-"+engine+"-")
		if err != nil {
			return "", nil, fmt.Errorf("create data directory: %w", err)
		}
		return temporary, func() { _ = os.RemoveAll(temporary) }, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", nil, fmt.Errorf("create data directory: %w", err)
	}
	return dir, func() {}, nil
}
