package model

// The dedupe window, rule 18. Lengths are in ticks of the model's clock.
const (
	clockMax    = 4 // of a clock that jumped
	windowTicks = 1 // how long a bucket of outcomes is filled
	marginTicks = 1 // by how much the clocks of callers and writers may differ
)

// window is what the head says about the two buckets of outcomes.
type window struct {
	turned    uint8   // when the recent bucket was begun
	turnedAt  History // the head then
	horizon   uint8   // when the last bucket that was dropped was closed
	forgotten History // the head then: outcomes up to it may be forgotten, later ones are not
}

// turn drops the old bucket and begins a new one, when it is time.
func (m *Model) turn(c *contents, now uint8) {
	if !m.Forgets || now < c.window.turned+windowTicks {
		return
	}
	c.old, c.recent = c.recent, [historyMax]Event{}
	w := &c.window
	if !m.without(TurnMovesHorizon) {
		w.horizon, w.forgotten = w.turned, w.turnedAt
	}
	w.turned, w.turnedAt = now, c.head
}

// timer drops the older outcomes when they are old enough, if it is not the script that does.
func (x *expansion) timer() {
	s := x.From
	r := &s.servers[s.main]
	if x.m.without(ScriptForgets) && r.old != [historyMax]Event{} && s.now > r.window.turned {
		r.old = [historyMax]Event{}
		x.emit(world, "the older outcomes time out", &s)
	}
}

// replayEvent folds an event of the log. Its decision was the clock of the turn, and is again.
func (m *Model) replayEvent(c *contents, e Event) {
	m.turn(c, e.decidedAt())
	c.add(m, e)
}

// tooOld tells whether a command that Redis does not remember may have an outcome all the same.
func (m *Model) tooOld(c *contents, call Call, i uint8) bool {
	margin := uint8(marginTicks)
	if m.without(MarginForClocks) {
		margin = 0
	}
	w := &c.window
	switch {
	case !m.Forgets || call.ages[i] >= w.horizon+margin:
		return false
	case call.stated.ids&(1<<m.commands[call.first+i].id) == 0:
		return true
	case m.without(StatementCompared):
		return false
	}
	through := call.stated.through
	return through.position() < w.forgotten.position() || (through.position() == w.forgotten.position() && through != w.forgotten)
}

// archived is a shard as ClickHouse has it at a position, with the outcomes from a horizon on: the first one decided then, and all after it.
// The clock of the log may have jumped back, so those before it are older, and those after it need not be younger. The
// bucket counts as begun when the last of them was decided: else the tail of the log may close it before that.
func (m *Model) archived(at History, horizon uint8) contents {
	c := m.fold(at)
	if !m.Forgets {
		return c
	}
	kept, last, turned := at.position(), 0, horizon
	for i := range at.position() {
		if at.event(i).decidedAt() < horizon {
			last = i + 1
			continue
		}
		kept = min(kept, i)
		if !m.without(LoadTurnsLast) {
			turned = max(turned, at.event(i).decidedAt())
		}
	}
	switch {
	case m.without(RebuildKeepsWindow):
		kept = at.position()
	case m.without(ForgottenIsPrefix):
		kept = last
	}
	forgotten := at.prefix(kept)
	c.window = window{turned: turned, turnedAt: forgotten, horizon: horizon, forgotten: forgotten}
	c.recent, c.old = outcomesBetween(at, kept, at.position()), [historyMax]Event{}
	return c
}

func outcomesBetween(h History, from, to int) (outcomes [historyMax]Event) {
	for i := from; i < to; i++ {
		outcomes[h.event(i).id()] = h.event(i)
	}
	return outcomes
}

// remembersWindow tells whether the buckets hold each outcome above forgotten, and no other.
func (c *contents) remembersWindow() bool {
	w := c.window
	return w.turnedAt.follows(w.forgotten) && c.head.follows(w.turnedAt) &&
		c.old == outcomesBetween(c.head, w.forgotten.position(), w.turnedAt.position()) &&
		c.recent == outcomesBetween(c.head, w.turnedAt.position(), c.head.position())
}

