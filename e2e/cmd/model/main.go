// Command model explores the protocol of one shard: the right one within larger bounds, or a wrong one until it breaks.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/model"
)

func main() { run.Main("model", start) }

func start(ctx context.Context, args []string) error {
	options := model.Options{Out: os.Stdout}
	list := false
	command := &cobra.Command{
		Use: "model", Short: "Explore the protocol of one shard, state by state", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				for _, v := range model.Variants {
					fmt.Printf("%-28s rule %2d  %s\n", v.Name, v.Number, v.What)
				}
				return nil
			}
			return model.Run(cmd.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Variant, "variant", "", "a wrong protocol, and its counterexample; empty = the right one")
	flags.BoolVar(&list, "list", false, "name the wrong protocols")
	flags.IntVar(&options.Commands, "commands", 2, "command ids, 1 to 4; one of them is sent twice")
	flags.IntVar(&options.Writers, "writers", 2, "writers, 1 or 2")
	flags.IntVar(&options.CallCommands, "call-commands", 1, "commands of one call of apply.lua, 1 or 2")
	flags.StringVar(&options.Faults, "faults", "2", "a number of faults of any kind, or crash=1,fork=2, or 2:crash=1,fork=2 for any two of those")
	flags.IntVar(&options.StatesMax, "states-max", 20_000_000, "stop after so many states; 10^7 take about 4 GB")
	flags.BoolVar(&options.Liveness, "liveness", false, "also check that quiet can be reached from every state; needs the whole exploration, and half as much memory again")
	flags.BoolVar(&options.Forgets, "forget", false, "the shard forgets outcomes beyond the dedupe window")
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}
