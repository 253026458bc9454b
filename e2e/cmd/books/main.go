// Command books lets hledger and beancount judge the ledger's books. It exits with 0 only if they agree.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/books"
)

func main() { run.Main("books", start) }

func start(ctx context.Context, args []string) error {
	o, level := books.Options{Out: os.Stdout}, ""
	command := &cobra.Command{
		Use: "books", Short: "Real and random input through the ledger, judged by hledger and bean-check", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Logger, err = log.New(level, "console"); err != nil {
				return err
			}
			if o.Dir == "" {
				if o.Dir, err = os.MkdirTemp("", "hotledger-books-"); err != nil {
					return err
				}
				defer func() { _ = os.RemoveAll(o.Dir) }()
			}
			return books.Run(cmd.Context(), o)
		},
	}
	command.Flags().Uint64Var(&o.Seed, "seed", 1, "of the random workload")
	command.Flags().IntVar(&o.Commands, "commands", 5000, "of the random workload")
	command.Flags().StringVar(&o.Dir, "dir", "", "keep books.journal and books.beancount in this directory, which exists")
	command.Flags().StringVar(&level, "log-level", "error", "how much the services say: debug, info, warn, error")
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}