// pollAt polls at a time: by a clock that is right, or by one that jumped.
func (x *expansion) pollAt(w int, s State, label string, emit func(int, string, *State)) {
	me := &s.writers[w]
	me.now, me.step = s.now, apply
	if !x.m.Forgets {
		emit(w, label, &s)
		return
	}
	at := func(s State, label string, now, caller uint8, emit func(int, string, *State)) {
		s.stamp(x.m, s.writers[w].batch, caller)
		if s.writers[w].now = now; !s.fromTheFuture(x.m, s.writers[w].batch, now) {
			emit(w, label, &s)
		}
	}
	at(s, label, s.now, s.now, emit)
	if other := s; other.left.Spend(Skew) {
		at(other, label+", its caller's clock is ahead", s.now, s.now+marginTicks, x.fault)
		at(other, label+", sent long ago", s.now, 0, x.fault)
	}
	if jumped := s; jumped.left.Spend(Jump) {
		for now := range clockMax + 1 {
			at(jumped, label+", its clock jumped to "+digit(now), uint8(now), s.now, x.fault)
		}
	}
}

// stamp is the first-seen time of the commands that are polled for the first time: a caller sends them now, by a clock that may be ahead.
// An earlier one would only be refused more often.
func (s *State) stamp(m *Model, b batch, caller uint8) {
	for _, c := range m.commands[b.first : b.first+b.polled] {
		if s.firstSeen[c.id] == 0 || m.without(FirstSeenKept) {
			s.firstSeen[c.id] = 1 + caller
		}
	}
}

// fromTheFuture tells whether a command was first seen later than a writer's clock can explain.
func (s *State) fromTheFuture(m *Model, b batch, now uint8) bool {
	for _, c := range m.commands[b.first : b.first+b.polled] {
		if s.firstSeen[c.id]-1 > now+marginTicks {
			return !m.without(FutureWaits)
		}
	}
	return false
}

// checkAge is what a writer does who trusts the horizon that it reads beforehand.
func (x *expansion) checkAge(w int) {
	s := x.From
	me := &s.writers[w]
	c, seen := x.applyCall(w), s.servers[me.server].contents
	x.m.turn(&seen, me.now)
	me.batch.checked = true
	for i := range c.n {
		if c.skip&(1<<i) == 0 && seen.outcome(x.m.commands[c.first+i].id) == 0 && x.m.tooOld(&seen, c, i) {
			me.batch.tooOld |= 1 << (me.batch.decided + i)
			me.batch.forgotten, me.step = seen.window.forgotten, lookUp
		}
	}
	x.emit(w, "compares ages with the horizon", &s)
}

// lookUp asks ClickHouse, which has the log up to anywhere from where it last was, for the commands that were too old. What it is complete
// through is known before the ids are looked up.
func (x *expansion) lookUp(w int) {
	last := x.From.lastEvent(false)
	for p := x.From.archive.position(); p <= last.position(); p++ {
		s := x.From
		me := &s.writers[w]
		b := &me.batch
		s.archive = last.prefix(p)
		seen := s.archive
		if x.m.without(CompletenessFirst) {
			if !b.sought {
				b.sought, me.stated = true, statement{through: seen}
				x.emit(w, "looks up ids in ClickHouse, which is at "+digit(p), &s)
				continue
			}
			seen = me.stated.through
		}
		if !s.archive.follows(b.forgotten) && !x.m.without(LookUpIsComplete) {
			x.fail(w, s, "ClickHouse is only at "+digit(p)+": gives up the batch", callFailed)
			continue
		}
		b.sought, me.stated = false, statement{through: s.archive}
		if x.m.without(LookUpIsComplete) && b.forgotten.position() > p {
			me.stated.through = b.forgotten
		}
		for i := range batchMax {
			if b.tooOld&(1<<i) != 0 {
				id := x.m.commands[int(b.first)+i].id
				if b.found[i] = seen.outcomeOf(id); b.found[i] == 0 {
					me.stated.ids |= 1 << id
				}
			}
		}
		b.tooOld, b.forgotten = 0, genesis
		me.step = apply
		me.goOn()
		x.emit(w, "looks up in ClickHouse, which is at "+digit(p), &s)
	}
}

func (h History) outcomeOf(id int) Event {
	for i := range h.position() {
		if h.event(i).id() == id {
			return h.event(i)
		}
	}
	return 0
}
