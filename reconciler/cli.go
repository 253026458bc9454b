package reconciler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
)

// Exit statuses of `reconciler run`; 0 is clean.
const (
	ExitCouldNotTell = 1
	ExitUsage        = 2
	ExitBreaks       = 10
)

const service = "reconciler"

// Command is the command line. environ is what os.Environ gives. Its errors carry the exit status for run.Main.
func Command(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:           service,
		Short:         "Compare Redis with the log, and settle any difference",
		SilenceUsage:  true,
		SilenceErrors: true, // run.Main prints them
		Args:          usage(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return run.WithExitCode(err, ExitUsage) })

	var cfg Config
	var output string
	var dryRun bool
	runOnce := &cobra.Command{
		Use:   "run",
		Short: "Reconcile the whole ledger once",
		Long: "Reconcile the whole ledger once: read Redis, wait until ClickHouse has the same events, compare every account at the same\n" +
			"sequence, repair what the log says should be, and leave evidence of the run in ClickHouse.\n\n" +
			"Exit status: 0 clean, 10 breaks found (repaired or not), 1 could not tell, 2 wrong usage.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return run.WithExitCode(fmt.Errorf("--output: %q is neither table nor json", output), ExitUsage)
			}
			if err := config.Resolve(cmd, service, &cfg, environ); err != nil {
				return err
			}
			cfg.DryRun = dryRun
			return runAndPrint(cmd, cfg, output)
		},
	}
	config.Bind(runOnce, &cfg)
	runOnce.Flags().StringVarP(&output, "output", "o", "table", "table for people, json for programs")
	runOnce.Flags().BoolVar(&dryRun, "dry-run", false, "show the repairs and issue none")
	root.AddCommand(runOnce)
	return root
}

// Main runs the command line in the frame of the process.
func Main() {
	run.Main(service, func(ctx context.Context, args []string) error {
		cmd := Command(os.Environ())
		cmd.SetArgs(args)
		return cmd.ExecuteContext(ctx)
	})
}

func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return run.WithExitCode(check(cmd, args), ExitUsage) }
}

func runAndPrint(cmd *cobra.Command, cfg Config, output string) error {
	logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	reg := metrics.NewRegistry()
	reconciler, err := New(cfg, logger, reg)
	if err != nil {
		return err
	}
	defer func() { _ = reconciler.Close() }() // connections of a process that ends

	serving, stop := context.WithCancel(context.WithoutCancel(cmd.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		if err := metrics.Serve(serving, cfg.Metrics.Addr, reg, metrics.NewHealth()); err != nil {
			logger.Warn("metrics are not served", zap.Error(err))
		}
	})
	defer wg.Wait()
	defer stop()

	report, runErr := reconciler.Run(cmd.Context())
	write := report.WriteTable
	if output == "json" {
		write = report.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return errors.Join(runErr, err)
	}
	switch {
	case runErr != nil:
		return run.WithExitCode(runErr, ExitCouldNotTell)
	case report.Verdict == Breaks:
		return run.WithExitCode(errors.New(report.Headline()), ExitBreaks)
	}
	return nil
}
