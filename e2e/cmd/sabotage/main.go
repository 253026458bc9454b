// Command sabotage damages a ledger and holds the reconciler to its promises. It exits with 0 only if nothing was missed and nothing was false.
package main

import (
	"context"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/sabotage"
)

func main() {
	run.Main("sabotage", func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return run.WithExitCode(fmt.Errorf("arguments: none are taken, got %q", args), 2)
		}
		_, err := sabotage.Run(ctx, os.Stdout, zap.NewNop(), true)
		return err
	})
}
