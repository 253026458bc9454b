// Command projector copies the log into ClickHouse.
package main

import (
	"context"

	"github.com/hotledger/hotledger/chassis/run"
)

func main() {
	run.Main("projector", func(ctx context.Context, args []string) error {
		root := command()
		root.SetArgs(args)
		return root.ExecuteContext(ctx) //nolint:wrapcheck // run prints it
	})
}
