package model

import (
	"fmt"

	"github.com/hotledger/hotledger/e2e/model/explore"
)

// State is all that the model knows at one moment.
type State struct {
	servers   [2]Store
	main      uint8
	copied    bool
	copy      Store
	delayed   Call
	log       Log
	txns      [2]Txn
	offset    uint8 // committed, of the commands
	owner     uint8 // whom the group gives the shard
	writers   [2]Writer
	told      [historyMax]Event
	archive   History           // how far ClickHouse was, when it was last asked; in a shard that forgets
	firstSeen [historyMax]uint8 // 1 + when a command was first sent, by its caller; kept on retries
	now       uint8
	left      explore.Faults
	// violation of the move that led here
	violation explore.Violation
}

// Model is one shard of the ledger within bounds.
type Model struct {
	Commands     int   // ids, 1 to 4; one of them is sent twice
	Writers      int   // 1 or 2
	CallCommands uint8 // commands of one call of apply.lua, 1 or 2
	Faults       explore.Faults
	Forgets      bool // outcomes that are beyond the dedupe window
	variant      Variant
	commands     []Command
}

// New checks the bounds and returns a model of a variant; the zero Variant is the right protocol. Faults are as explore.ParseFaults reads them.
func New(commands, writers, callCommands int, faults string, forgets bool, v Variant) (*Model, error) {
	budget, err := explore.ParseFaults(faults, faultNames[:])
	if err != nil {
		return nil, err
	}
	if commands < 1 || commands > historyMax || writers < 1 || writers > 2 || callCommands < 1 || callCommands > batchMax {
		return nil, fmt.Errorf("%d commands, %d writers, %d commands a call: 1-%d, 1-2 and 1-%d are possible", commands, writers, callCommands, historyMax, batchMax)
	}
	return &Model{
		Commands: commands, Writers: writers, CallCommands: uint8(callCommands), Faults: budget, Forgets: forgets,
		variant: v, commands: commandsOf(commands, forgets),
	}, nil
}

// Initial is a shard at its beginning: the first writer has it.
func (m *Model) Initial() State {
	s := State{left: m.Faults, now: start}
	s.servers[0].write(opening)
	for w := range s.writers {
		s.writers[w] = Writer{step: top, current: true}
	}
	s.writers[0].owned, s.writers[0].inDoubt = true, true
	return s
}

// Expand adds what the writers and the world around them can do next.
func (m *Model) Expand(moves *explore.Moves[State]) {
	x := expansion{m, moves}
	for w := range m.Writers {
		x.writer(w)
	}
	x.world()
}

// world is the actor of what no writer does.
const world = -1

// expansion adds the moves of one state.
type expansion struct {
	m *Model
	*explore.Moves[State]
}

func actor(w int) string {
	if w == world {
		return ""
	}
	return "writer " + digit(w)
}

func (x *expansion) emit(w int, label string, next *State)  { x.Emit(actor(w), label, next) }
func (x *expansion) fault(w int, label string, next *State) { x.Fault(actor(w), label, next) }

// withMarkers adds the end of a transaction: with its markers at once, or late.
func (x *expansion) withMarkers(w int, ended State, label string) {
	if ended.txns[w].status > open {
		if late := ended; late.left.Spend(Late) {
			x.fault(w, label+"; the markers are late", &late)
		}
		ended.mark(w)
	}
	x.emit(w, label, &ended)
}
