// Package explore visits every state that a model can get into within bounds, and checks each.
package explore

import (
	"context"
	"hash/maphash"
)

// Violation is a property that does not hold. Empty is none.
type Violation string

// NoQuiet is found with Liveness.
const NoQuiet Violation = "whatever happens from here, it never becomes quiet"

// Space is a model. A state is all that it knows at one moment; it refers to nothing outside itself, so states are copied, compared and hashed as
// they are.
type Space[S comparable] interface {
	Initial() S
	// Expand adds all moves from a state, always in the same order.
	Expand(*Moves[S])
	// Check looks at one state.
	Check(*S) Violation
	// CheckQuiet looks at a state in which nothing happens any more unless something fails.
	CheckQuiet(*S) Violation
	// Parts are lines that show a state to a person: the same number for every state.
	Parts(*S) []string
}

// move is one step of one actor.
type move[S comparable] struct {
	next  S
	actor string
	label string
	fault bool // a state that only faults lead away from is quiet
}

// Moves collects the moves of one state.
type Moves[S comparable] struct {
	From  S
	moves []move[S]
	full  bool
}

// Emit adds a move that may happen at any time.
func (x *Moves[S]) Emit(actor, label string, next *S) { x.add(actor, label, next, false) }

// Fault adds a move that nothing relies on.
func (x *Moves[S]) Fault(actor, label string, next *S) { x.add(actor, label, next, true) }

// Full notes that a move was left out at a bound of the model.
func (x *Moves[S]) Full() { x.full = true }

func (x *Moves[S]) add(actor, label string, next *S, fault bool) {
	if *next != x.From {
		x.moves = append(x.moves, move[S]{*next, actor, label, fault})
	}
}

func (x *Moves[S]) of(space Space[S], s *S) {
	x.From, x.moves, x.full = *s, x.moves[:0], false
	space.Expand(x)
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

// Options of an exploration.
type Options struct {
	StatesMax int
	// Liveness also checks that quiet can be reached from every state without further faults. It takes memory for every move, and looks only
	// at explorations that were not cut.
	Liveness bool
	Progress func(Progress) // may be nil
}

// node remembers how a state was reached.
type node struct {
	parent uint32
	move   uint16
}

type queued[S comparable] struct {
	state S
	node  uint32
}

// Explore visits all states breadth first, so that a counterexample is a shortest one. It stops at the first violation, at the most states, or with
// ctx. States are told apart by a 64-bit hash: with 10^7 of them, the chance that two share one is below 10^-5.
func Explore[S comparable](ctx context.Context, space Space[S], o Options) Result {
	seed := maphash.MakeSeed()
	first := space.Initial()
	visited := map[uint64]uint32{maphash.Comparable(seed, first): 0}
	nodes, calm := []node{{}}, calmMoves{}
	frontier := []queued[S]{{first, 0}}
	result := Result{States: 1}
	x := Moves[S]{}
	for len(frontier) > 0 {
		var next []queued[S]
		for i := range frontier {
			x.of(space, &frontier[i].state)
			quiet := true
			for at := range x.moves {
				quiet = quiet && x.moves[at].fault
				result.Transitions++
				hash := maphash.Comparable(seed, x.moves[at].next)
				to, seen := visited[hash]
				if !seen {
					to = uint32(len(nodes))
				}
				if o.Liveness && !x.moves[at].fault {
					calm.moves = append(calm.moves, [2]uint32{frontier[i].node, to})
				}
				if seen {
					continue
				}
				visited[hash] = to
				nodes = append(nodes, node{frontier[i].node, uint16(at)})
				result.States++
				if v := space.Check(&x.moves[at].next); v != "" {
					return refuted(space, result, v, nodes, to)
				}
				next = append(next, queued[S]{x.moves[at].next, to})
			}
			result.Cut = result.Cut || x.full
			if quiet && !x.full {
				result.Quiet++
				calm.quiet = append(calm.quiet, frontier[i].node)
				if v := space.CheckQuiet(&frontier[i].state); v != "" {
					return refuted(space, result, v, nodes, frontier[i].node)
				}
			}
			if result.States >= o.StatesMax || (i%1024 == 0 && ctx.Err() != nil) {
				result.Cut = true
				return result
			}
		}
		frontier = next
		result.Depth++
		if o.Progress != nil {
			o.Progress(Progress{result.States, len(frontier), result.Depth})
		}
	}
	if restless, found := calm.restless(len(nodes)); found && o.Liveness && !result.Cut {
		return refuted(space, result, NoQuiet, nodes, restless)
	}
	return result
}
