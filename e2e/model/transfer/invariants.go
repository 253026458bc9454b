package transfer

import "github.com/hotledger/hotledger/e2e/model/explore"

// The properties, each as what breaks it.
const (
	twoOutcomes   explore.Violation = "one command id has two outcomes in one log"
	fromNothing   explore.Violation = "the ledger booked what no outcome asked for"
	bothEnds      explore.Violation = "a transfer is settled and returned"
	stranded      explore.Violation = "money is on its way, and no command brings it"
	notConserved  explore.Violation = "balances and what is on its way do not add up to what there was"
	belowFloor    explore.Violation = "more was taken than was available"
	heldDiffers   explore.Violation = "what an account holds back is not the sum of its open holds"
	overused      explore.Violation = "more was captured and released than was held"
	lateCapture   explore.Violation = "a hold was captured after its end"
	overreversed  explore.Violation = "more was reversed than there was"
	wrongDecision explore.Violation = "an outcome does not follow from the log before it"
	toldTwice     explore.Violation = "a caller was told two different outcomes"
	toldWrong     explore.Violation = "a caller was told what the logs do not say"
	torn          explore.Violation = "Redis is not the fold of the events that it has"
	stuck         explore.Violation = "nothing can go on, and something is left to do"
	redisIsNotLog explore.Violation = "all is quiet, and Redis is not the fold of the log"
	onItsWay      explore.Violation = "all is quiet, and money is on its way"
	holdLeft      explore.Violation = "all is quiet, and a hold is open after its end"
	notTold       explore.Violation = "all is quiet, and a caller waits for an answer"
)

// Check looks at one state.
func (m *Model) Check(s *State) explore.Violation {
	if s.violation != "" {
		return s.violation
	}
	for i := range s.shards {
		if v := m.checkLog(s.shards[i].past()); v != "" {
			return v
		}
	}
	if _, v := m.checkMoney(s); v != "" {
		return v
	}
	for n := range s.sent {
		if s.told[n] != none && !m.isSo(s, n, s.told[n]) {
			return toldWrong
		}
	}
	if m.variant.Rule == nothing {
		return m.checkRedis(s)
	}
	return "" // a wrong protocol is to be judged by what it does
}

// checkMoney returns what is on its way: it left one account, and is not known to have reached another.
func (m *Model) checkMoney(s *State) (onWay int8, v explore.Violation) {
	expected, there := int8(0), int8(0)
	for account, opening := range m.plan.opening {
		expected += opening
		there += m.fold(s.shards[shardOf[account]].past()).balance[account]
	}
	for i := range s.shards {
		for _, e := range s.shards[i].past() {
			if v := m.checkCause(s, e); v != "" {
				return 0, v
			}
			next, asks := m.derive(e.Record, e)
			switch {
			case asks:
				amount, v := m.underWay(s, next)
				if v != "" {
					return 0, v
				}
				onWay += amount
			case m.outside(s.shards[i].past(), e):
				expected += e.delta
			}
		}
	}
	if there+onWay != expected {
		return 0, notConserved
	}
	return onWay, ""
}

// outside tells whether the other side of an event is no account of the ledger, and not what is on its way.
func (m *Model) outside(log []Event, e Event) bool {
	asks := m.command(e.Record)
	if asks.verb == reverse {
		o, _ := m.original(log, asks)
		return o.kind == asked && m.command(o.Record).verb != transfer
	}
	return e.kind == asked && asks.verb != transfer
}

// underWay is the amount of a derived command that has no outcome yet.
func (m *Model) underWay(s *State, r Record) (int8, explore.Violation) {
	if s.has(r) {
		return 0, ""
	}
	back := m.refused(r, idReused)
	switch {
	case r.kind == credited && s.has(back):
		return 0, ""
	case s.comes(r), r.kind == credited && s.comes(back):
		return r.amount, ""
	}
	for i := range s.shards {
		if o := &s.shards[i].owner; o.step == sending && o.record.command == r.command {
			return r.amount, "" // it may still be sent
		}
	}
	return 0, stranded
}

// has tells whether a log has the outcome of a command.
func (s *State) has(r Record) bool {
	for _, e := range s.shards[shardOf[r.account]].past() {
		r.salt = e.salt
		if e.samePayload(r) {
			return true
		}
	}
	return false
}

// comes tells whether a command is in its queue.
func (s *State) comes(r Record) bool {
	sh := &s.shards[shardOf[r.account]]
	for _, q := range sh.queue[:sh.queued] {
		r.salt = q.salt
		if q.samePayload(r) {
			return true
		}
	}
	return false
}

// checkCause finds what asked for an event that no caller asked for, and no second end of a transfer.
func (m *Model) checkCause(s *State, e Event) explore.Violation {
	switch e.kind {
	case credited:
		cause, found := s.outcome(asked, e.command)
		if !found || cause.reason != applied {
			return fromNothing
		}
	case returned:
		cause, found := s.outcome(asked, e.command)
		if far, refused := s.outcome(credited, e.command); e.why != none && refused && far.reason == applied {
			return bothEnds
		} else if e.why != none && e.why != idReused {
			cause, found = far, refused && far.reason == e.why
		}
		if !found || (e.why == none && cause.reason != applied) {
			return fromNothing
		}
	default:
	}
	return ""
}

// outcome of a command of the plan, or of what was derived from it.
func (s *State) outcome(kind kind, command uint8) (Event, bool) {
	for i := range s.shards {
		for _, e := range s.shards[i].past() {
			if e.kind == kind && e.command == command {
				return e, true
			}
		}
	}
	return Event{}, false
}

// isSo tells whether the logs say what a caller was told.
func (m *Model) isSo(s *State, n uint8, told Reason) bool {
	near, known := s.outcome(asked, n)
	far, arrived := s.outcome(credited, n)
	back, refused := s.outcome(returned, n)
	transfers := m.plan.commands[n].verb == transfer
	switch {
	case told == idReused && !known:
		return true // nothing was done, whatever the id stands for
	case !known:
		return false
	case told == applied && transfers:
		return near.reason == applied && arrived && far.reason == applied
	case near.reason == told:
		return true
	}
	return transfers && refused && back.why == told
}

func (m *Model) checkRedis(s *State) explore.Violation {
	for i := range s.shards {
		r := &s.shards[i].redis
		if r.lost {
			continue
		}
		k := m.fold(s.shards[i].log[:r.n])
		if r.extra != (Event{}) {
			k.add(m, r.extra)
		}
		if k != r.contents {
			return torn
		}
	}
	return ""
}

// CheckQuiet looks at a state in which nothing happens any more unless something fails.
func (m *Model) CheckQuiet(s *State) explore.Violation {
	for i := range s.shards {
		sh := &s.shards[i]
		if sh.queued > 0 || sh.owner.step != idle || sh.owner.doubt || int(s.sent) < len(m.plan.commands) {
			return stuck
		}
		k := m.fold(sh.past())
		if m.variant.Rule == nothing && (!sh.agrees() || sh.redis.contents != k) {
			return redisIsNotLog
		}
		if s.now >= holdEnds && k.left != [idsMax]int8{} {
			return holdLeft
		}
	}
	if onWay, _ := m.checkMoney(s); onWay != 0 {
		return onItsWay
	}
	if s.waits != [commandsMax]uint8{} {
		return notTold
	}
	return ""
}
