// Command bench prints what Hotledger does per second on this machine, beside what the usual ways do on it.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/bench"
)

func main() { run.Main("bench", start) }

func start(ctx context.Context, args []string) error {
	quick := false
	var only []string
	var compared []int
	command := &cobra.Command{
		Use: "bench", Short: "Print figures: name value unit ratio reference", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			size := bench.Full
			if quick {
				size = bench.Quick
			}
			for _, accounts := range compared {
				if err := bench.Reconcile(cmd.Context(), accounts, bench.NewReport(os.Stdout)); err != nil {
					return err
				}
			}
			if len(compared) > 0 {
				return nil
			}
			return bench.Run(cmd.Context(), size, only, os.Stdout)
		},
	}
	command.Flags().BoolVar(&quick, "quick", false, "short runs, for a look and for CI")
	command.Flags().StringSliceVar(&only, "only", nil, "these steps alone, such as latency,projector")
	command.Flags().IntSliceVar(&compared, "reconcile", nil, "reconciliations of so many accounts, and nothing else")
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}
