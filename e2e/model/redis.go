package model

// Entry is what one apply call left in the outbox. Its id is the head after it.
type Entry struct{ before, after History }

// Outbox is the stream, oldest entry first.
type Outbox struct {
	entries [historyMax]Entry
	n       uint8
}

func (o *Outbox) add(e Entry) {
	if int(o.n) < len(o.entries) {
		o.entries[o.n] = e
		o.n++
	}
}

func (o *Outbox) all() []Entry { return o.entries[:o.n] }

// remove deletes the entry with an id, or with its position where chain is false.
func (o *Outbox) remove(id History, chain bool) (removed Entry, found bool) {
	kept := Outbox{}
	for _, e := range o.all() {
		if e.after == id || (!chain && e.after.position() == id.position()) {
			removed, found = e, true
			continue
		}
		kept.add(e)
	}
	*o = kept
	return removed, found
}

// Key is one of a shard's.
type Key uint8

// The keys.
const (
	accountsKey Key = 1 << iota
	outcomesKey
	outboxKey
	headKey
	oldKey  // the older bucket of outcomes
	allKeys = accountsKey | outcomesKey | outboxKey | headKey | oldKey
)

// Store is one Redis server: the shard's keys, each with the head it was written at, and a build beside them.
type Store struct {
	contents
	keys       Key // that exist
	accountsAt History
	outcomesAt History
	outboxAt   History
	oldAt      History
	outbox     Outbox
	build      Build
	keyLost    bool // a fault took single keys: what is left need not belong together
}

// loadChunks is how many calls of load.lua it takes: accounts, outcomes, and the last.
const loadChunks = 3

// Build is a shard being rebuilt beside the live keys.
type Build struct {
	contents
	exists     bool
	generation uint8 // names the build
	chunks     uint8 // loaded from ClickHouse so far; until the last one, no head fits
}

// Condition of a shard's keys, as inspect.lua finds it.
type Condition uint8

// The conditions.
const (
	Empty Condition = iota
	Broken
	Whole
)

func (s *Store) condition() Condition {
	switch {
	case s.keys == 0:
		return Empty
	case s.keys != allKeys || s.accountsAt != s.head || s.outcomesAt != s.head || s.outboxAt != s.head || s.oldAt != s.window.turnedAt:
		return Broken
	}
	return Whole
}

// Script is one of lua/*.lua, or the XDEL of a trim.
type Script uint8

// The scripts.
const (
	noScript Script = iota
	applyScript
	trimScript
	replayScript
	beginBuildScript
	loadScript
	addScript
	swapScript
	// of a rebuild in place
	putAccountsScript
	putOutcomesScript
	putHeadScript
)

// Call is a script on its way to a server.
type Call struct {
	script   Script
	server   uint8
	expected History // the head it must find
	target   History // replay, add: the log, of which the event after expected is folded
	first, n uint8   // apply: the commands' offsets
	skip     uint8   // those of them that are not sent, a bit each
	now      uint8
	ages     [batchMax]uint8 // their first-seen times
	stated   statement
	horizon  uint8               // load: chosen for what is forgotten
	ids      [historyMax]History // trim
	build    uint8               // load: its generation
	chunk    uint8
}

// Answer of a script. ok is false for OUT_OF_SYNC: nothing was written.
type Answer struct {
	ok        bool
	tooOld    uint8 // TOO_OLD: the commands that must be looked up, a bit each, in a ClickHouse that is complete through forgotten
	forgotten History
	at        History // the server's head
	answers   [batchMax]Event
	entry     Entry // zero unless something new was decided
}

// run executes a script on its server, at once and undivided.
func (m *Model) run(s *State, c Call) Answer {
	r := &s.servers[c.server]
	switch c.script {
	case applyScript:
		return m.apply(r, c)
	case trimScript:
		m.trim(s, r, c)
		return Answer{ok: true}
	case replayScript:
		return m.replay(r, c)
	case beginBuildScript:
		r.build = Build{contents: opening, exists: true, generation: c.build}
		return Answer{ok: true}
	case loadScript:
		return m.load(r, c)
	case addScript:
		return m.add(r, c)
	case swapScript:
		return m.swap(r, c)
	default:
		m.put(r, c)
		return Answer{ok: true}
	}
}

