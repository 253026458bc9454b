// Command model explores the protocol of one shard, or what goes on between two: the right one within larger bounds, or a wrong one until it breaks.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/model"
	"github.com/hotledger/hotledger/e2e/model/transfer"
)

func main() { run.Main("model", start) }

func start(ctx context.Context, args []string) error {
	command := shard()
	command.AddCommand(transfers())
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}

const (
	statesMaxUsage = "stop after so many states; 10^7 take about 4 GB"
	livenessUsage  = "also check that quiet can be reached from every state; needs the whole exploration, and half as much memory again"
)

func shard() *cobra.Command {
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
	flags.IntVar(&options.StatesMax, "states-max", 20_000_000, statesMaxUsage)
	flags.BoolVar(&options.Liveness, "liveness", false, livenessUsage)
	flags.BoolVar(&options.Forgets, "forget", false, "the shard forgets outcomes beyond the dedupe window")
	return command
}

func transfers() *cobra.Command {
	options := transfer.Options{Out: os.Stdout}
	list := false
	command := &cobra.Command{
		Use: "transfers", Short: "Explore transfers between two shards, holds and reversals", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !list {
				return transfer.Run(cmd.Context(), options)
			}
			for _, p := range transfer.Plans {
				fmt.Printf("plan     %-24s %s\n", p.Name, p.What)
			}
			for _, v := range transfer.Variants {
				fmt.Printf("variant  %-24s %s\n", v.Name, v.What)
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Variant, "variant", "", "a wrong protocol, and its counterexample; empty = the right one")
	flags.BoolVar(&list, "list", false, "name the plans and the wrong protocols")
	flags.StringVar(&options.Plan, "plan", "", "what callers ask for; empty = each plan")
	flags.StringVar(&options.Faults, "faults", "2", "a number of faults of any kind, or crash=1,wipe=2, or 2:crash=1,wipe=2 for any two of those")
	flags.IntVar(&options.Sequences, "sequences", 0, "explore all plans of so many commands instead")
	flags.BoolVar(&options.Reuse, "reuse", false, "of those, the ones in which two commands have the same id")
	flags.IntVar(&options.StatesMax, "states-max", 20_000_000, statesMaxUsage)
	flags.BoolVar(&options.Liveness, "liveness", false, livenessUsage)
	return command
}
