package transfer

// How an outcome came about.
type how uint8

const (
	decided how = iota
	remembered
	reused // the id is known, with another payload
)

// derive is the command that an outcome asks for, in the shard of its account.
func (m *Model) derive(r Record, e Event) (Record, bool) {
	asks := m.command(r)
	next := Record{command: r.command, asked: min(r.asked, e.at), request: r.request}
	switch {
	case r.kind == asked && asks.verb == transfer && e.reason == applied:
		next.kind, next.account, next.amount = credited, asks.to, asks.amount
	case r.kind == credited && e.reason != applied:
		next = m.refused(r, e.reason)
		next.asked = min(r.asked, e.at)
	case r.kind == asked && asks.verb == reverse && e.reason == applied && e.from > 0:
		next.kind, next.account, next.amount, next.request = returned, e.from-1, -e.delta, nobody
	default:
		return Record{}, false
	}
	return next, true
}

// refused is the return of a credit.
func (m *Model) refused(r Record, why Reason) Record {
	return Record{kind: returned, command: r.command, asked: r.asked, request: r.request, account: m.command(r).account, amount: r.amount, why: why}
}

// derived is what is sent on with an answer.
func (m *Model) derived(r Record, e Event, how how) (Record, bool) {
	switch {
	case how == reused && r.kind == credited && !m.without(ReusedCreditReturns):
		return m.refused(r, idReused), true
	case how == reused && !m.without(NothingFromReused):
		return Record{}, false
	case how == remembered && r.kind == credited && m.without(RefusalReturnsAgain):
		return Record{}, false
	case how == remembered && r.kind == asked && m.without(TransferCreditsAgain):
		return Record{}, false
	}
	return m.derive(r, e)
}

// answer is what the caller of a command is told; none: not yet.
func (m *Model) answer(r Record, e Event, how how) Reason {
	switch {
	case how == reused && r.kind == asked:
		return idReused
	case how == reused:
		return none
	case r.kind == asked:
		if m.command(r).verb == transfer && e.reason == applied && !m.without(FarEndTells) {
			return none
		}
		return e.reason
	case r.kind == credited && e.reason == applied:
		return applied
	case r.kind == credited && m.without(ReturnTells):
		return e.reason
	case r.kind == returned:
		return r.why
	}
	return none
}

// publish sends what follows from an outcome. False: a queue of the model is full.
func (s *State) publish(m *Model, r Record, e Event, how how) bool {
	s.tell(r, m.answer(r, e, how))
	return s.send(m, r, e, how)
}

func (s *State) send(m *Model, r Record, e Event, how how) bool {
	next, asks := m.derived(r, e, how)
	if !asks {
		return true
	}
	if m.without(DerivedIsAsOld) {
		next.asked = s.now
	}
	if m.without(IDsAreDeterministic) {
		s.salt = (s.salt + 1) % 4
		next.salt = s.salt
	}
	return s.push(next)
}

func (s *State) push(r Record) bool {
	sh := &s.shards[shardOf[r.account]]
	if sh.queued == queueMax {
		return false
	}
	sh.queue[sh.queued] = r
	sh.queued++
	return true
}

// consumed is the next offset.
func (sh *Shard) consumed() {
	copy(sh.queue[:], sh.queue[1:])
	sh.queue[queueMax-1] = Record{}
	sh.queued--
}

// tell hands an outcome to a caller.
func (s *State) tell(r Record, reason Reason) {
	if reason == none {
		return
	}
	if told := s.told[r.command]; told != none && told != reason {
		s.violation = toldTwice
	}
	s.told[r.command] = reason
	if r.request != nobody {
		s.waits[r.command] &^= 1 << r.request
	}
}
