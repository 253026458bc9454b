// Command ledger-writer decides commands and writes the log.
package main

import (
	"github.com/hotledger/hotledger/chassis/run"
	writer "github.com/hotledger/hotledger/ledger-writer"
)

func main() { run.Main("ledger-writer", writer.Start) }
