package transfer

// step of an owner: what it does next.
type step uint8

const (
	idle       step = iota
	publishing      // Redis has decided
	sending         // committed, and what follows is not sent: by an owner who does not do both at once
)

// Owner is the ledger-writer that has the shard.
type Owner struct {
	step   step
	doubt  bool // recover first
	record Record
	event  Event
	how    how
	holds  uint8 // that it will end, a bit each
}

// owner adds the moves of a shard's owner, and of a former one.
func (x *expansion) owner(i int) {
	sh := &x.From.shards[i]
	switch {
	case sh.owner.step == publishing:
		x.commit(i)
	case sh.owner.step == sending:
		s := x.From
		o := s.shards[i].owner
		s.shards[i].owner = Owner{holds: o.holds}
		if !s.send(x.m, o.record, o.event, o.how) {
			x.Full()
			return
		}
		x.emit(i, "sends what follows from "+x.m.recordText(o.record), &s)
	case sh.owner.doubt:
		x.recover(i)
	case !sh.agrees(): // the next call of the script, or the idle check, notices
		x.recover(i)
		x.end(i)
	default:
		x.poll(i)
		x.end(i)
	}
	x.ghost(i)
	if x.m.without(FarEndDecides) {
		x.giveUp(i)
	}
}

// giveUp returns a transfer of which nothing was heard in time.
func (x *expansion) giveUp(i int) {
	for _, e := range x.From.shards[i].past() {
		s := x.From
		back := x.m.refused(Record{command: e.command, asked: s.now, request: e.request, amount: -e.delta}, deadlinePassed)
		transferred := e.kind == asked && x.m.command(e.Record).verb == transfer && e.reason == applied
		if transferred && s.now > e.at && s.told[e.command] == none && !s.comes(back) && s.push(back) {
			x.emit(i, "gives up "+x.m.recordText(e.Record), &s)
		}
	}
}

// agrees tells whether Redis is where the log is.
func (sh *Shard) agrees() bool {
	return !sh.redis.lost && sh.redis.n == sh.n && sh.redis.extra == Event{}
}

func (sh *Shard) past() []Event { return sh.log[:sh.n] }

// poll takes the next command and lets Redis decide it.
func (x *expansion) poll(i int) {
	if x.From.shards[i].queued == 0 {
		return
	}
	r := x.From.shards[i].queue[0]
	label := "decides " + x.m.recordText(r)
	if s := x.From; x.apply(&s, i, r, s.now) {
		x.emit(i, label, &s)
	}
	if s := x.From; s.now > 0 && s.left.Spend(Skew) && x.apply(&s, i, r, s.now-1) {
		x.fault(i, label+", by a clock that is slow", &s)
	}
}

func (x *expansion) apply(s *State, i int, r Record, now uint8) bool {
	sh := &s.shards[i]
	o := &sh.owner
	o.step, o.record = publishing, r
	if known, ok := x.m.known(sh, r); ok {
		o.event, o.how = known, remembered
		if !known.samePayload(r) {
			o.how = reused
		}
	} else {
		o.event, o.how = x.m.decide(&sh.redis.contents, sh.past(), r, now, sh.forgotten), decided
		sh.redis.add(x.m, o.event)
		sh.redis.extra = o.event
	}
	if x.m.without(DerivedNotBefore) && !s.send(x.m, r, o.event, o.how) {
		x.Full()
		return false
	}
	return true
}

// commit is the transaction of a turn: the event, what follows from it, the answer, the offset.
func (x *expansion) commit(i int) {
	o := x.From.shards[i].owner
	s := x.From
	if !x.committed(&s, i) {
		x.Full()
		return
	}
	x.emit(i, "commits "+x.m.eventText(o.event), &s)
	if s.left.Spend(Unknown) {
		s.shards[i].owner = Owner{doubt: true}
		x.fault(i, "commits "+x.m.eventText(o.event)+", and does not hear of it", &s)
	}
	if s = x.From; s.left.Spend(Abort) {
		s.shards[i].owner = Owner{doubt: true}
		x.fault(i, "its transaction is aborted", &s)
	}
}

