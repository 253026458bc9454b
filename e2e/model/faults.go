package model

import "github.com/hotledger/hotledger/e2e/model/explore"

// The kinds of faults. The clock moving on is none in itself, but what is decided again later may come out otherwise.
const (
	Crash     explore.Fault = iota // a writer dies at any step, and starts again
	Rebalance                      // the group moves on; a writer that believes it has the shard is a zombie
	Rollback                       // Redis comes back from an older copy
	Fork                           // an older replica is promoted; whoever is connected to the old server goes on with it
	Wipe                           // Redis loses everything
	LostKey                        // Redis loses one of the four keys
	Loss                           // a script's request or answer is lost
	Delay                          // a script executes at some time after its sender gave up
	Abort                          // Kafka refuses to publish or to commit, and says so
	Unknown                        // the answer to a commit is lost: it is done, on its way, or lost too
	Late                           // the markers of a transaction are written at some time after its end
	Timeout                        // the coordinator aborts the transaction of a silent writer
	Clock                          // time passes between two decisions
	Skew                           // a command was sent long before it is polled, or its caller's clock is ahead, within the margin
	Jump                           // the clock of a writer is anything in one turn
	faultKinds
)

var faultNames = [faultKinds]string{
	"crash", "rebalance", "rollback", "fork", "wipe", "key", "loss", "delay", "abort", "unknown", "late", "timeout", "clock", "skew", "jump",
}

// world adds what happens around the writers.
func (x *expansion) world() {
	x.arrivals()
	x.group()
	x.redisFaults()
	x.timer()
	for w := range x.m.Writers {
		me := x.From.writers[w]
		if s := x.From; me.step != begin && s.left.Spend(Crash) {
			s.writers[w] = Writer{step: begin, server: s.main}
			x.fault(w, "dies", &s)
		}
		if s := x.From; s.txns[w].status == open && s.left.Spend(Timeout) {
			s.end(w, false)
			s.mark(w)
			s.writers[w].fenced = me.step != begin
			x.fault(w, "was silent for too long: the coordinator aborts its transaction and fences it", &s)
		}
		// The client joins in the background, while the turn goes on.
		if s := x.From; me.step > top && !me.current && me.step != abort {
			s.writers[w].current, s.writers[w].pending, s.writers[w].adopted = true, true, x.m.without(NewGenerationDoubts)
			x.emit(w, "slips into the newer generation", &s)
		}
		if s := x.From; me.server != s.main {
			s.writers[w].server = s.main
			s.dropUnused()
			x.emit(w, "connects to the promoted Redis", &s)
		}
	}
}

// arrivals are messages on their way that arrive now.
func (x *expansion) arrivals() {
	for w := range x.m.Writers {
		t := x.From.txns[w]
		if s := x.From; t.status == open && t.endOnTheWay {
			s.end(w, true)
			x.withMarkers(w, s, "its EndTxn arrives at last")
		}
		if t.status <= open {
			continue
		}
		if s := x.From; t.events {
			s.markEvents(w)
			x.emit(w, "the marker of its transaction is written to the events", &s)
		}
		if s := x.From; t.offsets {
			s.markOffsets(w)
			x.emit(w, "the marker of its transaction is written to the offsets", &s)
		}
	}
	if s := x.From; s.delayed.script != noScript {
		s.delayed = Call{}
		x.m.run(&s, x.From.delayed)
		x.emit(world, "a delayed script executes: "+scriptNames[x.From.delayed.script], &s)
	}
}

// group moves the shard: away from a writer that is gone, or by a fault to any that lives.
func (x *expansion) group() {
	gone := x.From.writers[x.From.owner].step == begin
	for w := range x.m.Writers {
		if x.From.writers[w].step == begin {
			continue
		}
		s := x.From
		switch {
		case gone:
			s.moveGroup(w)
			x.emit(world, "the group gives the shard to writer "+digit(w), &s)
		case s.left.Spend(Rebalance):
			s.moveGroup(w)
			x.fault(world, "a rebalance gives the shard to writer "+digit(w), &s)
		}
	}
}

func (x *expansion) redisFaults() {
	if s := x.From; !s.copied && (s.left.Has(Rollback) || s.left.Has(Fork)) {
		s.copied, s.copy = true, s.servers[s.main]
		x.fault(world, "a copy of Redis is taken", &s)
	}
	if s := x.From; s.copied && s.left.Spend(Rollback) {
		s.servers[s.main] = s.copy
		s.copied, s.copy = false, Store{}
		x.fault(world, "Redis comes back from the copy", &s)
	}
	if s := x.From; s.copied && !s.split() && s.left.Spend(Fork) {
		s.main = 1 - s.main
		s.servers[s.main] = s.copy
		s.copied, s.copy = false, Store{}
		s.dropUnused()
		x.fault(world, "the copy is promoted; the old Redis lives on", &s)
	}
	if s := x.From; s.servers[s.main].keys != 0 && s.left.Spend(Wipe) {
		s.servers[s.main] = Store{}
		x.fault(world, "Redis is wiped", &s)
	}
	for _, k := range []Key{accountsKey, outcomesKey, outboxKey, headKey, oldKey} {
		if k == oldKey && !x.m.Forgets {
			continue // it is always empty
		}
		s := x.From
		if r := &s.servers[s.main]; r.keys&k != 0 && s.left.Spend(LostKey) {
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
