package projector

import (
	"errors"
	"fmt"
)

// HaltError stops one shard for good: going on could skip, double or contradict an event. The other shards go on. Nothing
// of the shard is lost: after the cause is mended, a restart continues where it stopped.
type HaltError struct {
	Shard  int32
	Reason string // one word per kind, the label of the metric: gap, chain, undecodable, ...
	Err    error  // what was found, with positions and offsets
}

// Error names the shard and what was found.
func (e *HaltError) Error() string {
	return fmt.Sprintf("shard %d halted (%s): %v", e.Shard, e.Reason, e.Err)
}

// Unwrap returns what was found.
func (e *HaltError) Unwrap() error { return e.Err }

// The kinds of halts.
const (
	haltGap         = "gap"         // the log's positions do not continue those of ClickHouse
	haltChain       = "chain"       // an event does not link to the one before it
	haltUndecodable = "undecodable" // a record of the log is no event of this shard
	haltLog         = "log"         // the log lost its end, its beginning or its identity
	haltClickHouse  = "clickhouse"  // ClickHouse refuses the rows, or holds rows that no projector left
	haltIntent      = "intent"      // the committed intent and ClickHouse contradict each other
)

func (w *worker) halt(reason, format string, args ...any) error {
	return &HaltError{Shard: w.shard, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// errTakeOver says that what the worker believed about Kafka or ClickHouse no longer holds: begin again with the take over.
var errTakeOver = errors.New("take over again")

// errNotOwned says that the shard went to another projector.
var errNotOwned = errors.New("shard is not assigned to this projector")
