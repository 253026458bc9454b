package sandbox

import (
	"context"
	"fmt"
	"sync"
)

// engine is the life of one engine in a process of its own; each kind embeds it and says how it starts. Safe for concurrent use.
type engine struct {
	name      string                      // for errors
	start     func(context.Context) error // sets process; called with mu held, or before anybody else has the engine
	removeDir func()                      // of a temporary directory

	mu      sync.Mutex
	process *child // nil while stopped
}

// PID of the running process, or 0.
func (e *engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return 0
	}
	return e.process.pid()
}

// Stop ends the process in good order and removes a temporary directory. A stopped one stays stopped: no error.
func (e *engine) Stop() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.removeDir()
	return e.halt()
}

func (e *engine) halt() error {
	if e.process == nil {
		return nil
	}
	err := e.process.stop()
	e.process = nil
	return err
}

// Kill ends the process with SIGKILL, as a crash would, and returns when it is gone.
func (e *engine) Kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process != nil {
		e.process.kill()
		e.process = nil
	}
}

// Restart starts the process again on the same ports and directory, after stopping it if it runs.
func (e *engine) Restart(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.halt(); err != nil {
		return err
	}
	return e.start(ctx)
}

// Pause stops the process with SIGSTOP: connections stay open and nobody is answered, until Resume.
func (e *engine) Pause() error { return e.signal((*child).pause) }

// Resume lets a paused process go on. What clients sent meanwhile it executes now.
func (e *engine) Resume() error { return e.signal((*child).resume) }

func (e *engine) signal(send func(*child) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return fmt.Errorf("%s is not running", e.name)
	}
	return send(e.process)
}
