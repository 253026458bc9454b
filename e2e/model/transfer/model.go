// Package transfer models what goes on between two shards, and what an account has besides its balance: transfers, holds, reversals. Each shard is a
// log with one outcome per id, which is what the model of one shard proves.
package transfer

import (
	"fmt"

	"github.com/hotledger/hotledger/e2e/model/explore"
)

// kind of a command: a caller's, or what the ledger derives.
type kind uint8

const (
	nobodys  kind = iota
	asked         // by a caller
	credited      // @credit/<transfer>
	returned      // @return/<transfer or reversal>
	expired       // @expire/<hold>
)

// Record is a command in a shard's partition of ledger.commands.
type Record struct {
	kind    kind
	command uint8 // of the plan: the caller's own, or what it is derived from
	account uint8
	amount  int8   // of what is derived
	why     Reason // a return: why the far end refused; none: it was reversed
	salt    uint8  // of ids that are not deterministic
	asked   uint8  // when it was first asked for
	request uint8  // of its caller, who hears of it
}

// What a caller's request is.
const (
	first uint8 = iota
	again
	nobody // nobody waits
)

// Event is an outcome in the log.
type Event struct {
	Record
	reason    Reason
	delta     int8
	held      int8  // of the account, after it
	left      int8  // of the hold, after it
	total     int8  // reversed so far of what it reverses
	from      uint8 // 1 + the account that sent what it takes back: it reverses the far end of a transfer
	at        uint8
	forgotten uint8 // outcomes of the shard, from the first on, when it was decided
}

const (
	logMax   = 9
	queueMax = 9
)

// Shard is one partition of commands and of events, its keys in Redis and its owner.
type Shard struct {
	queue     [queueMax]Record // not yet consumed, by the committed offset
	queued    uint8
	log       [logMax]Event
	n         uint8
	redis     Redis
	owner     Owner
	forgotten uint8 // outcomes, from the first on
	horizon   uint8 // 1 + when they were: what was asked for by then is looked up in ClickHouse
	// ghost is which holds a former owner would end: it does not know that the shard is no longer its own, and the group does not hinder a transaction
	// that reads nothing.
	ghost uint8
}

// Redis is the shard's keys.
type Redis struct {
	lost  bool  // wiped
	n     uint8 // how far it has the log
	extra Event // applied, and not in the log; in the outbox
	contents
}

// State is all that the model knows at one moment.
type State struct {
	shards [shards]Shard
	sent   uint8              // commands of the plan, the first of them
	asked  [commandsMax]uint8 // when
	waits  [commandsMax]uint8 // requests that were not answered, a bit each
	told   [commandsMax]Reason
	now    uint8
	salt   uint8
	left   explore.Faults
	// violation of the move that led here
	violation explore.Violation
}

// Model is two shards of the ledger within bounds.
type Model struct {
	plan    Plan
	faults  explore.Faults
	variant Variant
}

// New returns a model of what callers ask for in a plan; the zero Variant is the right protocol. Faults are as explore.ParseFaults reads them.
func New(plan, faults string, v Variant) (*Model, error) {
	p, found := planNamed(plan)
	if !found {
		return nil, fmt.Errorf("no plan is called %q; --list names them", plan)
	}
	budget, err := explore.ParseFaults(faults, faultNames[:])
	if err != nil {
		return nil, err
	}
	return &Model{plan: p, faults: budget, variant: v}, nil
}

func (m *Model) without(r Rule) bool { return m.variant.Rule&r != 0 }

// Initial is a ledger in which nothing was asked for yet.
func (m *Model) Initial() State {
	s := State{left: m.faults}
	for i := range s.shards {
		s.shards[i].redis.contents = m.opening()
	}
	return s
}

// Expand adds what callers, owners and the world around them can do next.
func (m *Model) Expand(moves *explore.Moves[State]) {
	x := expansion{m, moves}
	x.callers()
	for i := range x.From.shards {
		x.owner(i)
		x.faults(i)
	}
	x.together()
	x.clock()
}

// expansion adds the moves of one state.
type expansion struct {
	m *Model
	*explore.Moves[State]
}

func (x *expansion) emit(i int, label string, next *State)  { x.Emit("shard "+digit(i), label, next) }
func (x *expansion) fault(i int, label string, next *State) { x.Fault("shard "+digit(i), label, next) }

func digit[N int | int8 | uint8](n N) string { return string(rune('0' + n)) }
