package model

// batchMax is how many commands a turn may take in the model, two of them in one call of apply.lua.
const batchMax = 2

// Step is where a writer stands: what it does next.
type Step uint8

// The steps. A writer that crashed stands at begin.
const (
	begin Step = iota
	top        // between turns: a rebalance may be seen here
	fetchOffset
	inspect
	inspectOutbox
	noteWatermark
	readLog
	trimFound
	replay
	chooseSource
	beginBuild
	loadBuild
	addToBuild
	swapBuild
	putAccounts
	putOutcomes
	putHead
	apply
	lookUp
	publish
	trimEarly
	commitOffsets
	endTxn
	trim
	abort
)

// Writer is what one ledger-writer knows.
type Writer struct {
	step    Step
	server  uint8 // the Redis it talks to
	fenced  bool  // its producer's epoch is over
	current bool  // its client is in the group's generation
	pending bool  // the client joined it in mid-turn; the callbacks wait for the end of the turn
	adopted bool  // its shard was recovered in the generation of its client
	owned   bool  // it believes that it has the shard
	inDoubt bool
	inTxn   bool
	head    History
	next    uint8 // offset of the next command to poll
	now     uint8 // its clock in this turn

	batch    batch
	recovery recovery
	awaited  uint8 // transactions that recovery waits for, a bit each
	trimIDs  [historyMax]History
	stated   statement
}

// statement of a writer about ids that it looked up and did not find. The worst of writers keeps it for as long as it lives.
type statement struct {
	through History // which ClickHouse was complete
	ids     uint8   // a bit each
}

// batch is what a turn works on.
type batch struct {
	first, polled, decided uint8
	answers                [batchMax]Event
	entries                Outbox
	// What ClickHouse was asked, and said, by place in the batch.
	tooOld    uint8   // to be looked up
	forgotten History // through which ClickHouse must be complete
	found     [batchMax]Event
	sought    bool // ids, not yet completeness
	checked   bool // ages, before the call
}

// recovery is what recoverShard has read so far.
type recovery struct {
	running   bool
	logRead   bool
	offset    uint8
	condition Condition
	head      History // of Redis
	outbox    Outbox
	last      History // of the log
	at        History // how far a replay or a build is
	seam      History // to which ClickHouse is used; genesis: the log alone
	build     uint8   // generation of the build
	chunk     uint8
	horizon   uint8 // chosen for a rebuild from ClickHouse
}

// writer adds the moves of one writer.
func (x *expansion) writer(w int) {
	switch x.From.writers[w].step {
	case begin:
		x.begin(w)
	case top:
		x.turn(w)
	case fetchOffset, inspect, inspectOutbox, noteWatermark, readLog:
		x.recover(w)
	case chooseSource:
		x.chooseSource(w)
	case publish:
		x.publish(w)
	case commitOffsets:
		x.commitOffsets(w)
	case endTxn:
		x.endTxn(w)
	case apply:
		if x.m.without(ScriptChecksAge) && !x.From.writers[w].batch.checked {
			x.checkAge(w)
			return
		}
		x.call(w)
	case lookUp:
		x.lookUp(w)
	case abort:
		x.abort(w)
	default:
		x.call(w)
	}
}

// begin is InitProducerID, which settles what an earlier session left, and the way into the group.
func (x *expansion) begin(w int) {
	s := x.From
	switch s.txns[w].status {
	case open:
		s.end(w, false)
		x.withMarkers(w, s, "InitProducerID aborts what its last session left")
	case none:
		for owner := range x.m.Writers {
			if owner != w && s.writers[owner].step == begin {
				continue
			}
			n := s
			n.moveGroup(owner)
			n.writers[w] = Writer{step: top, server: s.writers[w].server}
			x.emit(w, "InitProducerID, joins the group; the shard goes to writer "+digit(owner), &n)
		}
	case committing, aborting: // CONCURRENT_TRANSACTIONS until the markers are written
	}
}

