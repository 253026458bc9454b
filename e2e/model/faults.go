package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Fault is a kind of thing that goes wrong a bounded number of times.
type Fault uint8

// The kinds. The clock moving on is none in itself, but what is decided again later may come out otherwise.
const (
	Crash     Fault = iota // a writer dies at any step, and starts again
	Rebalance              // the group moves on; a writer that believes it has the shard is a zombie
	Rollback               // Redis comes back from an older copy
	Fork                   // an older replica is promoted; whoever is connected to the old server goes on with it
	Wipe                   // Redis loses everything
	LostKey                // Redis loses one of the four keys
	Loss                   // a script's request or answer is lost
	Delay                  // a script executes at some time after its sender gave up
	Abort                  // Kafka refuses to publish or to commit, and says so
	Unknown                // the answer to a commit is lost: it is done, on its way, or lost too
	Late                   // the markers of a transaction are written at some time after its end
	Timeout                // the coordinator aborts the transaction of a silent writer
	Clock                  // time passes between two decisions
	Skew                   // a command was sent long before it is polled, or its caller's clock is ahead, within the margin
	Jump                   // the clock of a writer is anything in one turn
	faultKinds
)

var faultNames = [faultKinds]string{
	"crash", "rebalance", "rollback", "fork", "wipe", "key", "loss", "delay", "abort", "unknown", "late", "timeout", "clock", "skew", "jump",
}

// String is the fault's name, as ParseFaults reads it.
func (f Fault) String() string { return faultNames[f] }

// Faults is a budget: how often each kind may happen, and how many may happen in all.
type Faults struct {
	Kinds [faultKinds]uint8
	Total uint8
}

// unlimited kinds are bounded by the total alone.
const unlimited = 255

// ParseFaults reads a budget: "2" is any two faults; "crash=1,rollback=2" names each kind; "2:crash=1,fork=1,late=1" is any two of those.
func ParseFaults(text string) (Faults, error) {
	f := Faults{}
	if total, err := strconv.ParseUint(text, 10, 7); err == nil {
		for k := range f.Kinds {
			f.Kinds[k] = unlimited
		}
		f.Total = uint8(total)
		return f, nil
	}
	cap, kinds, capped := strings.Cut(text, ":")
	if !capped {
		kinds = text
	}
	sum := uint64(0)
	for _, item := range strings.Split(kinds, ",") {
		name, count, _ := strings.Cut(item, "=")
		n, err := strconv.ParseUint(count, 10, 4)
		if err != nil {
			return f, fmt.Errorf("faults %q: count of %q: %w", text, name, err)
		}
		known := false
		for k, kindName := range faultNames {
			if kindName == name {
				f.Kinds[k], known = uint8(n), true
			}
		}
		if !known {
			return f, fmt.Errorf("faults %q: unknown kind %q, there are %s", text, name, strings.Join(faultNames[:], " "))
		}
		sum += n
	}
	if capped {
		var err error
		if sum, err = strconv.ParseUint(cap, 10, 7); err != nil {
			return f, fmt.Errorf("faults %q: total: %w", text, err)
		}
	}
	f.Total = uint8(min(sum, 100))
	return f, nil
}

func (f *Faults) has(k Fault) bool { return f.Total > 0 && f.Kinds[k] > 0 }

// spend takes one fault from what is left.
func (s *State) spend(k Fault) bool {
	if !s.left.has(k) {
		return false
	}
	s.left.Total--
	if s.left.Kinds[k] != unlimited {
		s.left.Kinds[k]--
	}
	if s.left.Total == 0 {
		s.left = Faults{} // states that differ in what can no longer happen are the same
	}
	return true
}

// world adds what happens around the writers.
func (x *expansion) world() {
	x.arrivals()
	x.group()
	x.redisFaults()
	x.timer()
	for w := range x.m.Writers {
		me := x.from.writers[w]
		if s := x.from; me.step != begin && s.spend(Crash) {
			s.writers[w] = Writer{step: begin, server: s.main}
			x.fault(w, "dies", &s)
		}
		if s := x.from; s.txns[w].status == open && s.spend(Timeout) {
			s.end(w, false)
			s.mark(w)
			s.writers[w].fenced = me.step != begin
			x.fault(w, "was silent for too long: the coordinator aborts its transaction and fences it", &s)
		}
		// The client joins in the background, while the turn goes on.
		if s := x.from; me.step > top && !me.current && me.step != abort {
			s.writers[w].current, s.writers[w].pending, s.writers[w].adopted = true, true, x.m.without(NewGenerationDoubts)
			x.emit(w, "slips into the newer generation", &s)
		}
		if s := x.from; me.server != s.main {
			s.writers[w].server = s.main
			s.dropUnused()
			x.emit(w, "connects to the promoted Redis", &s)
		}
	}
}

