// Command bench prints what Hotledger does per second on this machine, beside what the usual ways do on it.
package main

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/bench"
)

func main() { run.Main("bench", start) }

func start(ctx context.Context, args []string) error {
	quick := false
	var only []string
	var compared []int
	logged := 0
	var profile string
	command := &cobra.Command{
		Use: "bench", Short: "Print figures: name value unit ratio reference", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			size := bench.Full
			if quick {
				size = bench.Quick
			}
			if profile != "" {
				stop, err := startProfile(profile)
				if err != nil {
					return err
				}
				defer stop()
			}
			for _, accounts := range compared {
				if err := bench.Reconcile(cmd.Context(), accounts, bench.NewReport(os.Stdout)); err != nil {
					return err
				}
			}
			if logged > 0 {
				if err := bench.Log(cmd.Context(), logged, bench.NewReport(os.Stdout)); err != nil {
					return err
				}
			}
			if len(compared) > 0 || logged > 0 {
				return nil
			}
			return bench.Run(cmd.Context(), size, only, os.Stdout)
		},
	}
	command.Flags().BoolVar(&quick, "quick", false, "short runs, for a look and for CI")
	command.Flags().StringSliceVar(&only, "only", nil, "these steps alone, such as latency,projector")
	command.Flags().IntSliceVar(&compared, "reconcile", nil, "reconciliations of so many accounts, and nothing else")
	command.Flags().IntVar(&logged, "log", 0, "the hot account on Apache Kafka until its log has so many events, such as 50000000, and nothing else")
	command.Flags().StringVar(&profile, "profile", "", "file for a CPU profile of this process, for go tool pprof: the writer, the load and the embedded Kafka, or the projector")
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}

// startProfile profiles this process until stop.
func startProfile(path string) (stop func(), err error) {
	file, err := os.Create(path) //nolint:gosec // whoever runs the benchmark names it
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}
