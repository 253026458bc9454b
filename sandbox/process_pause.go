package sandbox

import (
	"fmt"
	"syscall"
)

// pause stops the child with SIGSTOP: it keeps its memory and its connections and answers nobody, like a machine that is cut off.
func (c *child) pause() error { return c.signal(syscall.SIGSTOP) }

// resume lets a paused child go on, as if no time had passed for it.
func (c *child) resume() error { return c.signal(syscall.SIGCONT) }

func (c *child) signal(s syscall.Signal) error {
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %s to process %d: %w", s, c.pid(), err)
	}
	return nil
}
