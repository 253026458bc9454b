// Command reconciler compares Redis with the log and settles any difference.
package main

import "github.com/hotledger/hotledger/reconciler"

func main() { reconciler.Main() }
