package model

import "slices"

// recover adds the reads of recoverShard. Each is one move; what is decided from them takes no time.
func (x *expansion) recover(w int) {
	s := x.From
	me := &s.writers[w]
	r := &me.recovery
	redis := &s.servers[me.server]
	logFirst := x.m.without(HeadBeforeLog)
	var label string
	switch me.step {
	case fetchOffset:
		if s.pendingOffsets() && !x.m.without(OffsetRequiresStable) {
			return // UNSTABLE_OFFSET_COMMIT
		}
		r.offset, me.step, label = s.offset, inspect, "recover: fetches the committed offset"
		if logFirst {
			me.step = noteWatermark
		}
	case inspect:
		r.condition, r.head = x.m.conditionSeen(redis), redis.head
		label = "recover: inspects head and outbox"
		if x.m.without(InspectIsAtomic) {
			me.step, label = inspectOutbox, "recover: reads the head"
			break
		}
		r.outbox, me.step = redis.outbox, noteWatermark
	case inspectOutbox:
		r.outbox, me.step, label = redis.outbox, noteWatermark, "recover: reads the outbox"
	case noteWatermark:
		me.awaited, me.step, label = s.pendingEvents(), readLog, "recover: notes the end of the log"
		if x.m.without(WaitForStable) || x.m.without(ReadCommitted) {
			me.awaited = 0
		}
	default: // readLog
		if me.awaited != 0 {
			return // the last stable offset is below the noted end
		}
		r.last, r.logRead, label = s.lastEvent(x.m.without(ReadCommitted)), true, "recover: reads the log's last event"
		if logFirst {
			me.step = inspect
		}
	}
	if r.logRead && (!logFirst || me.step == noteWatermark) {
		label += ": " + s.compare(x.m, w)
	}
	x.emit(w, label, &s)
}

// conditionSeen is what inspect.lua says, or what it would say if it did not look at the markers.
func (m *Model) conditionSeen(r *Store) Condition {
	seen := *r
	switch {
	case m.without(KeysBelongTogether) && r.keys&headKey != 0:
		return Whole
	case m.without(OldBucketBelongs) && r.keys != 0:
		seen.keys, seen.oldAt = seen.keys|oldKey, seen.window.turnedAt
	}
	return seen.condition()
}

// compare is the table of rule 13: it sets the step that follows.
func (s *State) compare(m *Model, w int) string {
	me := &s.writers[w]
	r := &me.recovery
	behind := r.condition == Whole && r.head.position() < r.last.position()
	if r.condition != Whole {
		return s.rebuildFrom(m, w)
	}
	if behind {
		if r.last.follows(r.head) || m.without(CompareChains) {
			r.at, me.step = r.head, replay
			return "behind"
		}
		return s.rebuildFrom(m, w)
	}
	committed, unpublished, linked := m.split(r)
	if !linked {
		return s.rebuildFrom(m, w)
	}
	me.trimIDs = [historyMax]History{}
	for i, e := range committed.all() {
		me.trimIDs[i] = e.after
	}
	if unpublished.n > 0 {
		me.batch.entries, me.step = unpublished, publish
		for i, e := range unpublished.all() {
			if at := int(committed.n) + i; at < historyMax {
				me.trimIDs[at] = e.after
			}
		}
		return "ahead"
	}
	me.step = trimFound
	if committed.n == 0 {
		s.recovered(m, w)
	}
	return "clean"
}

// split sorts the outbox into what the log has and what links on to it, from its last event to Redis's head.
func (m *Model) split(r *recovery) (committed, unpublished Outbox, linked bool) {
	at := r.last
	for _, e := range r.outbox.all() {
		if e.after.position() <= r.last.position() {
			committed.add(e)
			continue
		}
		switch {
		case m.without(OutboxLinks):
		case m.without(CompareChains) && e.before.position() == at.position():
		case e.before != at:
			return Outbox{}, Outbox{}, false
		}
		at = e.after
		unpublished.add(e)
	}
	if m.without(CompareChains) {
		return committed, unpublished, at.position() == r.head.position()
	}
	return committed, unpublished, at == r.head
}

