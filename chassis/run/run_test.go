package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"
)

// TestMain is also the process that the tests below start and send signals to.
func TestMain(m *testing.M) {
	if behaviour := os.Getenv("RUN_TEST_BEHAVIOUR"); behaviour != "" {
		os.Exit(supervise("service", nil, behaviours[behaviour], os.Stderr, drains[behaviour]))
	}
	goleak.VerifyTestMain(m)
}

// ready tells the parent that signals are caught from now on.
func ready() { fmt.Println("ready") }

var behaviours = map[string]func(context.Context, []string) error{
	"drains": func(ctx context.Context, _ []string) error {
		ready()
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return nil
	},
	"gives up": func(ctx context.Context, _ []string) error {
		ready()
		<-ctx.Done()
		return fmt.Errorf("submit: %w", ctx.Err())
	},
	"has a status": func(ctx context.Context, _ []string) error {
		ready()
		<-ctx.Done()
		return WithExitCode(fmt.Errorf("reconcile: %w", ctx.Err()), 10)
	},
	"hangs": func(ctx context.Context, _ []string) error {
		ready()
		<-ctx.Done()
		fmt.Println("draining")
		select {}
	},
	"hangs for long": func(ctx context.Context, _ []string) error {
		ready()
		<-ctx.Done()
		select {}
	},
}

var drains = map[string]time.Duration{
	"drains": time.Minute, "gives up": time.Minute, "has a status": time.Minute, "hangs": time.Minute,
	"hangs for long": time.Millisecond,
}

func TestSignalsEndAProcessWithAStatusThatSaysHow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		behaviour string
		signals   []syscall.Signal
		status    int
		says      string
	}{
		{"drains", []syscall.Signal{syscall.SIGTERM}, 0, "received terminated"},
		{"drains", []syscall.Signal{syscall.SIGINT}, 0, "received interrupt"},
		{"gives up", []syscall.Signal{syscall.SIGINT}, 130, "service: received interrupt"},
		{"gives up", []syscall.Signal{syscall.SIGTERM}, 143, "service: received terminated"},
		{"has a status", []syscall.Signal{syscall.SIGTERM}, 10, "service: reconcile: context canceled"},
		{"hangs", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 130, "second signal"},
		{"hangs for long", []syscall.Signal{syscall.SIGTERM}, 1, "drain took longer"},
	} {
		t.Run(fmt.Sprint(c.behaviour, c.signals), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "RUN_TEST_BEHAVIOUR="+c.behaviour)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stdout)
			for _, s := range c.signals { // each after the line that says that the one before has arrived
				if _, err := lines.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			rest, _ := io.ReadAll(lines)
			var exit *exec.ExitError
			if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
			if all := string(rest) + stderr.String(); !strings.Contains(all, c.says) {
				t.Errorf("says %q, want %q in it", all, c.says)
			}
		})
	}
}

func TestErrorsArePrintedOnceAndGiveTheStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{nil, 0, ""},
		{pflag.ErrHelp, 0, ""},
		{errors.New("no broker"), 1, "service: no broker\n"},
		{WithExitCode(errors.New("3 breaks"), 10), 10, "service: 3 breaks\n"},
		{fmt.Errorf("run: %w", WithExitCode(errors.New("3 breaks"), 10)), 10, "service: run: 3 breaks\n"},
		{context.Canceled, 1, "service: context canceled\n"}, // no signal: somebody forgot to say why
	} {
		var stderr strings.Builder
		status := supervise("service", []string{"a"}, func(_ context.Context, args []string) error {
			if len(args) != 1 || args[0] != "a" {
				t.Errorf("arguments %q", args)
			}
			return c.err
		}, &stderr, time.Minute)
		if status != c.status || stderr.String() != c.text {
			t.Errorf("%v: status %d, %q", c.err, status, stderr.String())
		}
	}
}

func TestNoErrorCarriesNoStatus(t *testing.T) {
	t.Parallel()
	if err := WithExitCode(nil, 10); err != nil {
		t.Errorf("got %v", err)
	}
	if !errors.Is(WithExitCode(io.EOF, 10), io.EOF) {
		t.Error("the error inside is lost")
	}
}
