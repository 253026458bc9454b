package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/projector"
)

// command is the tree of sub-commands: projector, projector export, projector migrate.
func command() *cobra.Command {
	var cfg projector.Config
	root := &cobra.Command{
		Use:   "projector",
		Short: "Copy the log (ledger.events) into ClickHouse, every event once",
		Long: "Copies the log (ledger.events) into ClickHouse, every event once, until it gets SIGTERM.\n" +
			"Each flag can be set by the environment variable in brackets; a flag wins.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Resolve(cmd, "projector", &cfg, os.Environ()); err != nil {
				return err
			}
			logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			defer logger.Sync() //nolint:errcheck // standard error has nothing to sync
			defer run.TuneGC(projector.GCPercent)()
			p, err := projector.New(cfg, logger, metrics.NewRegistry())
			if err != nil {
				return err
			}
			return p.Run(cmd.Context())
		},
	}
	config.Bind(root, &cfg)
	root.AddCommand(exportCommand(&cfg), &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables and views of ClickHouse up to date, and end",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Resolve(cmd, "projector", &cfg, os.Environ()); err != nil {
				return err
			}
			return projector.Migrate(cmd.Context(), cfg)
		},
	})
	return root
}
