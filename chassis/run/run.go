// Package run is the frame of a process: signals, the deadline of a drain, the exit status.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// DrainTimeout is how long a process may take to end after the first signal. It is below Kubernetes' default grace
// period of 30 s, so that the end is ours and not a SIGKILL. (Compose waits 10 s by default: set stop_grace_period.)
const DrainTimeout = 25 * time.Second

// Exit statuses that Main gives by itself.
const (
	exitFailed      = 1
	exitInterrupted = 130 // 128 + SIGINT, what shells expect of a program that was told twice
)

// SignalError is the cause of a context that a signal ended; context.Cause returns it.
type SignalError struct{ Signal syscall.Signal }

// Error names the signal.
func (e *SignalError) Error() string { return "received " + e.Signal.String() }

// ExitCode is 128 plus the signal's number: work was cut short. A service that drained returns nil instead, and exits 0.
func (e *SignalError) ExitCode() int { return 128 + int(e.Signal) }

// Main runs a process and does not return. start gets the arguments without the program's name, and a context that the
// first SIGTERM or SIGINT cancels with a *SignalError as its cause. It should drain and return nil. A second signal
// exits at once with 130; a drain that takes longer than DrainTimeout exits with 1. Otherwise the status is
// ExitCode of what start returned, and the error is printed.
func Main(service string, start func(ctx context.Context, args []string) error) {
	os.Exit(supervise(service, os.Args[1:], start, os.Stderr, DrainTimeout))
}

func supervise(service string, args []string, start func(context.Context, []string) error, stderr io.Writer, drain time.Duration) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- start(ctx, args) }() // left behind only when the process exits without it

	var deadline <-chan time.Time // nil until the first signal
	for {
		select {
		case err := <-ended:
			if cause, ok := errors.AsType[*SignalError](context.Cause(ctx)); ok && isBare(err) {
				err = cause
			}
			if err != nil && !errors.Is(err, pflag.ErrHelp) {
				_, _ = fmt.Fprintf(stderr, "%s: %v\n", service, err)
			}
			return ExitCode(err)
		case s := <-signals:
			if deadline != nil {
				_, _ = fmt.Fprintf(stderr, "%s: second signal, leaving without the drain\n", service)
				return exitInterrupted
			}
			deadline = time.After(drain)
			number, _ := s.(syscall.Signal)
			cancel(&SignalError{Signal: number})
		case <-deadline:
			_, _ = fmt.Fprintf(stderr, "%s: drain took longer than %s, leaving\n", service, drain)
			return exitFailed
		}
	}
}

// isBare is an error that says no more than that the context ended.
func isBare(err error) bool {
	var coded interface{ ExitCode() int }
	return errors.Is(err, context.Canceled) && !errors.As(err, &coded)
}

// ExitCode is the status that err stands for: 0 for nil and for an answered --help, the number that an error in its
// chain carries (WithExitCode, or any ExitCode method), 1 otherwise.
func ExitCode(err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	return exitFailed
}

// WithExitCode gives err the status code (1..125; shells use the rest). WithExitCode(nil, n) is nil.
func WithExitCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return &codedError{err: err, code: code}
}

type codedError struct {
	err  error
	code int
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }
func (e *codedError) ExitCode() int { return e.code }