// rebuildFrom begins a rebuild. Of a Redis that was compatible with the log, none must.
func (s *State) rebuildFrom(m *Model, w int) string {
	me := &s.writers[w]
	r := &me.recovery
	if r.condition == Whole {
		now := *r
		now.last, _ = s.committed()
		_, _, linked := (&Model{}).split(&now)
		if now.last.follows(r.head) || linked {
			s.violation = falseFork
		}
	}
	if m.without(RebuildReachesLogsEnd) && r.last != genesis {
		r.last = r.last.prefix(r.last.position() - 1)
	}
	r.at, me.step = genesis, chooseSource
	if m.without(RebuildBeside) {
		me.step = putAccounts
	}
	return "rebuild"
}

// chooseSource takes the log alone, or ClickHouse to where it lags behind the log, and names the build.
func (x *expansion) chooseSource(w int) {
	for p := range x.From.writers[w].recovery.last.position() + 1 {
		s := x.From
		me := &s.writers[w]
		me.recovery.seam, me.recovery.build = me.recovery.last.prefix(p), s.freshBuild()
		me.step = beginBuild
		x.emit(w, "rebuild: from ClickHouse up to position "+digit(p)+", then from the log", &s)
		if p == 0 || !x.m.Forgets {
			continue
		}
		for me.recovery.horizon < s.now {
			me.recovery.horizon++
			x.emit(w, "rebuild: from ClickHouse, with outcomes since "+digit(int(me.recovery.horizon))+", up to position "+digit(p)+", then from the log", &s)
		}
	}
}

// freshBuild is a name that no build, no writer and no script on its way knows.
func (s *State) freshBuild() uint8 {
	known := []uint8{s.servers[0].build.generation, s.servers[1].build.generation, s.copy.build.generation, s.delayed.build}
	for _, me := range s.writers {
		known = append(known, me.recovery.build)
	}
	fresh := uint8(1)
	for slices.Contains(known, fresh) {
		fresh++
	}
	return fresh
}

// recovered puts the shard back to work, from the committed offset.
func (s *State) recovered(m *Model, w int) {
	me := &s.writers[w]
	me.head = me.recovery.last
	if me.batch.entries.n > 0 {
		me.head = me.recovery.head
	}
	if !m.without(RewindToOffset) || me.next < me.recovery.offset {
		me.next = me.recovery.offset
	}
	me.inDoubt = false
	me.forget()
}

// call adds the moves of a writer whose next step is a script.
func (x *expansion) call(w int) {
	c, label := x.nextCall(w)
	s := x.From
	a := x.m.run(&s, c)
	s.answered(x.m, w, a)
	switch {
	case a.tooOld != 0:
		label += ": TOO_OLD"
	case !a.ok:
		label += ": OUT_OF_SYNC"
	}
	x.emit(w, label, &s)
	again := c.script == applyScript // the very same call is sent again; other scripts are given up
	if s = x.From; s.left.Spend(Loss) {
		unheard := s
		unheard.failed(x.m, w, callFailed)
		x.fault(w, label+", the request is lost", &unheard)
		x.m.run(&s, c)
		if again {
			x.fault(w, label+", the answer is lost: asks again", &s)
		}
		s.failed(x.m, w, callFailed)
		x.fault(w, label+", the answer is lost: gives up", &s)
	}
	if s = x.From; s.delayed.script == noScript && s.left.Spend(Delay) {
		s.delayed = c
		if again {
			x.fault(w, label+" is delayed: asks again", &s)
		}
		s.failed(x.m, w, callFailed)
		x.fault(w, label+" is delayed: gives up", &s)
	}
}

