package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// RedisOptions of a private redis-server.
type RedisOptions struct {
	// Dir for its files. Empty: a temporary directory that Stop removes.
	Dir string
	// Port on 127.0.0.1. 0: a free one, kept over Restart.
	Port int
	// AppendOnly switches the append-only file on, with Redis's default fsync each second. Default: no persistence at all.
	AppendOnly bool
	// ExtraArgs go to redis-server after the others and win, such as "--appendfsync", "always".
	ExtraArgs []string

	configFile string // goes before all arguments; Sentinel keeps its state there
}

// Redis is a private redis-server, or what SANDBOX_REDIS_BIN names in its place, with maxmemory-policy noeviction. Without AppendOnly it comes back
// empty from Restart. Safe for concurrent use.
type Redis struct {
	options RedisOptions

	engine
}

// ErrRedisMissing means that there is no redis-server in PATH, or none where SANDBOX_REDIS_BIN says.
var ErrRedisMissing = errors.New("redis-server not found, run scripts/install-engines.sh, or scripts/install-valkey.sh where SANDBOX_REDIS_BIN is Valkey's")

// redisBin is the server to start: a command in PATH, or a path. Valkey's takes the same arguments.
func redisBin() string { return cmp.Or(os.Getenv("SANDBOX_REDIS_BIN"), "redis-server") }

const (
	startAttemptsMax = 5 // of a server on a free port that somebody else may take first
	pollInterval     = 5 * time.Millisecond
)

// StartRedis starts a redis-server and returns when it answers. ctx bounds the start only.
func StartRedis(ctx context.Context, options RedisOptions) (*Redis, error) {
	dir, remove, err := dataDir(options.Dir, "redis")
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	r := &Redis{options: options}
	r.engine = engine{name: "redis-server", start: r.launch, removeDir: remove}
	for attempt := 1; ; attempt++ {
		if options.Port == 0 {
			if r.options.Port, err = freePort(); err != nil {
				break
			}
		}
		if err = r.launch(ctx); err == nil {
			return r, nil
		}
		if options.Port != 0 || attempt == startAttemptsMax || ctx.Err() != nil || errors.Is(err, ErrRedisMissing) {
			break
		}
	}
	remove()
	return nil, err
}

// start needs r.mu or sole ownership.
func (r *Redis) launch(ctx context.Context) error {
	binary, err := exec.LookPath(redisBin())
	if err != nil {
		return ErrRedisMissing
	}
	appendOnly := "no"
	if r.options.AppendOnly {
		appendOnly = "yes"
	}
	args := append([]string{"--port", strconv.Itoa(r.options.Port), "--bind", "127.0.0.1", "--dir", r.options.Dir, "--daemonize", "no",
		"--save", "", "--appendonly", appendOnly, "--maxmemory-policy", "noeviction"}, r.options.ExtraArgs...)
	if r.options.configFile != "" {
		args = append([]string{r.options.configFile}, args...)
	}
	process, err := startChild(binary, args, nil)
	if err != nil {
		return err
	}
	if err := waitForPong(ctx, r.Addr(), process); err != nil {
		process.kill()
		return fmt.Errorf("start redis-server: %w: %s", err, process.output)
	}
	r.process = process
	return nil
}

// waitForPong polls until the server answers PING and is the process that was started, not another one on its port.
func waitForPong(ctx context.Context, addr string, process *child) error {
	for {
		if pid, err := askPID(ctx, addr); err == nil && pid == process.pid() {
			return nil
		}
		select {
		case <-process.ended:
			return process.endedErr()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
}

// askPID reads the process id from INFO. While Redis loads its file it answers INFO but not commands, so PING comes first.
func askPID(ctx context.Context, addr string) (int, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte("PING\r\nINFO server\r\nQUIT\r\n")); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || lines.Text() != "+PONG" {
		return 0, fmt.Errorf("ping %s: %q", addr, lines.Text())
	}
	for lines.Scan() {
		if pid, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			return strconv.Atoi(pid)
		}
	}
	return 0, fmt.Errorf("ask %s for its process id: no answer", addr)
}

// Addr is host:port, the same over every Restart.
func (r *Redis) Addr() string { return fmt.Sprintf("127.0.0.1:%d", r.options.Port) }

// Dir holds the server's files.
func (r *Redis) Dir() string { return r.options.Dir }