// turn is the loop's next step: look at the group, then recover, poll or check.
func (x *expansion) turn(w int) {
	s := x.From
	me := &s.writers[w]
	if !me.current || me.pending {
		n := s
		n.notice(x.m, w)
		x.emit(w, "sees the group's new generation", &n)
	}
	switch {
	case me.pending && !x.m.without(CallbacksFirst): // what it owns in the new generation is not known yet
	case !me.owned:
	case me.inDoubt || (!me.adopted && !x.m.without(NewGenerationDoubts)):
		me.inDoubt, me.adopted, me.step, me.recovery.running = true, true, fetchOffset, true
		x.emit(w, "recover: begins", &s)
	case int(me.next) < len(x.m.commands):
		x.poll(w)
	default:
		x.checkIdle(w)
	}
}

func (s *State) notice(m *Model, w int) {
	me := &s.writers[w]
	me.current, me.pending = true, false
	switch {
	case int(s.owner) != w:
		*me = Writer{step: top, server: me.server, fenced: me.fenced, current: true, stated: me.stated}
	case !me.owned:
		me.owned, me.inDoubt, me.adopted = true, true, false
	default:
		me.adopted = m.without(NewGenerationDoubts)
	}
}

// poll takes one command or more, at the clock of now or later.
func (x *expansion) poll(w int) {
	for n := uint8(1); n <= batchMax && int(x.From.writers[w].next+n) <= len(x.m.commands); n++ {
		s := x.From
		me := &s.writers[w]
		me.batch = batch{first: me.next, polled: n}
		me.next += n
		label := "polls " + digit(int(n))
		x.pollAt(w, s, label, x.emit)
		for s.now < clockMax {
			if s.now++; s.now > x.From.now+1 && !x.m.Forgets {
				break
			}
			if moved := s; moved.left.Spend(Clock) {
				x.pollAt(w, moved, label+", the clock moved to "+digit(int(s.now)), x.fault)
			}
		}
	}
}

// checkIdle compares Redis with what the writer believes.
func (x *expansion) checkIdle(w int) {
	s := x.From
	me := &s.writers[w]
	r := &s.servers[me.server]
	moved := x.m.conditionSeen(r) != Whole || r.head != me.head
	leftovers := r.outbox.n > 0 && !x.m.without(IdleCheckSeesOutbox)
	if (moved || leftovers) && !x.m.without(IdleCheck) {
		me.inDoubt = true
		x.emit(w, "checks the idle shard: Redis moved", &s)
	}
}

// publish writes what was decided, or what the outbox holds, into a transaction.
func (x *expansion) publish(w int) {
	s := x.From
	me := &s.writers[w]
	if me.fenced {
		x.fail(w, s, "publish: fenced", tenureOver)
		return
	}
	if s.txns[w].status > open {
		return // CONCURRENT_TRANSACTIONS
	}
	entries := me.batch.entries
	if x.m.without(PublishOwnEntries) && !me.recovery.running {
		entries = s.servers[me.server].outbox
	}
	var events []History
	replies := me.batch.answers[:]
	for _, entry := range entries.all() {
		for p := entry.before.position(); p < entry.after.position(); p++ {
			events = append(events, entry.after.prefix(p+1))
			replies = append(replies, entry.after.event(p))
		}
	}
	if !s.publish(w, events, replies) {
		x.Full()
		return
	}
	me.inTxn, me.step = true, commitOffsets
	if x.m.without(OutboxCommitsOffset) && me.recovery.running {
		me.step = endTxn
	}
	if x.m.without(TrimAfterCommit) && !me.recovery.running {
		me.step = trimEarly
	}
	x.emit(w, "publishes", &s)
	if s = x.From; s.left.Spend(Abort) {
		x.fail(w, s, "publish: refused", transactionAborts)
	}
}

