package model

import "github.com/hotledger/hotledger/e2e/model/explore"

// The properties, each as what breaks it. Those of a single move are noted in the state when it happens.
const (
	logForked          explore.Violation = "the committed log is not one gap-free, hash-linked sequence"
	outOfOrder         explore.Violation = "outcomes in the log are not in the order of the commands"
	twoOutcomes        explore.Violation = "one command id has two outcomes in the log"
	wrongDecision      explore.Violation = "an outcome does not follow from the log before it"
	toldTwice          explore.Violation = "a caller was told two different outcomes"
	toldUncommitted    explore.Violation = "a caller was told an outcome that the log does not hold"
	trimmedUncommitted explore.Violation = "an outbox entry was trimmed that is not in the committed log"
	falseFork          explore.Violation = "a Redis that is compatible with the log is rebuilt"
	torn               explore.Violation = "Redis does not hold the fold of its own head"
	stuck              explore.Violation = "nothing can go on, and not every command has an outcome, or a transaction is open"
	redisIsNotLog      explore.Violation = "all is quiet, and Redis is not the fold of the log"
	outboxLeft         explore.Violation = "all is quiet, and the outbox is not empty"
	notTold            explore.Violation = "all is quiet, and a caller was told nothing"
)

// Check looks at one state.
func (m *Model) Check(s *State) explore.Violation {
	if s.violation != "" {
		return s.violation
	}
	committed, linked := s.committed()
	if !linked {
		return logForked
	}
	if v := m.checkLog(committed); v != "" {
		return v
	}
	for _, e := range s.told {
		if e != 0 && !committed.holds(e) {
			return toldUncommitted
		}
	}
	for i := range s.servers {
		if r := &s.servers[i]; r.keys != 0 && !r.keyLost && !m.isFold(r) {
			return torn
		}
	}
	return ""
}

// checkLog decides every command once more, from the log before it.
func (m *Model) checkLog(h History) explore.Violation {
	balance, seen, place := int8(openingBalance), 0, 0
	for i := range h.position() {
		e := h.event(i)
		if seen&(1<<e.id()) != 0 {
			return twoOutcomes
		}
		for seen&(1<<m.commands[place].id) != 0 {
			place++
		}
		command := m.commands[place]
		if command.id != e.id() {
			return outOfOrder
		}
		if command.decide(balance, e.decidedAt()) != e.outcome() {
			return wrongDecision
		}
		seen |= 1 << e.id()
		if e.outcome() == Applied {
			balance += command.delta
		}
	}
	return ""
}

func (m *Model) isFold(r *Store) bool {
	remembers := r.remembersWindow() || m.without(ScriptForgets) || m.without(TurnMovesHorizon)
	return r.condition() == Whole && r.balance == m.fold(r.head).balance && remembers
}

// CheckQuiet looks at a state in which nothing happens any more unless something fails.
func (m *Model) CheckQuiet(s *State) explore.Violation {
	committed, _ := s.committed()
	r := &s.servers[s.main]
	switch {
	case committed.position() != m.Commands || int(s.offset) != len(m.commands) || s.txns != [2]Txn{}:
		return stuck
	case r.head != committed || !m.isFold(r):
		return redisIsNotLog
	case r.outbox.n > 0:
		return outboxLeft
	}
	for id := range m.Commands {
		if s.told[id] == 0 {
			return notTold
		}
	}
	return ""
}
