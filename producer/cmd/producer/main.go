// Command producer sends commands to the ledger: one at a time, or a file of them.
package main

import (
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/producer/cli"
)

func main() { run.Main("producer", cli.Start) }