// commitOffsets is TxnOffsetCommit, which the group refuses from another generation.
func (x *expansion) commitOffsets(w int) {
	s := x.From
	me := &s.writers[w]
	switch {
	case !me.adopted && !x.m.without(NewGenerationDoubts):
		x.fail(w, s, "commit: the client is in another generation than the recovery was", transactionAborts)
		return
	case me.fenced:
		x.fail(w, s, "commit: fenced", tenureOver)
		return
	case !me.current && !x.m.without(OffsetsCarryGeneration):
		x.fail(w, s, "commit: the group refuses the offset, ILLEGAL_GENERATION", transactionAborts)
		return
	}
	t := &s.txns[w]
	t.offsets, t.offset = true, me.batch.first+me.batch.polled
	if me.recovery.running {
		t.offset = me.recovery.offset
	}
	me.step = endTxn
	x.emit(w, "adds the offset to the transaction", &s)
}

// endTxn is EndTxn(commit).
func (x *expansion) endTxn(w int) {
	s := x.From
	if s.writers[w].fenced {
		x.fail(w, s, "commit: fenced", tenureOver)
		return
	}
	s.end(w, true)
	confirmed := s
	confirmed.confirmed(x.m, w)
	x.withMarkers(w, confirmed, "commits")
	if s = x.From; s.left.Spend(Abort) {
		s.end(w, false)
		s.mark(w)
		s.writers[w].inTxn = false
		x.fail(w, s, "commit: aborted", transactionAborts)
	}
	if s = x.From; s.left.Spend(Unknown) {
		lost := s
		s.end(w, true)
		s.mark(w)
		x.fail(w, s, "commit: done, the answer is lost", outcomeUnknown)
		x.fail(w, lost, "commit: the request is lost", outcomeUnknown)
		lost.txns[w].endOnTheWay = true
		x.fail(w, lost, "commit: the request is still on its way", outcomeUnknown)
	}
}

// confirmed goes on after a commit.
func (s *State) confirmed(m *Model, w int) {
	me := &s.writers[w]
	me.inTxn = false
	me.step = trim
	if me.trimIDs == [historyMax]History{} || (m.without(TrimAfterCommit) && !me.recovery.running) {
		s.trimmed(m, w)
	}
}

// trimmed ends a turn, or a recovery that published.
func (s *State) trimmed(m *Model, w int) {
	me := &s.writers[w]
	if me.recovery.running {
		s.recovered(m, w)
		return
	}
	me.forget()
}

// forget drops what belongs to a turn.
func (me *Writer) forget() {
	me.step, me.now, me.awaited = top, 0, 0
	me.batch, me.recovery, me.trimIDs = batch{}, recovery{}, [historyMax]History{}
}

// abort is EndTxn(abort) of a batch that was given up.
func (x *expansion) abort(w int) {
	s := x.From
	if s.writers[w].fenced {
		x.fail(w, s, "abort: fenced", tenureOver)
		return
	}
	s.writers[w].inTxn = false
	s.writers[w].step = top
	if s.txns[w].status == open {
		s.end(w, false)
	}
	x.withMarkers(w, s, "aborts its transaction")
}

// failure is what a turn's error means for what comes next.
type failure uint8

const (
	callFailed failure = iota
	transactionAborts
	outcomeUnknown
	tenureOver
)

// fail is the turn's error: the shard is in doubt, an open transaction is aborted, a session without a future is replaced.
func (x *expansion) fail(w int, s State, label string, why failure) {
	s.failed(x.m, w, why)
	x.emit(w, label, &s)
}

func (s *State) failed(m *Model, w int, why failure) {
	me := &s.writers[w]
	if why == outcomeUnknown && m.without(UnknownCommitInits) {
		me.inTxn, why = false, callFailed
	}
	if why >= outcomeUnknown {
		*me = Writer{step: begin, server: me.server}
		return
	}
	doubt := true
	if m.without(AbortRecovers) && why == transactionAborts && !me.recovery.running {
		doubt = false
		me.next = s.offset
	}
	me.forget()
	me.inDoubt = doubt
	if me.inTxn {
		me.step = abort
	}
}