// arrivals are messages on their way that arrive now.
func (x *expansion) arrivals() {
	for w := range x.m.Writers {
		t := x.from.txns[w]
		if s := x.from; t.status == open && t.endOnTheWay {
			s.end(w, true)
			x.withMarkers(w, s, "its EndTxn arrives at last")
		}
		if t.status <= open {
			continue
		}
		if s := x.from; t.events {
			s.markEvents(w)
			x.emit(w, "the marker of its transaction is written to the events", &s)
		}
		if s := x.from; t.offsets {
			s.markOffsets(w)
			x.emit(w, "the marker of its transaction is written to the offsets", &s)
		}
	}
	if s := x.from; s.delayed.script != noScript {
		s.delayed = Call{}
		x.m.run(&s, x.from.delayed)
		x.emit(world, "a delayed script executes: "+scriptNames[x.from.delayed.script], &s)
	}
}

// group moves the shard: away from a writer that is gone, or by a fault to any that lives.
func (x *expansion) group() {
	gone := x.from.writers[x.from.owner].step == begin
	for w := range x.m.Writers {
		if x.from.writers[w].step == begin {
			continue
		}
		s := x.from
		switch {
		case gone:
			s.moveGroup(w)
			x.emit(world, "the group gives the shard to writer "+digit(w), &s)
		case s.spend(Rebalance):
			s.moveGroup(w)
			x.fault(world, "a rebalance gives the shard to writer "+digit(w), &s)
		}
	}
}

func (x *expansion) redisFaults() {
	if s := x.from; !s.copied && (s.left.has(Rollback) || s.left.has(Fork)) {
		s.copied, s.copy = true, s.servers[s.main]
		x.fault(world, "a copy of Redis is taken", &s)
	}
	if s := x.from; s.copied && s.spend(Rollback) {
		s.servers[s.main] = s.copy
		s.copied, s.copy = false, Store{}
		x.fault(world, "Redis comes back from the copy", &s)
	}
	if s := x.from; s.copied && !s.split() && s.spend(Fork) {
		s.main = 1 - s.main
		s.servers[s.main] = s.copy
		s.copied, s.copy = false, Store{}
		s.dropUnused()
		x.fault(world, "the copy is promoted; the old Redis lives on", &s)
	}
	if s := x.from; s.servers[s.main].keys != 0 && s.spend(Wipe) {
		s.servers[s.main] = Store{}
		x.fault(world, "Redis is wiped", &s)
	}
	for _, k := range []Key{accountsKey, outcomesKey, outboxKey, headKey, oldKey} {
		if k == oldKey && !x.m.Forgets {
			continue // it is always empty
		}
		s := x.from
		if r := &s.servers[s.main]; r.keys&k != 0 && s.spend(LostKey) {
			r.lose(k)
			x.fault(world, "Redis loses the key "+keyNames[k], &s)
		}
	}
}

var keyNames = map[Key]string{accountsKey: "accounts", outcomesKey: "outcomes", outboxKey: "outbox", headKey: "head", oldKey: "older outcomes"}

func (r *Store) lose(k Key) {
	r.keys &^= k
	r.keyLost = true
	switch k {
	case accountsKey:
		r.accountsAt, r.balance = genesis, 0
	case outcomesKey:
		r.outcomesAt, r.recent = genesis, [historyMax]Event{}
	case oldKey:
		r.oldAt, r.old = genesis, [historyMax]Event{}
	case outboxKey:
		r.outboxAt, r.outbox = genesis, Outbox{}
	default:
		r.head, r.window = genesis, window{}
	}
}

// split tells whether somebody is connected to a server that is no longer the main one.
func (s *State) split() bool {
	for _, me := range s.writers {
		if me.server != s.main {
			return true
		}
	}
	return false
}

// dropUnused forgets a server that nobody is connected to any more, and what was on its way there.
func (s *State) dropUnused() {
	if s.split() {
		return
	}
	other := 1 - s.main
	s.servers[other] = Store{}
	if s.delayed.script != noScript && s.delayed.server == other {
		s.delayed = Call{}
	}
}