func (x *expansion) committed(s *State, i int) bool {
	sh := &s.shards[i]
	o := sh.owner
	if o.how == decided && !sh.append(o.event) {
		return false
	}
	sh.consumed()
	holds := o.holds
	if x.m.command(o.record).verb == hold && o.how == decided && o.event.left > 0 {
		holds |= 1 << x.m.holdOf(o.record)
	}
	sh.owner = Owner{holds: holds}
	switch {
	case x.m.without(DerivedNotAfter):
		s.tell(o.record, x.m.answer(o.record, o.event, o.how))
		if _, asks := x.m.derived(o.record, o.event, o.how); asks {
			sh.owner = Owner{step: sending, record: o.record, event: o.event, how: o.how, holds: holds}
		}
		return true
	case x.m.without(DerivedNotBefore):
		s.tell(o.record, x.m.answer(o.record, o.event, o.how))
		return true
	}
	return s.publish(x.m, o.record, o.event, o.how)
}

// append adds an event to the log; Redis has it, if it still has what was applied.
func (sh *Shard) append(e Event) bool {
	if sh.n == logMax {
		return false
	}
	sh.log[sh.n] = e
	sh.n++
	if sh.redis.extra == e {
		sh.redis.n, sh.redis.extra = sh.n, Event{}
	}
	return true
}

// recover brings Redis and the log together, and learns which holds there are to end.
func (x *expansion) recover(i int) {
	s := x.From
	sh := &s.shards[i]
	found := "recovers: Redis and the log agree"
	switch extra := sh.redis.extra; {
	case sh.redis.lost:
		sh.redis = Redis{n: sh.n, contents: x.m.rebuilt(sh.past())}
		found = "recovers: rebuilds Redis"
	case sh.redis.n < sh.n:
		sh.redis.contents = x.m.replayed(sh.redis.contents, sh.log[sh.redis.n:sh.n])
		sh.redis.n, sh.redis.extra = sh.n, Event{}
		found = "recovers: replays the log onto Redis"
	case extra != Event{}:
		if !sh.append(extra) || !s.publish(x.m, extra.Record, extra, decided) {
			x.Full()
			return
		}
		found = "recovers: publishes the outbox, " + x.m.eventText(extra)
	}
	sh.owner = Owner{}
	for h, left := range sh.redis.left {
		if left > 0 && !x.m.without(HoldsReadFromRedis) {
			sh.owner.holds |= 1 << h
		}
	}
	x.emit(i, found, &s)
}

func (m *Model) fold(events []Event) contents {
	k := m.opening()
	for _, e := range events {
		k.add(m, e)
	}
	return k
}

func (m *Model) rebuilt(events []Event) contents {
	k := m.fold(events)
	if m.without(RebuildRestoresHolds) {
		k.left = [idsMax]int8{}
	}
	if m.without(RebuildRestoresTotals) {
		k.total = [2][idsMax]int8{}
	}
	return k
}

func (m *Model) replayed(k contents, events []Event) contents {
	was := k
	for _, e := range events {
		k.add(m, e)
	}
	if m.without(ReplayRestoresHolds) {
		k.left = was.left
	}
	if m.without(ReplayRestoresTotals) {
		k.total = was.total
	}
	return k
}

// end asks for the release of a hold that is over, if Redis has it open.
func (x *expansion) end(i int) {
	for h := range idsMax {
		s := x.From
		sh := &s.shards[i]
		if sh.owner.holds&(1<<h) == 0 || s.now < holdEnds {
			continue
		}
		sh.owner.holds &^= 1 << h
		if sh.redis.left[h] == 0 {
			x.emit(i, "hold "+x.m.idText(uint8(h))+" is over already", &s)
			continue
		}
		if !s.push(x.m.expiry(&x.From.shards[i], h)) {
			x.Full()
			return
		}
		x.emit(i, "asks for the end of hold "+x.m.idText(uint8(h)), &s)
	}
}

// ghost is a former owner, which ends holds that it knows of.
func (x *expansion) ghost(i int) {
	for h := range idsMax {
		s := x.From
		if s.shards[i].ghost&(1<<h) == 0 || s.now < holdEnds {
			continue
		}
		s.shards[i].ghost &^= 1 << h
		if !s.push(x.m.expiry(&x.From.shards[i], h)) {
			x.Full()
			return
		}
		x.fault(i, "a former owner asks for the end of hold "+x.m.idText(uint8(h)), &s)
	}
}

// expiry is the release of a hold whose time is over.
func (m *Model) expiry(sh *Shard, h int) Record {
	for _, e := range sh.past() {
		if e.kind == asked && m.command(e.Record).verb == hold && int(m.command(e.Record).id) == h {
			return Record{kind: expired, command: e.command, account: e.account, asked: holdEnds, request: nobody}
		}
	}
	return Record{}
}
