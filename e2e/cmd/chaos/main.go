// Command chaos tries to break the ledger, seed after seed. It exits with 0 only if no invariant was violated.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/chaos"
)

func main() { run.Main("chaos", start) }

var errSurvived = errors.New("the protocol was broken and nothing noticed")

func start(ctx context.Context, args []string) error {
	o := chaos.Options{Out: os.Stdout}
	minutes, mutate, only, broker := 0.0, false, "", ""
	var kinds []string
	command := &cobra.Command{
		Use: "chaos", Short: "Faults drawn by a seed against a whole ledger; then the invariants are checked", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if mutate {
				survived, err := chaos.Mutate(cmd.Context(), chaos.MutationOptions{Seeds: o.Seeds, Only: only, Out: os.Stdout})
				fmt.Printf("mutations that nothing noticed: %d\n", survived)
				if err == nil && survived > 0 {
					err = errSurvived
				}
				return err
			}
			for _, kind := range kinds {
				o.Kinds = append(o.Kinds, chaos.Kind(kind))
			}
			switch broker {
			case "embedded":
			case "apache":
				o.Apache = true
			default:
				return fmt.Errorf("--kafka: %q is neither embedded nor apache", broker)
			}
			o.Limit = time.Duration(minutes * float64(time.Minute))
			result, err := chaos.Run(cmd.Context(), o)
			fmt.Printf("seeds %d violations %d\n", result.Seeds, result.Violations)
			if err == nil && result.Violations > 0 {
				err = chaos.ErrViolation
			}
			return err
		},
	}
	flags := command.Flags()
	flags.IntVar(&o.Seeds, "seeds", 5, "how many seeds; 0 = until --minutes are over")
	flags.Uint64Var(&o.Seed, "seed", 0, "the first seed; 0 = drawn")
	flags.StringSliceVar(&kinds, "kinds", nil, "kinds of faults to draw, separated by commas, such as redis-wipe,writer-pause; none = all")
	flags.StringVar(&broker, "kafka", "embedded", "the broker: embedded, which answers with errors on request, or apache, the real one, which is killed and restarted")
	flags.BoolVar(&o.KeepGoing, "keep-going", false, "go on after a violation")
	flags.BoolVar(&o.Keep, "keep-logs", false, "leave the services' logs of every seed, not only of violated ones")
	flags.Float64Var(&minutes, "minutes", 0, "begin no seed after so many minutes; 0 = no limit")
	flags.BoolVar(&mutate, "mutations", false, "break the protocol in a copy of the tree, one rule at a time, and show what notices: --seeds per mutation, then a test")
	flags.StringVar(&only, "only", "", "with --mutations: those whose names contain this")
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}
