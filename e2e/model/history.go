package model

// Event is one decision, packed: id + 1 in the low three bits, then the outcome, then the clock it was decided at. 0 is none.
type Event uint8

// Outcome of a command.
type Outcome uint8

// What a command can come to.
const (
	Applied Outcome = iota
	Insufficient
	Expired
)

func newEvent(id int, o Outcome, now uint8) Event { return Event(uint8(id+1) | uint8(o)<<3 | now<<5) }

func (e Event) id() int          { return int(e&7) - 1 }
func (e Event) outcome() Outcome { return Outcome(e >> 3 & 3) }
func (e Event) decidedAt() uint8 { return uint8(e >> 5) }

// History is a head: the position and everything the chain is a hash of, packed with the oldest event in the lowest byte. Two heads have the
// same chain exactly if their histories are equal, so the model's hash has no collisions. It holds four events.
type History uint32

const genesis History = 0

// historyMax is how many events a history holds; the model has as many command ids.
const historyMax = 4

func (h History) position() int {
	n := 0
	for ; h != 0; h >>= 8 {
		n++
	}
	return n
}

// next is the head after one more event.
func (h History) next(e Event) History { return h | History(e)<<(8*h.position()) }

// prefix is the head that h went through at a position.
func (h History) prefix(position int) History { return h & (1<<(8*position) - 1) }

func (h History) event(i int) Event { return Event(h >> (8 * i)) }

// follows tells whether h is from or went through it.
func (h History) follows(from History) bool { return h.prefix(from.position()) == from }

// holds tells whether e is one of the events.
func (h History) holds(e Event) bool {
	for ; h != 0; h >>= 8 {
		if Event(h&0xff) == e {
			return true
		}
	}
	return false
}

// Command is one record of ledger.commands.
type Command struct {
	id       int
	delta    int8
	deadline bool // expires when the clock has moved from where it starts
}

// start of the clock.
const start = 1

// openingBalance of the only account: enough for one of the debits.
const openingBalance = 1

// commandsOf is the topic with n ids, one of which is sent twice. A and B want the same money; A has a deadline, so that what is decided
// again later may come out otherwise.
func commandsOf(n int, forgets bool) []Command {
	a, b := Command{id: 0, delta: -1, deadline: true}, Command{id: 1, delta: -1}
	c, d := Command{id: 2, delta: +1}, Command{id: 3, delta: -1}
	if forgets {
		return [...][]Command{{a, a, a}, {a, b, a, a}, {a, b, a, c, a}, {a, b, c, a, d, a}}[n-1]
	}
	switch n {
	case 1:
		return []Command{a, a}
	case 2:
		return []Command{a, b, a}
	case 3:
		return []Command{a, b, a, c}
	}
	return []Command{a, b, c, a, d}
}

// decide is what apply.lua decides about a command of an unknown id.
func (c Command) decide(balance int8, now uint8) Outcome {
	switch {
	case c.deadline && now > start:
		return Expired
	case balance+c.delta < 0:
		return Insufficient
	}
	return Applied
}

// deltaOf is what an event did to the balance.
func (m *Model) deltaOf(e Event) int8 {
	if e.outcome() != Applied {
		return 0
	}
	for _, c := range m.commands {
		if c.id == e.id() {
			return c.delta
		}
	}
	return 0
}

// contents of a shard: what its keys amount to.
type contents struct {
	head        History
	balance     int8
	recent, old [historyMax]Event // outcomes, by command id: of the bucket at work, and of the one before
	window      window
}

var opening = contents{balance: openingBalance}

func (c *contents) outcome(id int) Event { return c.recent[id] | c.old[id] }

func (c *contents) add(m *Model, e Event) {
	c.balance += m.deltaOf(e)
	c.recent[e.id()] = e
	c.head = c.head.next(e)
}

// fold is what a history amounts to.
func (m *Model) fold(h History) contents {
	c := opening
	for i := range h.position() {
		m.replayEvent(&c, h.event(i))
	}
	return c
}
