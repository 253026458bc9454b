package sandbox

import (
	"context"
	"fmt"
	"sync"
)

// ClickHouseOptions of a ClickHouse in a process of its own.
type ClickHouseOptions struct {
	// Dir holds the data. Empty: a temporary directory that Stop removes.
	Dir string
	// Port of the HTTP interface on 127.0.0.1. 0: a free one, kept over Restart.
	Port int
}

// ClickHouse is a child process that serves ClickHouse's HTTP interface. Safe for concurrent use.
type ClickHouse struct {
	dir       string
	removeDir func()
	binary    string
	addr      string // host:port; the port is 0 before the first start

	mu      sync.Mutex
	process *child // nil while stopped
}

// StartClickHouse starts sandbox-clickhouse and returns when it answers, usually within half a second; the first start on a machine
// also builds the command. ctx bounds the start only. A missing libchdb.so is an error that says how to install it.
func StartClickHouse(ctx context.Context, options ClickHouseOptions) (*ClickHouse, error) {
	binary, err := engineBinary(ctx, "sandbox-clickhouse")
	if err != nil {
		return nil, err
	}
	dir, remove, err := dataDir(options.Dir, "clickhouse")
	if err != nil {
		return nil, err
	}
	c := &ClickHouse{dir: dir, removeDir: remove, binary: binary, addr: fmt.Sprintf("127.0.0.1:%d", options.Port)}
	if err := c.start(ctx); err != nil {
		remove()
		return nil, err
	}
	return c, nil
}

func (c *ClickHouse) start(ctx context.Context) error {
	process, addrs, err := startListening(ctx, c.binary, []string{"-dir", c.dir, "-addr", c.addr})
	if err != nil {
		return err
	}
	c.process, c.addr = process, addrs[0]
	return nil
}

// Addr is host:port of the HTTP interface, the same over every Restart.
func (c *ClickHouse) Addr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addr
}

// Dir holds the data.
func (c *ClickHouse) Dir() string { return c.dir }

// PID of the running process, or 0.
func (c *ClickHouse) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.pid()
}

// Stop ends the process in good order and removes a temporary directory.
func (c *ClickHouse) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.removeDir()
	return c.halt()
}

func (c *ClickHouse) halt() error {
	if c.process == nil {
		return nil
	}
	err := c.process.stop()
	c.process = nil
	return err
}

// Kill ends the process with SIGKILL and returns when it is gone. What an insert has acknowledged is on disk or in the page cache.
func (c *ClickHouse) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.kill()
		c.process = nil
	}
}

// Restart starts the process again on the same port and directory, after stopping it if it runs.
func (c *ClickHouse) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.halt(); err != nil {
		return err
	}
	return c.start(ctx)
}
