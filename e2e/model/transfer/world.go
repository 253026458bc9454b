package transfer

import "github.com/hotledger/hotledger/e2e/model/explore"

// The kinds of faults.
const (
	Crash     explore.Fault = iota // the owner dies at any step; another takes over
	Rebalance                      // another takes over, and the owner does not know
	Rollback                       // Redis comes back as it was at any time before
	Wipe                           // Redis loses everything
	Abort                          // Kafka aborts a transaction, and says so
	Unknown                        // the answer to a commit is lost
	Retry                          // a caller asks again, and waits for an answer
	Redeliver                      // any command that was ever sent comes again
	Clock                          // time passes
	Skew                           // a decision is taken by a slow clock
	Forget                         // a shard forgets the outcomes that it has
	faultKinds
)

var faultNames = [faultKinds]string{"crash", "rebalance", "rollback", "wipe", "abort", "unknown", "retry", "redeliver", "clock", "skew", "forget"}

// callers ask for what the plan says, in its order, at any time; and again.
func (x *expansion) callers() {
	if s := x.From; int(s.sent) < len(x.m.plan.commands) {
		s.asked[s.sent] = s.now
		r := x.m.request(&s, s.sent, first)
		s.waits[s.sent] |= 1 << first
		s.sent++
		x.arrives("asks for "+x.m.recordText(r), r, s, x.Emit)
	}
	for n := range x.From.sent {
		if s := x.From; s.left.Spend(Retry) {
			r := x.m.request(&s, n, again)
			s.waits[n] |= 1 << again
			x.arrives("asks again for "+x.m.recordText(r), r, s, x.Fault)
		}
		if s := x.From; s.left.Spend(Redeliver) {
			r := x.m.request(&s, n, first)
			x.arrives(x.m.recordText(r)+" comes again", r, s, x.Fault)
		}
	}
	for i := range x.From.shards {
		for _, e := range x.From.shards[i].past() {
			r, asks := x.m.derive(e.Record, e)
			if s := x.From; asks && s.left.Spend(Redeliver) {
				x.arrives(x.m.recordText(r)+" comes again", r, s, x.Fault)
			}
		}
	}
}

func (m *Model) request(s *State, n, request uint8) Record {
	return Record{kind: asked, command: n, account: m.plan.commands[n].account, asked: s.asked[n], request: request}
}

func (x *expansion) arrives(label string, r Record, s State, emit func(actor, label string, next *State)) {
	if !s.push(r) {
		x.Full()
		return
	}
	emit("caller", label, &s)
}

// faults of a shard.
func (x *expansion) faults(i int) {
	if s := x.From; s.left.Spend(Crash) {
		s.shards[i].owner = Owner{doubt: true}
		x.fault(i, "its owner dies, another takes over", &s)
	}
	if s := x.From; s.left.Spend(Rebalance) {
		s.shards[i].ghost |= s.shards[i].owner.holds
		s.shards[i].owner = Owner{doubt: true}
		x.fault(i, "another takes over, and its owner does not know", &s)
	}
	if s := x.From; s.left.Spend(Wipe) {
		s.shards[i].redis = Redis{lost: true}
		x.fault(i, "Redis is wiped", &s)
	}
	if s := x.From; !x.m.plan.reuses() && s.left.Spend(Forget) {
		s.shards[i].forgotten, s.shards[i].horizon = s.shards[i].n, s.now+1
		x.fault(i, "its outcomes are forgotten", &s)
	}
	for n := range x.From.shards[i].redis.n + 1 {
		s := x.From
		sh := &s.shards[i]
		before := Redis{n: n, contents: x.m.fold(sh.log[:n])}
		if before != sh.redis && s.left.Spend(Rollback) {
			sh.redis = before
			x.fault(i, "Redis comes back as it was at position "+digit(n), &s)
		}
	}
}

// together are faults of a writer that has both shards, in one transaction, or of the Redis that has them.
func (x *expansion) together() {
	publishes := true
	for i := range x.From.shards {
		publishes = publishes && x.From.shards[i].owner.step == publishing
	}
	doubted := x.From
	for i := range doubted.shards {
		doubted.shards[i].owner = Owner{doubt: true}
	}
	if s := doubted; s.left.Spend(Crash) {
		x.Fault("", "the owner of both shards dies, others take over", &s)
	}
	if s := doubted; publishes && s.left.Spend(Abort) {
		x.Fault("", "the transaction of both shards is aborted", &s)
	}
	if s := x.From; s.left.Spend(Wipe) {
		for i := range s.shards {
			s.shards[i].redis = Redis{lost: true}
		}
		x.Fault("", "the Redis of both shards is wiped", &s)
	}
}

func (x *expansion) clock() {
	if s := x.From; s.now < clockMax && s.left.Spend(Clock) {
		s.now++
		x.Fault("", "time passes", &s)
	}
}
