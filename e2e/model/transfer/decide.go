package transfer

// Reason of an outcome.
type Reason uint8

const (
	none Reason = iota
	applied
	deadlinePassed
	frozen
	insufficientFunds
	limitExceeded
	holdUnknown
	holdExceeded
	holdExpired
	notReversible
	idReused // an answer, never an outcome
)

var reasonNames = [...]string{
	"", "applied", "DEADLINE_PASSED", "ACCOUNT_FROZEN", "INSUFFICIENT_FUNDS", "LIMIT_EXCEEDED", "HOLD_UNKNOWN", "HOLD_EXCEEDED", "HOLD_EXPIRED",
	"NOT_REVERSIBLE", "COMMAND_ID_REUSED",
}

// contents of a shard: what accounts and holds amount to, and what is known of reversals. Outcomes are the events themselves.
type contents struct {
	balance, held [accountsMax]int8
	frozen        [accountsMax]bool
	left          [idsMax]int8    // of the hold that goes by an id
	holder        [idsMax]uint8   // its account
	total         [2][idsMax]int8 // reversed of what goes by an id; of the far end of the transfer that does
}

func (m *Model) opening() contents { return contents{balance: m.plan.opening} }

func (m *Model) command(r Record) Command { return m.plan.commands[r.command] }

// add folds an event: balances add up, all else is as the event says.
func (k *contents) add(m *Model, e Event) {
	if e.reason != applied {
		return
	}
	k.balance[e.account] += e.delta
	k.held[e.account] = e.held
	asks := m.command(e.Record)
	switch {
	case e.kind == expired, e.kind == asked && (asks.verb == capture || asks.verb == release || asks.verb == hold):
		h := m.holdOf(e.Record)
		k.left[h], k.holder[h] = e.left, e.account
	case e.kind == asked && asks.verb == reverse:
		k.total[e.end()][asks.of] = e.total
	case e.kind == asked && asks.verb == freeze:
		k.frozen[e.account] = true
	}
}

// end of a transfer that an event reverses, or 0 of what is none.
func (e Event) end() int {
	if e.from > 0 {
		return 1
	}
	return 0
}

// holdOf is the id of the hold that a record opens or uses.
func (m *Model) holdOf(r Record) uint8 {
	asks := m.command(r)
	if r.kind == expired || asks.verb == hold {
		return asks.id
	}
	return asks.of
}

// id of a command: what it is remembered under.
type id struct {
	kind     kind
	callers  uint8
	salt     uint8
	at       uint8 // a return: the shard where it comes from
	reversal bool  // a return: of a reversal
}

func (m *Model) idOf(r Record) id {
	asks := m.command(r)
	i := id{kind: r.kind, callers: asks.id, salt: r.salt}
	if r.kind == returned && !m.without(ReturnNamesOrigin) {
		i.reversal, i.at = asks.verb == reverse, shardOf[asks.to]
		if i.reversal {
			i.at = shardOf[asks.account]
		}
	}
	return i
}

// samePayload tells whether two commands of one id ask for the same.
func (r Record) samePayload(other Record) bool {
	r.request, r.asked = other.request, other.asked
	return r == other
}

// known finds what is remembered of a command's id, or found in ClickHouse.
func (m *Model) known(sh *Shard, r Record) (Event, bool) {
	past := sh.past()
	if r.asked >= sh.horizon {
		past = past[sh.forgotten:]
	}
	return m.find(past, m.idOf(r))
}

func (m *Model) find(past []Event, wanted id) (Event, bool) {
	for _, e := range past {
		if m.idOf(e.Record) == wanted {
			return e, true
		}
	}
	return Event{}, false
}

// decide is what apply.lua decides about a command of an unknown id, when some outcomes are forgotten.
func (m *Model) decide(k *contents, past []Event, r Record, now, forgotten uint8) Event {
	e := Event{Record: r, at: now, held: k.held[r.account], forgotten: forgotten}
	asks := m.command(r)
	switch {
	case r.kind == credited:
		e.reason, e.delta = m.over(k, r.account, r.amount), r.amount
	case r.kind == returned:
		e.reason, e.delta = applied, r.amount
		if m.without(ReturnAlwaysApplied) {
			e.reason = m.over(k, r.account, r.amount)
		}
	case r.kind == expired:
		e.reason = m.unhold(k, r, 0, &e)
	case asks.deadline && now > 0:
		e.reason = deadlinePassed
	default:
		e.reason = m.decideAsked(k, past[forgotten:], asks, &e)
	}
	if e.reason != applied {
		e = Event{Record: r, at: now, held: k.held[r.account], forgotten: forgotten, reason: e.reason}
	}
	return e
}