// apply is apply.lua.
func (m *Model) apply(r *Store, c Call) Answer {
	outOfSync := Answer{at: r.head}
	switch {
	case m.without(ApplyComparesHead):
	case r.keys&headKey == 0:
		return outOfSync
	case m.without(ApplyComparesChain):
		if r.head.position() != c.expected.position() {
			return outOfSync
		}
	case r.head != c.expected:
		return outOfSync
	}
	if m.conditionSeen(r) != Whole {
		return outOfSync
	}
	after, a := r.contents, Answer{ok: true, entry: Entry{before: r.head}}
	m.turn(&after, c.now)
	for i := range c.n {
		if c.skip&(1<<i) != 0 {
			continue
		}
		command := m.commands[c.first+i]
		e := after.outcome(command.id)
		if e == 0 {
			if after.head.position() == historyMax {
				return outOfSync // the model's bound, which only broken variants reach
			}
			if !m.without(ScriptChecksAge) && m.tooOld(&after, c, i) {
				a.tooOld |= 1 << i
			}
			e = newEvent(command.id, command.decide(after.balance, c.now), c.now)
			after.add(m, e)
		}
		a.answers[i] = e
	}
	if a.tooOld != 0 {
		return Answer{tooOld: a.tooOld, forgotten: after.window.forgotten, at: r.head}
	}
	a.at = after.head
	if a.at != a.entry.before {
		a.entry.after = a.at
		r.outbox.add(a.entry)
	} else {
		a.entry = Entry{}
	}
	r.write(after)
	return a
}

// trim is Store.Trim: XDEL by ids.
func (m *Model) trim(s *State, r *Store, c Call) {
	committed, _ := s.committed()
	ids := c.ids
	if m.without(TrimNamesEntries) {
		ids = [historyMax]History{}
		for i, e := range r.outbox.all() {
			ids[i] = e.after
		}
	}
	for _, id := range ids {
		if id == genesis {
			continue
		}
		e, found := r.outbox.remove(id, !m.without(TrimComparesChain))
		if found && !committed.follows(e.after) {
			s.violation = trimmedUncommitted
		}
	}
}

// replay is replay.lua on the live keys.
func (m *Model) replay(r *Store, c Call) Answer {
	if !m.without(ReplayIsConditional) && (r.condition() != Whole || r.head != c.expected) {
		return Answer{at: r.head}
	}
	after := r.contents
	after.head = c.expected
	m.replayEvent(&after, c.target.event(c.expected.position()))
	r.outbox = Outbox{}
	r.write(after)
	return Answer{ok: true, at: r.head}
}

// write puts contents into the keys, each with the head it belongs to.
func (r *Store) write(c contents) {
	r.contents, r.keys, r.keyLost = c, allKeys, false
	r.accountsAt, r.outcomesAt, r.outboxAt, r.oldAt = c.head, c.head, c.head, c.window.turnedAt
}

// load is load.lua: accounts, outcomes, and a last chunk that makes a head of them, as ClickHouse has them at a position.
func (m *Model) load(r *Store, c Call) Answer {
	b := &r.build
	if !b.exists || (!m.without(LoadIsConditional) && (b.generation != c.build || b.chunks != c.chunk || b.head != genesis)) {
		return Answer{at: b.head}
	}
	archived := m.archived(c.target, c.horizon)
	b.chunks = c.chunk + 1
	switch c.chunk {
	case 0:
		b.balance = archived.balance
	case 1:
		b.window = archived.window
		if !m.without(RebuildRestoresOutcomes) {
			b.recent = archived.recent
		}
	default:
		b.head, b.chunks = c.target, 0
	}
	return Answer{ok: true, at: b.head}
}

// add is replay.lua on a build.
func (m *Model) add(r *Store, c Call) Answer {
	b := &r.build
	if !m.without(BuildIsConditional) && (!b.exists || b.chunks > 0 || b.head != c.expected) {
		return Answer{at: b.head}
	}
	if !b.exists {
		*b = Build{contents: opening, exists: true}
	}
	recent := b.recent
	b.head = c.expected
	m.replayEvent(&b.contents, c.target.event(c.expected.position()))
	if m.without(RebuildRestoresOutcomes) {
		b.recent = recent
	}
	return Answer{ok: true, at: b.head}
}

// swap is swap.lua.
func (m *Model) swap(r *Store, c Call) Answer {
	b := r.build
	if !b.exists || ((b.chunks > 0 || b.head != c.expected) && !m.without(BuildIsConditional)) {
		return Answer{at: b.head}
	}
	r.build = Build{}
	if !m.without(RebuildClearsOutbox) {
		r.outbox = Outbox{}
	}
	r.write(b.contents)
	return Answer{ok: true, at: r.head}
}

// put is one of the scripts of a rebuild in place: accounts, outcomes, then outbox and head.
func (m *Model) put(r *Store, c Call) {
	folded := m.fold(c.target)
	switch c.script {
	case putAccountsScript:
		r.keys, r.balance, r.accountsAt = r.keys|accountsKey, folded.balance, c.target
	case putOutcomesScript:
		r.keys, r.recent, r.outcomesAt = r.keys|outcomesKey, folded.recent, c.target
	default:
		r.outbox = Outbox{}
		accountsAt, outcomesAt := r.accountsAt, r.outcomesAt
		folded.balance, folded.recent = r.balance, r.recent
		r.write(folded)
		r.accountsAt, r.outcomesAt = accountsAt, outcomesAt
	}
}
