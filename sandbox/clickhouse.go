package sandbox

import (
	"context"
	"fmt"
)

// ClickHouseOptions of a ClickHouse in a process of its own.
type ClickHouseOptions struct {
	// Dir holds the data. Empty: a temporary directory that Stop removes.
	Dir string
	// Port of the HTTP interface on 127.0.0.1. 0: a free one, kept over Restart.
	Port int
}

// ClickHouse is a child process that serves ClickHouse's HTTP interface. After Kill, what an insert has acknowledged is on disk or in the page cache. Safe
// for concurrent use.
type ClickHouse struct {
	dir    string
	binary string
	addr   string // host:port; the port is 0 before the first start

	engine
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
	c := &ClickHouse{dir: dir, binary: binary, addr: fmt.Sprintf("127.0.0.1:%d", options.Port)}
	c.engine = engine{name: "clickhouse", start: c.launch, removeDir: remove}
	if err := c.launch(ctx); err != nil {
		remove()
		return nil, err
	}
	return c, nil
}

func (c *ClickHouse) launch(ctx context.Context) error {
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