func (x *expansion) nextCall(w int) (Call, string) {
	me := &x.From.writers[w]
	r := &me.recovery
	c := Call{server: me.server, expected: r.at, target: r.last}
	switch me.step {
	case apply:
		return x.applyCall(w), "apply"
	case trim, trimEarly, trimFound:
		return Call{script: trimScript, server: me.server, ids: me.trimIDs}, "trim"
	case replay:
		c.script = replayScript
		return c, "replay"
	case beginBuild:
		return Call{script: beginBuildScript, server: me.server, build: r.build}, "rebuild: begins a build"
	case loadBuild:
		return Call{script: loadScript, server: me.server, target: r.seam, build: r.build, chunk: r.chunk, horizon: r.horizon}, "rebuild: loads from ClickHouse"
	case addToBuild:
		c.script = addScript
		return c, "rebuild: adds an event"
	case swapBuild:
		c.script = swapScript
		return c, "rebuild: swaps"
	case putAccounts:
		c.script = putAccountsScript
		return c, "rebuild: puts accounts"
	case putOutcomes:
		c.script = putOutcomesScript
		return c, "rebuild: puts outcomes"
	default: // putHead
		c.script = putHeadScript
		return c, "rebuild: puts head and outbox"
	}
}

// answered goes on after a script.
func (s *State) answered(m *Model, w int, a Answer) {
	me := &s.writers[w]
	if !a.ok {
		if me.step == apply && a.tooOld != 0 {
			me.batch.tooOld, me.batch.forgotten, me.step = a.tooOld<<me.batch.decided, a.forgotten, lookUp
			return
		}
		if me.step == apply && m.without(OutOfSyncRecovers) {
			me.head = a.at
			return
		}
		s.failed(m, w, callFailed)
		return
	}
	switch me.step {
	case apply:
		s.take(m, w, a)
	case trim:
		s.trimmed(m, w)
	case trimEarly:
		me.step = commitOffsets
	case trimFound, swapBuild, putHead:
		s.recovered(m, w)
	case replay:
		if me.recovery.at = a.at; me.recovery.at.position() >= me.recovery.last.position() {
			s.recovered(m, w)
		}
	case loadBuild, beginBuild, addToBuild:
		if me.step == loadBuild {
			me.recovery.chunk++
		}
		me.recovery.at, me.step = a.at, addToBuild
		if me.recovery.seam != genesis && me.recovery.chunk < loadChunks {
			me.step = loadBuild
			break
		}
		if a.at.position() == me.recovery.last.position() {
			me.step = swapBuild
		}
	case putAccounts:
		me.step = putOutcomes
	case putOutcomes:
		me.step = putHead
	default:
	}
}

// take notes what a call of apply decided.
func (s *State) take(m *Model, w int, a Answer) {
	me := &s.writers[w]
	b := &me.batch
	me.head = a.at
	for i := range min(m.CallCommands, b.polled-b.decided) {
		b.answers[b.decided] = a.answers[i] | b.found[b.decided]
		b.decided++
		if m.without(TellAfterCommit) {
			s.tell(a.answers[i])
		}
	}
	if a.entry != (Entry{}) {
		me.trimIDs[b.entries.n] = a.entry.after
		b.entries.add(a.entry)
	}
	b.checked = false
	me.goOn()
}

// goOn skips what ClickHouse has answered, and publishes when all is decided.
func (me *Writer) goOn() {
	b := &me.batch
	for b.decided < b.polled && b.found[b.decided] != 0 {
		b.answers[b.decided] = b.found[b.decided]
		b.decided++
	}
	if b.decided == b.polled {
		me.step = publish
	}
}

// applyCall is the next call of apply.lua in a turn.
func (x *expansion) applyCall(w int) Call {
	me := &x.From.writers[w]
	b := &me.batch
	c := Call{script: applyScript, server: me.server, expected: me.head, first: b.first + b.decided, now: me.now, stated: me.stated}
	c.n = min(x.m.CallCommands, b.polled-b.decided)
	if !x.m.Forgets {
		return c
	}
	for i := range c.n {
		at := b.decided + i
		c.ages[i] = x.From.firstSeen[x.m.commands[b.first+at].id] - 1
		if b.found[at] != 0 {
			c.skip |= 1 << i
		}
	}
	return c
}
