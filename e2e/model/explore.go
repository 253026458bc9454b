package model

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
)

// State is all that the model knows at one moment. It refers to nothing outside itself, so states are copied, compared and hashed as they are.
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
	left      Faults
	// violation of the move that led here
	violation Violation
}

// Model is one shard of the ledger within bounds.
type Model struct {
	Commands     int   // ids, 1 to 4; one of them is sent twice
	Writers      int   // 1 or 2
	CallCommands uint8 // commands of one call of apply.lua, 1 or 2
	Faults       Faults
	Forgets      bool // outcomes that are beyond the dedupe window
	// Liveness also checks that quiet can be reached from every state without further faults. It takes memory for every move, and looks only
	// at explorations that were not cut.
	Liveness bool
	variant  Variant
	commands []Command
}

// New checks the bounds and returns a model of a variant; the zero Variant is the right protocol.
func New(commands, writers, callCommands int, faults Faults, forgets bool, v Variant) (*Model, error) {
	if commands < 1 || commands > historyMax || writers < 1 || writers > 2 || callCommands < 1 || callCommands > batchMax {
		return nil, fmt.Errorf("%d commands, %d writers, %d commands a call: 1-%d, 1-2 and 1-%d are possible", commands, writers, callCommands, historyMax, batchMax)
	}
	return &Model{Commands: commands, Writers: writers, CallCommands: uint8(callCommands), Faults: faults, Forgets: forgets, variant: v, commands: commandsOf(commands, forgets)}, nil
}

// initial is a shard at its beginning: the first writer has it.
func (m *Model) initial() State {
	s := State{left: m.Faults, now: start}
	s.servers[0].write(opening)
	for w := range s.writers {
		s.writers[w] = Writer{step: top, current: true}
	}
	s.writers[0].owned, s.writers[0].inDoubt = true, true
	return s
}

// world is the actor of what no writer does.
const world = -1

// move is one step of one actor.
type move struct {
	next  State
	actor int
	label string
	fault bool // a state that only faults lead away from is quiet
}

// expansion collects the moves of one state.
type expansion struct {
	m     *Model
	from  State
	moves []move
	full  bool // a move was left out at a bound of the model
}

func (x *expansion) emit(actor int, label string, next *State) {
	if *next != x.from {
		x.moves = append(x.moves, move{*next, actor, label, false})
	}
}

func (x *expansion) fault(actor int, label string, next *State) {
	if *next != x.from {
		x.moves = append(x.moves, move{*next, actor, label, true})
	}
}

// withMarkers adds the end of a transaction: with its markers at once, or late.
func (x *expansion) withMarkers(w int, ended State, label string) {
	if ended.txns[w].status > open {
		if late := ended; late.spend(Late) {
			x.fault(w, label+"; the markers are late", &late)
		}
		ended.mark(w)
	}
	x.emit(w, label, &ended)
}

func (x *expansion) of(s *State) {
	x.from, x.moves, x.full = *s, x.moves[:0], false
	for w := range x.m.Writers {
		x.writer(w)
	}
	x.world()
}

// Result of an exploration.
type Result struct {
	States, Transitions, Depth int
	// Quiet states, where all must be done.
	Quiet int
	// Cut tells that states were left unexplored: the limit of states, or a bound of the model.
	Cut bool
	// Violation found first, and the steps to it; empty if none.
	Violation Violation
	Trace     []string
}

// Progress of an exploration, for a person.
type Progress struct{ States, Frontier, Depth int }

// node remembers how a state was reached.
type node struct {
	parent uint32
	move   uint16
}

type queued struct {
	state State
	node  uint32
}

// Explore visits all states breadth first, so that a counterexample is a shortest one. It stops at the first violation, at statesMax, or with ctx.
// States are told apart by a 64-bit hash: with 10^7 of them, the chance that two share one is below 10^-5. progress may be nil.
func (m *Model) Explore(ctx context.Context, statesMax int, progress func(Progress)) Result {
	seed := maphash.MakeSeed()
	first := m.initial()
	visited := map[uint64]uint32{maphash.Comparable(seed, first): 0}
	nodes, calm := []node{{}}, calmMoves{}
	frontier := []queued{{first, 0}}
	result := Result{States: 1}
	x := expansion{m: m}
	for len(frontier) > 0 {
		var next []queued
		for i := range frontier {
			x.of(&frontier[i].state)
			quiet := true
			for at := range x.moves {
				quiet = quiet && x.moves[at].fault
				result.Transitions++
				hash := maphash.Comparable(seed, x.moves[at].next)
				to, seen := visited[hash]
				if !seen {
					to = uint32(len(nodes))
				}
				if m.Liveness && !x.moves[at].fault {
					calm.moves = append(calm.moves, [2]uint32{frontier[i].node, to})
				}
				if seen {
					continue
				}
				visited[hash] = to
				nodes = append(nodes, node{frontier[i].node, uint16(at)})
				result.States++
				if v := m.check(&x.moves[at].next); v != "" {
					return m.refuted(result, v, nodes, to)
				}
				next = append(next, queued{x.moves[at].next, to})
			}
			result.Cut = result.Cut || x.full
			if quiet && !x.full {
				result.Quiet++
				calm.quiet = append(calm.quiet, frontier[i].node)
				if v := m.checkQuiet(&frontier[i].state); v != "" {
					return m.refuted(result, v, nodes, frontier[i].node)
				}
			}
			if result.States >= statesMax || (i%1024 == 0 && ctx.Err() != nil) {
				result.Cut = true
				return result
			}
		}
		frontier = next
		result.Depth++
		if progress != nil {
			progress(Progress{result.States, len(frontier), result.Depth})
		}
	}
	if restless, found := calm.restless(len(nodes)); found && m.Liveness && !result.Cut {
		return m.refuted(result, noQuiet, nodes, restless)
	}
	return result
}

// calmMoves are the moves that are no faults, and the nodes in which all is quiet.
type calmMoves struct {
	moves [][2]uint32 // from, to
	quiet []uint32
}

// restless finds the first node from which no quiet one can be reached.
func (c calmMoves) restless(nodes int) (uint32, bool) {
	into := make([][]uint32, nodes)
	for _, edge := range c.moves {
		into[edge[1]] = append(into[edge[1]], edge[0])
	}
	reaches := make([]bool, nodes)
	queue := c.quiet
	for _, n := range queue {
		reaches[n] = true
	}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range into[n] {
			if !reaches[from] {
				reaches[from] = true
				queue = append(queue, from)
			}
		}
	}
	at := slices.Index(reaches, false)
	return uint32(max(at, 0)), at >= 0
}
