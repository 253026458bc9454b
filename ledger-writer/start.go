package writer

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/run"
)

// Start is the process: it reads its configuration and runs a writer until ctx ends. args are the arguments without the program's name.
func Start(ctx context.Context, args []string) error {
	var cfg Config
	command := &cobra.Command{
		Use:   "ledger-writer",
		Short: "Decide commands in Redis, commit the events to Kafka",
		Long: "ledger-writer reads ledger.commands, lets Redis decide each command, and commits events, replies and offsets in one Kafka\n" +
			"transaction. Run as many as there are shards; they share the shards by themselves. SIGTERM finishes the batch and leaves.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Resolve(cmd, "ledger-writer", &cfg, os.Environ()); err != nil {
				return err
			}
			return serve(cmd.Context(), cfg)
		},
	}
	config.Bind(command, &cfg)
	command.AddCommand(rebuildCommand())
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}

// GCPercent is how far a writer's heap grows over what is live, some tens of MiB, before it is collected; see run.TuneGC.
const GCPercent = 400

func serve(ctx context.Context, cfg Config) error {
	defer run.TuneGC(GCPercent)()
	logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	defer func() { _ = logger.Sync() }()
	reg, health := metrics.NewRegistry(), metrics.NewHealth()
	w, err := New(cfg, logger, reg, health)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	if cfg.Metrics.Addr != "" {
		group.Go(func() error { return metrics.Serve(ctx, cfg.Metrics.Addr, reg, health) })
	}
	group.Go(func() error { defer stop(); return w.Run(ctx) })
	return group.Wait()
}
