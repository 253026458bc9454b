package redis_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startServer runs a private redis-server, or what SANDBOX_REDIS_BIN names in its place, on a free port until the test ends, and returns its address.
func startServer(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := exec.LookPath(cmp.Or(os.Getenv("SANDBOX_REDIS_BIN"), "redis-server"))
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = listener.Close()
	// The test's own context ends before its clean-ups; the server has to outlive the client.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary,
		append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", ""}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	var log strings.Builder
	for lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			return addr
		}
	}
	t.Fatalf("redis-server did not start:\n%s", log.String())
	return ""
}

func load(t *testing.T, environ ...string) redis.Config {
	t.Helper()
	var cfg redis.Config
	if err := config.Load("test", &cfg, nil, environ); err != nil {
		t.Fatal(err)
	}
	return cfg
}
