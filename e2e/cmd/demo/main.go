// Command demo shows the whole ledger on real input. It exits with 0 only if everything agreed.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/demo"
)

func main() { run.Main("demo", start) }

func start(ctx context.Context, args []string) error {
	keep, level := false, ""
	command := &cobra.Command{
		Use: "demo", Short: "The whole ledger on real input: import, compare, break, reconcile, repair", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.New(level, "console")
			if err != nil {
				return err
			}
			return demo.Run(cmd.Context(), demo.Options{Keep: keep, Logger: logger, Out: os.Stdout})
		},
	}
	command.Flags().BoolVar(&keep, "keep", false, "leave the engines running at the end, and say how to ask them")
	command.Flags().StringVar(&level, "log-level", "error", "how much the services say: debug, info, warn, error")
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}
