package transfer

import (
	"fmt"
	"iter"
	"slices"
)

// what callers may ask for next, in a generated plan.
var catalogue = []Command{
	{verb: transfer, account: a, to: b, amount: 1},
	{verb: transfer, account: b, to: a, amount: 1},
	{verb: transfer, account: b, to: c, amount: 2},
	{verb: transfer, account: a, to: b, amount: 1, deadline: true},
	{verb: credit, account: a, amount: 1},
	{verb: debit, account: b, amount: 1},
	{verb: hold, account: a, amount: 2},
	{verb: hold, account: b, amount: 1},
	{verb: freeze, account: a},
	{verb: freeze, account: b},
}

// the same, of a command before.
var followUps = []Command{
	{verb: capture, account: a, amount: 1},
	{verb: capture, account: b},
	{verb: release, account: a},
	{verb: reverse, account: a},
	{verb: reverse, account: b, amount: 1},
	{verb: reverse, account: c},
}

// Sequences are all plans of so many commands. Where reuse is set, two of them have the same id.
func Sequences(length int, reuse bool) iter.Seq[Plan] {
	return func(yield func(Plan) bool) { extend(nil, length, reuse, yield) }
}

func extend(commands []Command, length int, reuse bool, yield func(Plan) bool) bool {
	if len(commands) == length {
		p := Plan{
			Name: fmt.Sprint(commands), commands: commands,
			opening: [accountsMax]int8{a: 2, b: 1}, ceiling: [accountsMax]int8{a: 2, b: 2, c: 1},
		}
		return p.reuses() != reuse || yield(p)
	}
	next := make([]Command, 0, len(catalogue)+len(commands)*len(followUps))
	next = append(next, catalogue...)
	for of := range commands {
		for _, asks := range followUps {
			asks.of = commands[of].id
			next = append(next, asks)
		}
	}
	for _, asks := range next {
		for at := range len(commands) + 1 {
			if at < len(commands) && !reuse {
				continue
			}
			if asks.id = uint8(at); slices.Contains(commands, asks) || (asks.verb == reverse && asks.of == asks.id) {
				continue // a retry, or invalid
			}
			if !extend(append(commands[:len(commands):len(commands)], asks), length, reuse, yield) {
				return false
			}
		}
	}
	return true
}
