package model

// Record is one event in the partition of ledger.events: it carries its chain, so it names the whole head after it. txn is 0 once its
// transaction is settled as committed, else 1 + the transaction's number. Aborted records vanish with their marker.
type Record struct {
	at  History
	txn uint8
}

// logMax bounds the records of the partition, pending ones included.
const logMax = 12

// Log is the partition, in the order of its offsets.
type Log struct {
	records [logMax]Record
	n       uint8
}

func (l *Log) all() []Record { return l.records[:l.n] }

// Status of a transaction at its coordinator.
type Status uint8

// The statuses. committing and aborting are decided; markers are still to be written.
const (
	none Status = iota
	open
	committing
	aborting
)

// Txn is the transaction of one transactional id, of which each writer has its own.
type Txn struct {
	status      Status
	events      bool // its records stand in the log without a marker
	offsets     bool // it holds a pending offset commit without a marker
	offset      uint8
	replies     [historyMax]Event // by command id
	endOnTheWay bool              // an EndTxn(commit) whose sender gave up, still to arrive
}

// publish appends records and replies to a writer's transaction, and begins it if need be. False: the log of the model is full.
func (s *State) publish(w int, events []History, replies []Event) bool {
	if int(s.log.n)+len(events) > logMax {
		return false
	}
	t := &s.txns[w]
	t.status = open
	for _, at := range events {
		s.log.records[s.log.n] = Record{at: at, txn: uint8(w + 1)}
		s.log.n++
		t.events = true
	}
	for _, e := range replies {
		if e != 0 {
			t.replies[e.id()] = e
		}
	}
	return true
}

// end decides a transaction, with its markers on the way. What is committed is told: ledger.replies shows it now.
func (s *State) end(w int, commit bool) {
	t := &s.txns[w]
	t.endOnTheWay = false
	t.status = aborting
	if commit {
		t.status = committing
		for _, e := range t.replies {
			s.tell(e)
		}
	}
	t.replies = [historyMax]Event{}
	s.settle(w)
}

// markEvents writes the marker into ledger.events.
func (s *State) markEvents(w int) {
	t := &s.txns[w]
	kept := Log{}
	for _, r := range s.log.all() {
		if r.txn == uint8(w+1) {
			if t.status == aborting {
				continue
			}
			r.txn = 0
		}
		kept.records[kept.n] = r
		kept.n++
	}
	s.log = kept
	t.events = false
	for i := range s.writers {
		s.writers[i].awaited &^= 1 << w
	}
	s.settle(w)
}

// markOffsets writes the marker into the group's offsets.
func (s *State) markOffsets(w int) {
	t := &s.txns[w]
	if t.status == committing {
		s.offset = t.offset
	}
	t.offsets, t.offset = false, 0
	s.settle(w)
}

// settle frees the transactional id once both markers are written; until then Kafka answers CONCURRENT_TRANSACTIONS.
func (s *State) settle(w int) {
	t := &s.txns[w]
	if t.status > open && !t.events && !t.offsets {
		*t = Txn{}
	}
}

func (s *State) mark(w int) {
	s.markEvents(w)
	if s.txns[w].status != none {
		s.markOffsets(w)
	}
}

// pendingEvents is a bit per transaction that holds back the last stable offset.
func (s *State) pendingEvents() uint8 {
	bits := uint8(0)
	for w, t := range s.txns {
		if t.events {
			bits |= 1 << w
		}
	}
	return bits
}

func (s *State) pendingOffsets() bool { return s.txns[0].offsets || s.txns[1].offsets }

// lastEvent is the head that the last readable event carries: read_committed, below the last stable offset; or whatever stands last.
func (s *State) lastEvent(uncommitted bool) History {
	last := genesis
	for _, r := range s.log.all() {
		if r.txn != 0 && !uncommitted {
			break
		}
		last = r.at
	}
	return last
}

// committed walks the events that are decided to be committed, markers or not, and tells whether they are one linked sequence.
func (s *State) committed() (History, bool) {
	at := genesis
	for _, r := range s.log.all() {
		if r.txn != 0 && s.txns[r.txn-1].status != committing {
			continue
		}
		if r.at.position() != at.position()+1 || !r.at.follows(at) {
			return at, false
		}
		at = r.at
	}
	return at, true
}

// moveGroup begins a generation in which owner has the shard. No client is in it yet.
func (s *State) moveGroup(owner int) {
	s.owner = uint8(owner)
	for i := range s.writers {
		s.writers[i].current = false
	}
}

// tell hands an outcome to its caller.
func (s *State) tell(e Event) {
	if e == 0 {
		return
	}
	if told := s.told[e.id()]; told != 0 && told != e {
		s.violation = toldTwice
	}
	s.told[e.id()] = e
}
