package transfer

import "slices"

// verb is what a caller asks for.
type verb uint8

const (
	transfer verb = iota
	credit
	debit
	hold
	capture
	release
	reverse
	freeze
)

var verbNames = [...]string{"transfer", "credit", "debit", "hold", "capture", "release", "reverse", "freeze"}

// Command is what a caller asks for.
type Command struct {
	id       uint8 // as the caller chose it
	verb     verb
	account  uint8
	amount   int8  // 0: all that is left
	to       uint8 // account at a transfer's far end
	of       uint8 // id of the hold, or of what is reversed
	deadline bool  // nothing is decided after it: when the clock has moved
}

// The accounts, and where they are.
const (
	a = iota
	b
	c
	accountsMax
)

const shards = 2

var shardOf = [accountsMax]uint8{a: 0, b: 1, c: 1}

const (
	commandsMax = 5
	idsMax      = 5
	// holdEnds is when every hold expires, on the clock of the model, which begins at 0.
	holdEnds = 1
	clockMax = 2
)

// Plan is what callers ask for, in the order in which they do.
type Plan struct {
	Name     string
	What     string
	opening  [accountsMax]int8
	ceiling  [accountsMax]int8 // 0: none
	commands []Command
}

// Plans are all of them.
var Plans = []Plan{
	{
		Name: "refused", What: "a transfer to an account that has no room until it spends; its own account is frozen meanwhile",
		opening: [accountsMax]int8{a: 1, b: 1}, ceiling: [accountsMax]int8{b: 1},
		commands: []Command{
			{id: 0, verb: transfer, account: a, to: b, amount: 1, deadline: true},
			{id: 1, verb: freeze, account: a},
			{id: 2, verb: debit, account: b, amount: 1},
		},
	},
	{
		Name: "crossing", What: "two transfers that cross each other, and one within a shard",
		opening: [accountsMax]int8{a: 1, b: 1}, ceiling: [accountsMax]int8{a: 1, b: 1, c: 1},
		commands: []Command{
			{id: 0, verb: transfer, account: a, to: b, amount: 1},
			{id: 1, verb: transfer, account: b, to: a, amount: 1},
			{id: 2, verb: transfer, account: b, to: c, amount: 1},
		},
	},
	{
		Name: "reversed", What: "a transfer is taken back at its far end, in parts, and once more at its near end",
		opening: [accountsMax]int8{a: 2},
		commands: []Command{
			{id: 0, verb: transfer, account: a, to: b, amount: 2},
			{id: 1, verb: reverse, account: b, of: 0, amount: 1},
			{id: 2, verb: reverse, account: b, of: 0},
			{id: 3, verb: reverse, account: a, of: 0},
		},
	},
	{
		Name: "undone", What: "a credit is taken back in parts, as far as it is there",
		opening: [accountsMax]int8{},
		commands: []Command{
			{id: 0, verb: credit, account: a, amount: 2},
			{id: 1, verb: reverse, account: a, of: 0, amount: 1},
			{id: 2, verb: credit, account: a, amount: 2},
			{id: 3, verb: reverse, account: a, of: 0, amount: 2},
			{id: 4, verb: reverse, account: a, of: 0},
		},
	},
	{
		Name: "held", What: "a hold is captured in parts while its time runs out, and others want the money",
		opening: [accountsMax]int8{a: 3},
		commands: []Command{
			{id: 0, verb: hold, account: a, amount: 2},
			{id: 1, verb: capture, account: a, of: 0, amount: 1},
			{id: 2, verb: debit, account: a, amount: 2},
			{id: 3, verb: capture, account: a, of: 0},
		},
	},
	{
		Name: "released", What: "a hold is released in part, and what is left ends",
		opening: [accountsMax]int8{a: 2},
		commands: []Command{
			{id: 0, verb: hold, account: a, amount: 2},
			{id: 1, verb: release, account: a, of: 0, amount: 1},
			{id: 2, verb: transfer, account: a, to: b, amount: 1},
			{id: 3, verb: capture, account: a, of: 0, amount: 2},
		},
	},
	{
		Name: "changed", What: "an id comes again with another payload, to the same shard",
		opening: [accountsMax]int8{a: 2},
		commands: []Command{
			{id: 0, verb: transfer, account: a, to: b, amount: 1},
			{id: 0, verb: transfer, account: a, to: b, amount: 2},
		},
	},
	{
		Name: "senders", What: "two callers use the same id on two shards, for transfers to one account",
		opening: [accountsMax]int8{a: 1, c: 1},
		commands: []Command{
			{id: 0, verb: transfer, account: a, to: b, amount: 1},
			{id: 0, verb: transfer, account: c, to: b, amount: 1},
		},
	},
	{
		Name: "returns", What: "a caller reverses under the id of another one's transfer, which is refused",
		opening: [accountsMax]int8{a: 2, c: 1}, ceiling: [accountsMax]int8{c: 1},
		commands: []Command{
			{id: 0, verb: transfer, account: a, to: b, amount: 1},
			{id: 1, verb: transfer, account: a, to: c, amount: 1},
			{id: 1, verb: reverse, account: b, of: 0},
		},
	},
}

// reuses tells whether two commands have one id. With a time of its own, the second takes effect once the first is forgotten: that is the limit of
// rule 18, and no fault of what goes on between shards.
func (p Plan) reuses() bool {
	ids := uint8(0)
	for _, asks := range p.commands {
		if ids&(1<<asks.id) != 0 {
			return true
		}
		ids |= 1 << asks.id
	}
	return false
}

// planNamed finds a plan.
func planNamed(name string) (Plan, bool) {
	i := slices.IndexFunc(Plans, func(p Plan) bool { return p.Name == name })
	if i < 0 {
		return Plan{}, false
	}
	return Plans[i], true
}
