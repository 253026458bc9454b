package reconciler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/prometheus/client_golang/prometheus"
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
	config.Bind(root, &cfg)
	root.AddCommand(runCommand(&cfg, environ), serveCommand(&cfg, environ), breaksCommand(&cfg, environ), reportCommand(&cfg, environ),
		explainCommand(&cfg, environ), policyCommand(&cfg, environ), deadLettersCommand(&cfg, environ))
	return root
}

func runCommand(cfg *Config, environ []string) *cobra.Command {
	var output, date string
	var dryRun, incremental bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Reconcile the whole ledger once",
		Long: "Reconcile the whole ledger once: read Redis, wait until ClickHouse has the same events, check the log, compare every account at the\n" +
			"same sequence, repair what the log says should be, and leave evidence of the run in ClickHouse.\n\n" +
			"Exit status: 0 clean, 10 breaks found (repaired or not), 1 could not tell, 2 wrong usage.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"table", "json", "html", "markdown"}, output) {
				return run.WithExitCode(fmt.Errorf("--output: %q is none of table, json, html, markdown", output), ExitUsage)
			}
			if _, err := time.Parse(time.DateOnly, date); date != "" && err != nil {
				return run.WithExitCode(fmt.Errorf("--business-date: %w", err), ExitUsage)
			}
			if err := config.Resolve(cmd, service, cfg, environ); err != nil {
				return err
			}
			cfg.DryRun, cfg.Incremental = dryRun, incremental
			return runAndPrint(cmd, *cfg, output, date)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table for people, json for programs, html or markdown to forward")
	cmd.Flags().StringVar(&date, "business-date", "", "the day that the run closes, 2026-11-30; a day that is closed is not run again")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the repairs and issue none")
	cmd.Flags().BoolVar(&incremental, "incremental", false, "go on from what earlier runs verified, instead of from the beginning of the log")
	return cmd
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

func runAndPrint(cmd *cobra.Command, cfg Config, output, date string) error {
	logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	reg := metrics.NewRegistry()
	reconciler, err := New(cfg, logger, reg)
	if err != nil {
		return run.WithExitCode(err, ExitUsage)
	}
	defer func() { _ = reconciler.Close() }() // connections of a process that ends

	stop := serveMetrics(cmd.Context(), cfg, reg, logger)
	defer stop()
	var report *Report
	var runErr error
	if date == "" {
		report, runErr = reconciler.Run(cmd.Context())
	} else {
		var before bool
		if report, before, runErr = reconciler.RunFor(cmd.Context(), date); before {
			logger.Info("this day is closed already, its report is shown", zap.String("run", report.RunID))
			if output == "table" {
				output = "markdown"
			}
		}
		if report == nil {
			return run.WithExitCode(runErr, ExitCouldNotTell)
		}
	}
	if err := reconciler.print(cmd, report, output); err != nil {
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

// print writes a report. What is not made of the report alone is read from the evidence.
func (r *Reconciler) print(cmd *cobra.Command, report *Report, output string) error {
	switch {
	case output == "table":
		return report.WriteTable(cmd.OutOrStdout())
	case output == "json" && report.Mode != "":
		return report.WriteJSON(cmd.OutOrStdout())
	}
	stored, err := r.ReadReport(context.WithoutCancel(cmd.Context()), report.RunID)
	if err != nil {
		return errors.Join(report.WriteTable(cmd.OutOrStdout()), err)
	}
	return stored.write(cmd.OutOrStdout(), output)
}

// serveMetrics serves metrics until the returned func is called.
func serveMetrics(ctx context.Context, cfg Config, reg *prometheus.Registry, logger *zap.Logger) func() {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		if err := metrics.Serve(serving, cfg.Metrics.Addr, reg, metrics.NewHealth()); err != nil {
			logger.Warn("metrics are not served", zap.Error(err))
		}
	})
	return func() { stop(); wg.Wait() }
}

func serveCommand(cfg *Config, environ []string) *cobra.Command {
	return &cobra.Command{Use: "serve", Short: "Reconcile on a schedule; of several instances one leads", Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		if err := config.Resolve(cmd, service, cfg, environ); err != nil {
			return err
		}
		logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
		if err != nil {
			return err
		}
		reg := metrics.NewRegistry()
		r, err := New(*cfg, logger, reg)
		if err != nil {
			return run.WithExitCode(err, ExitUsage)
		}
		defer func() { _ = r.Close() }() // connections of a process that ends
		defer serveMetrics(cmd.Context(), *cfg, reg, logger)()
		return r.Serve(cmd.Context())
	}}
}
