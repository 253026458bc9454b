// Command sabotage damages a ledger and holds the reconciler to its promises; with --soak, it damages nothing for so long, and wants to hear of
// nothing. It exits with 0 only if nothing was missed and nothing was false.
package main

import (
	"context"
	"flag"
	"os"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/sabotage"
)

func main() {
	run.Main("sabotage", func(ctx context.Context, args []string) error {
		flags := flag.NewFlagSet("sabotage", flag.ContinueOnError)
		lasting := flags.Duration("soak", 0, "damage nothing, and reconcile under load for so long")
		if err := flags.Parse(args); err != nil {
			return run.WithExitCode(err, 2)
		}
		var err error
		if *lasting > 0 {
			_, err = sabotage.Soak(ctx, os.Stdout, zap.NewNop(), true, *lasting)
		} else {
			_, err = sabotage.Run(ctx, os.Stdout, zap.NewNop(), true)
		}
		return err
	})
}
