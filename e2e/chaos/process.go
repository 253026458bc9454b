package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// binaries are the real services; the writer has its traps.
type binaries struct{ writer, projector string }

// build builds the services into dir.
func build(ctx context.Context, dir string) (binaries, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..")
	b := binaries{writer: filepath.Join(dir, "ledger-writer"), projector: filepath.Join(dir, "projector")}
	for module, output := range map[string]string{"ledger-writer": b.writer, "projector": b.projector} {
		command := exec.CommandContext(ctx, "go", "build", "-tags", "traps", "-o", output, "./cmd/"+module) //nolint:gosec // this repository's own commands
		command.Dir = filepath.Join(root, module)
		if out, err := command.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build %s: %w: %s", module, err, out)
		}
	}
	return b, nil
}

// restartAfter is how soon a service that died is started again, where no fault says otherwise.
const restartAfter = 300 * time.Millisecond

// service is one service in a process of its own. It is started again when it dies. Safe for concurrent use.
type service struct {
	name, binary string
	environ      []string
	logFile      string
	complain     func(format string, args ...any) // of an end that nobody asked for

	mu      sync.Mutex
	cmd     *exec.Cmd     // nil while it does not run
	ended   chan struct{} // of cmd
	leaving bool          // asked to stop: its end is no surprise
	down    bool          // stays down until start
	closed  bool
	trapped bool
	starts  int
	revive  *time.Timer
}

// start runs the service, if it does not run. trap is "" or HOTLEDGER_TRAP's value.
func (s *service) start(trap string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startLocked(trap)
}

func (s *service) startLocked(trap string) error {
	s.down = false
	if s.cmd != nil || s.closed {
		return nil
	}
	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.binary) //nolint:gosec // built by this run
	s.starts++
	cmd.Env = append(append(os.Environ(), s.environ...), "KAFKA_CLIENT_ID="+s.clientIDLocked())
	cmd.Stdout, cmd.Stderr = log, log
	if trap != "" {
		cmd.Env = append(cmd.Env, "HOTLEDGER_TRAP="+trap)
	}
	cmd.SysProcAttr = withParent()
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that forked ends, so the thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
			_ = log.Close()
			s.over(cmd, err)
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		_ = log.Close()
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.cmd, s.ended, s.leaving, s.trapped = cmd, ended, false, trap != ""
	return nil
}

// clientIDLocked names this life of the service to the broker.
func (s *service) clientIDLocked() string { return fmt.Sprintf("%s.%d", s.name, s.starts) }

// lives tells whether a client id is that of the process that runs now.
func (s *service) lives(clientID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil && s.clientIDLocked() == clientID
}

// over notes an end, and brings the service back unless it is to stay down.
func (s *service) over(cmd *exec.Cmd, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != cmd {
		return
	}
	s.cmd = nil
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL
	dumped := s.leaving && status.ExitStatus() == 2                               // by SIGQUIT
	early := s.leaving && status.Signaled() && status.Signal() == syscall.SIGTERM // it had no time yet to listen for it
	if !killed && !dumped && !early && (!s.leaving || err != nil) {
		s.complain("%s ended by itself: %v: %s", s.name, err, lastLine(s.logFile))
	}
	if !s.down && !s.closed {
		s.revive = time.AfterFunc(restartAfter, func() { _ = s.start("") })
	}
}

// kill sends SIGKILL and waits until the service is gone. It stays down until start.
func (s *service) kill() {
	cmd, ended := s.leave(false)
	if cmd != nil {
		_ = cmd.Process.Kill()
		<-ended
	}
}

// leave keeps the service down from its end on.
func (s *service) leave(asked bool) (*exec.Cmd, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.leaving = true, asked
	if s.revive != nil {
		s.revive.Stop()
	}
	return s.cmd, s.ended
}

// running tells whether there is a process.
func (s *service) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
}

// killNow sends SIGKILL and does not wait; the service comes back by itself.
func (s *service) killNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
	}
}

// stopMax is how long a good end may take; longer is a fault of its own.
const stopMax = 25 * time.Second

// stop asks for a good end and waits. The service stays down until start.
func (s *service) stop() {
	s.mu.Lock()
	already := s.leaving && s.cmd != nil
	s.mu.Unlock()
	cmd, ended := s.leave(true)
	if cmd == nil {
		return
	}
	if already { // a second SIGTERM means "at once"
		<-ended
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopMax):
		s.complain("%s did not end within %s of SIGTERM", s.name, stopMax)
		_ = cmd.Process.Kill()
		<-ended
	}
}

// signal sends SIGSTOP or SIGCONT.
func (s *service) signal(which syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(which)
	}
}

// disarm makes sure that the service runs without a trap.
func (s *service) disarm() {
	s.mu.Lock()
	trapped := s.trapped && s.cmd != nil
	s.mu.Unlock()
	if trapped {
		s.kill()
	}
}

// close ends the service for good.
func (s *service) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.kill()
}

// lastLine of a log, for a message.
func lastLine(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // in this run's own directory
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}