func (m *Model) decideAsked(k *contents, past []Event, asks Command, e *Event) Reason {
	available := m.available(k, asks.account)
	takes := asks.verb == transfer || asks.verb == debit || asks.verb == hold
	switch {
	case (takes || asks.verb == capture) && k.frozen[asks.account]:
		return frozen
	case asks.verb == hold && e.at >= holdEnds:
		return holdExpired
	case takes && available < asks.amount:
		return insufficientFunds
	}
	switch asks.verb {
	case transfer, debit:
		e.delta = -asks.amount
	case credit:
		e.delta = asks.amount
		return m.over(k, asks.account, asks.amount)
	case hold:
		e.left = asks.amount
		e.held += asks.amount
	case capture:
		if word := m.unhold(k, e.Record, asks.amount, e); word != applied {
			return word
		}
		if e.at >= holdEnds && !m.without(CaptureChecksExpiry) {
			return holdExpired
		}
		e.delta = e.held - k.held[asks.account]
	case release:
		return m.unhold(k, e.Record, asks.amount, e)
	case reverse:
		return m.reverse(k, past, asks, e)
	case freeze:
	}
	return applied
}

func (m *Model) available(k *contents, account uint8) int8 {
	if m.without(HeldIsNotAvailable) {
		return k.balance[account]
	}
	return k.balance[account] - k.held[account]
}

// over is what refuses a credit.
func (m *Model) over(k *contents, account uint8, amount int8) Reason {
	switch ceiling := m.plan.ceiling[account]; {
	case k.frozen[account]:
		return frozen
	case ceiling > 0 && k.balance[account]+amount > ceiling:
		return limitExceeded
	}
	return applied
}

// unhold takes an amount off a hold, or all that is left.
func (m *Model) unhold(k *contents, r Record, amount int8, e *Event) Reason {
	left, holder := k.left[m.holdOf(r)], k.holder[m.holdOf(r)]
	if amount == 0 {
		amount = left
	}
	switch {
	case left == 0 || holder != r.account:
		return holdUnknown
	case amount > left && !m.without(HoldLimitsCaptures):
		return holdExceeded
	}
	e.left, e.held = left-amount, e.held-amount
	return applied
}

// reverse undoes a change of the account, never more than it was.
func (m *Model) reverse(k *contents, past []Event, asks Command, e *Event) Reason {
	o, found := m.original(past, asks)
	at := m.command(o.Record)
	nearEnd := o.kind == asked && at.verb == transfer && !m.without(NearEndStays)
	if !found || o.reason != applied || o.delta == 0 || nearEnd || (o.kind == asked && at.verb == reverse) {
		return notReversible
	}
	whole, back := o.delta, int8(-1)
	if whole < 0 {
		whole, back = -whole, 1
	}
	if o.kind == credited {
		e.from = 1 + at.account
	}
	total := k.total[e.end()][asks.of]
	amount := asks.amount
	if amount == 0 {
		amount = whole - total
	}
	if m.without(TotalsLimitReversals) {
		total = 0
	}
	if amount == 0 || total+amount > whole {
		return notReversible
	}
	e.delta, e.total = back*amount, total+amount
	if back > 0 {
		return m.over(k, asks.account, amount)
	}
	switch {
	case k.frozen[asks.account]:
		return frozen
	case m.available(k, asks.account) < amount:
		return insufficientFunds
	}
	return applied
}

// original is what a reversal names: a command of its own account, or the far end of a transfer.
func (m *Model) original(past []Event, asks Command) (Event, bool) {
	for _, kind := range [...]kind{asked, credited} {
		for _, e := range past {
			if e.kind == kind && m.command(e.Record).id == asks.of && e.account == asks.account {
				return e, true
			}
		}
	}
	return Event{}, false
}
