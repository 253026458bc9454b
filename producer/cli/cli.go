// Package cli is the command line of the producer: submit and import. Data goes to standard output, messages to
// standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/producer"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
)

// The exit statuses.
const (
	exitUsage    = 2
	exitRejected = 4
	exitUnknown  = 5
)

// Config of the command line.
type Config struct {
	Producer producer.Config
	Log      log.Config
}

// Start runs the command line with the process's own streams and environment. Exit statuses: 0 applied, 1 error,
// 2 usage, 4 rejected or invalid (import: not every line went in), 5 outcome unknown.
func Start(ctx context.Context, args []string) error {
	return Run(ctx, args, os.Environ(), os.Stdout, os.Stderr)
}

// Run is Start with streams and environment of the caller's.
func Run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	root := newRoot(environ)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

func newRoot(environ []string) *cobra.Command {
	cfg := &Config{}
	root := &cobra.Command{
		Use:   "producer",
		Short: "Send commands to the ledger",
		Example: `  producer submit open --account alice --currency USD
  producer submit credit --account alice --amount 100.00 --currency USD
  producer submit debit --account alice --amount 12.50 --currency USD --id order-4711
  producer submit transfer --account alice --to bob --amount 30.00 --currency USD
  producer import --dry-run commands.csv
  producer import --open-accounts --overdraft Liabilities:=-1000000.00 commands.csv`,
		Long: `Send commands to the ledger and print what became of them.

Exit status: 0 applied, 1 error, 2 usage, 4 rejected or invalid, 5 outcome unknown.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q; see producer --help", args[0])
			}
			return cmd.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return run.WithExitCode(err, exitUsage) })
	config.Bind(root, cfg)
	connect := func(cmd *cobra.Command) (*producer.Client, error) { return connect(cmd, cfg, environ) }
	root.AddCommand(newSubmit(connect), newImport(connect))
	return root
}

// connector resolves the configuration and connects.
type connector func(cmd *cobra.Command) (*producer.Client, error)

func connect(cmd *cobra.Command, cfg *Config, environ []string) (*producer.Client, error) {
	if err := config.Resolve(cmd, "producer", cfg, environ); err != nil {
		return nil, err
	}
	logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return nil, err
	}
	return producer.New(cmd.Context(), cfg.Producer, logger.With(zap.String("service", "producer")))
}

func usagef(format string, args ...any) error {
	return run.WithExitCode(fmt.Errorf(format, args...), exitUsage)
}

// exitCode gives the errors of the SDK their exit statuses.
func exitCode(err error) error {
	var invalid *producer.InvalidCommandError
	switch {
	case errors.Is(err, producer.ErrOutcomeUnknown):
		return run.WithExitCode(err, exitUnknown)
	case errors.As(err, &invalid):
		return run.WithExitCode(err, exitRejected)
	}
	return err
}

const (
	outputTable = "table"
	outputJSON  = "json"
)

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", outputTable, "table for people, json for programs")
}

func checkOutput(output string) error {
	if output != outputTable && output != outputJSON {
		return usagef("--output %q: want table or json", output)
	}
	return nil
}
