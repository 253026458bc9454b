package writer

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
)

// neighbour is another account on the shard of one.
func neighbour(account string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("%s-neighbour-%d", account, i); topics.ShardOf(name, shards) == topics.ShardOf(account, shards) {
			return name
		}
	}
}

// balance is what the last event of an account says.
func balance(events map[string]*ledgerv1.Event, account string) string {
	last, text := uint64(0), ""
	for _, e := range events {
		if o := e.GetOutcome(); o.GetAccount() == account && o.GetPosition() > last {
			last, text = o.GetPosition(), o.GetAfter().GetBalance()
		}
	}
	return text
}

func expectBalances(t *testing.T, events map[string]*ledgerv1.Event, want map[string]string) {
	t.Helper()
	for account, amount := range want {
		if got := balance(events, account); got != amount {
			t.Errorf("%s has %s, not %s", account, got, amount)
		}
	}
}

// onlyReply is the one reply to a command; others are an error, and so are replies to what the ledger derives.
func (l *ledger) onlyReply(t *testing.T, id string) *ledgerv1.Outcome {
	t.Helper()
	replies := l.replies(t)
	for other := range replies {
		if other[0] == '@' {
			t.Errorf("somebody was told of %s", other)
		}
	}
	if len(replies[id]) != 1 {
		t.Fatalf("%d replies to %s: %v", len(replies[id]), id, replies[id])
	}
	return replies[id][0].GetOutcome()
}

func TestATransferMovesMoneyWithinAShardAndBetweenShards(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	accounts := accountsOf()
	a, b, same := accounts[0], accounts[1], neighbour(accounts[0])
	rich := answered(transfer("rich", a, b, "30"))
	rich.Reference, rich.Description, rich.Metadata, rich.Source, rich.Traceparent = "ref", "text", map[string]string{"k": "v"}, "shop", "00-trace"
	rich.EffectiveTime, rich.RequestedAt = timestamppb.New(time.Unix(1_700_000_000, 0)), timestamppb.New(time.Unix(1_700_000_001, 0))
	l.send(t, open(a), open(b), open(same), credit("c", a, "100"), rich, answered(transfer("near", a, same, "20")), answered(transfer("out", a, "@shop", "5")),
		answered(transfer("itself", a, a, "1")), answered(transfer("much", a, b, "46")))
	events := l.audit(t)
	expectBalances(t, events, map[string]string{a: "45", b: "30", same: "20"})
	for id, want := range map[string]string{"rich": "-30", "near": "-20", "out": "-5", "itself": "0", "much": "0"} {
		got := l.onlyReply(t, id)
		if got.GetAccount() != a || got.GetDelta() != want || !proto.Equal(got, events[id].GetOutcome()) {
			t.Errorf("told of %s: %v, the event says %v", id, got, events[id].GetOutcome())
		}
	}
	for id, want := range map[string]ledgerv1.Reason{"itself": ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, "much": ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS} {
		if got := events[id].GetOutcome().GetReason(); got != want {
			t.Errorf("%s: %s, not %s", id, got, want)
		}
	}
	for _, id := range []string{"@credit/out", "@credit/itself", "@credit/much", "@return/much", "@return/rich"} {
		if events[id] != nil {
			t.Errorf("%s was derived", id)
		}
	}
	far := events["@credit/rich"]
	want := &ledgerv1.Command{
		CommandId: "@credit/rich", Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: b, Amount: "30", Currency: "EUR", CounterAccount: "@transit",
		Origin:    &ledgerv1.Origin{CommandId: "rich", Account: a, Outcome: events["rich"].GetOutcome()},
		Reference: "ref", Description: "text", Metadata: map[string]string{"k": "v"}, Source: "shop", Traceparent: "00-trace", ReplyTo: "caller",
		EffectiveTime: rich.GetEffectiveTime(), RequestedAt: rich.GetRequestedAt(),
	}
	if !proto.Equal(far.GetCommand(), want) {
		t.Errorf("derived\n%v\nnot\n%v", far.GetCommand(), want)
	}
	if o := far.GetOutcome(); o.GetTransferAccount() != a || len(o.GetLegs()) != 1 || o.GetLegs()[0].GetCounterAccount() != "@transit" || o.GetBusinessDate() == "" {
		t.Errorf("far end: %v", o)
	}
	l.send(t, rich, rich) // its caller asks again, twice
	if after := l.audit(t); len(after) != len(events) {
		t.Errorf("%d events became %d", len(events), len(after))
	}
	replies := l.replies(t)["rich"]
	if len(replies) != 3 || !proto.Equal(replies[0].GetOutcome(), replies[1].GetOutcome()) || !proto.Equal(replies[0].GetOutcome(), replies[2].GetOutcome()) {
		t.Errorf("replies to a transfer and its two retries: %v", replies)
	}
}

func TestATransferThatItsFarEndRefusesComesBack(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	accounts := accountsOf()
	a := accounts[0]
	yen := open("yen")
	yen.Currency = "JPY"
	capped := open("capped")
	capped.Open = &ledgerv1.OpenTerms{Ceiling: "10"}
	full := open("full")
	full.Open = &ledgerv1.OpenTerms{}
	const most = "999999999999999999"
	l.send(t, open(a), credit("c", a, "1000"), yen, capped, full, credit("most", "full", most), open("frozen"), freeze("f", "frozen"), open("closed"), closing("cl", "closed"))
	l.audit(t)
	far := map[string]ledgerv1.Reason{
		"unknown": ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN, neighbour(a): ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN, "yen": ledgerv1.Reason_REASON_CURRENCY_MISMATCH, "capped": ledgerv1.Reason_REASON_LIMIT_EXCEEDED,
		"full": ledgerv1.Reason_REASON_LIMIT_EXCEEDED, "frozen": ledgerv1.Reason_REASON_ACCOUNT_FROZEN, "closed": ledgerv1.Reason_REASON_ACCOUNT_CLOSED,
	}
	var commands []*ledgerv1.Command
	for account := range far {
		commands = append(commands, answered(transfer("to "+account, a, account, "11")))
	}
	l.send(t, commands...)
	events := l.audit(t)
	expectBalances(t, events, map[string]string{a: "1000"})
	for account, why := range far {
		id := "to " + account
		if got := l.onlyReply(t, id); got.GetStatus() != ledgerv1.Status_STATUS_REJECTED || got.GetReason() != why || got.GetDelta() != "0" || got.GetAccount() != a || got.GetLegs() != nil || got.GetAfter() == nil {
			t.Errorf("told of a transfer to %s: %v, not %s", account, got, why)
		}
		if detail := l.replies(t)[id][0].GetDetail(); detail == "" {
			t.Errorf("nobody is told why the transfer to %s is refused", account)
		}
		back := events["@return/"+id]
		if o := back.GetOutcome(); o.GetStatus() != ledgerv1.Status_STATUS_APPLIED || o.GetAccount() != a || o.GetDelta() != "11" {
			t.Errorf("return from %s: %v", account, o)
		}
		if origin := back.GetCommand().GetOrigin(); origin.GetReason() != why || origin.GetAccount() != account || origin.GetCommandId() != id {
			t.Errorf("return from %s: origin %v", account, origin)
		}
	}
	l.send(t, commands...) // all again
	if after := l.audit(t); len(after) != len(events) {
		t.Errorf("%d events became %d", len(events), len(after))
	}
	for id, replies := range l.replies(t) {
		if len(replies) != 2 || !proto.Equal(replies[0], replies[1]) {
			t.Errorf("replies to %s and its retry: %v", id, replies)
		}
	}
}

// Money that comes back goes onto the account whatever happened to it meanwhile.
func TestAReturnReachesAFrozenOrClosedAccount(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, open("a"), credit("c", "a", "50"), answered(transfer("t", "a", "unknown", "50")), freeze("f", "a"),
		open("b"), credit("d", "b", "50"), answered(transfer("u", "b", "unknown", "50")), closing("cl", "b"))
	l.run(t)
	events := l.audit(t)
	expectBalances(t, events, map[string]string{"a": "50", "b": "50"})
	for id, status := range map[string]string{"t": "frozen", "u": "closed"} {
		if got := events["@return/"+id].GetOutcome().GetAfter().GetStatus(); got != status {
			t.Errorf("the return of %s found the account %s, not %s", id, got, status)
		}
		if got := l.onlyReply(t, id); got.GetReason() != ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN {
			t.Errorf("told of %s: %v", id, got)
		}
	}
}

func TestAReversedTransferComesBackInParts(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	accounts := accountsOf()
	a, b := accounts[0], accounts[1]
	l.send(t, open(a), open(b), credit("c", a, "100"), transfer("t", a, b, "60"))
	l.audit(t)
	first := answered(reverse("r1", b, "t", "25"))
	l.send(t, first, answered(reverse("r2", b, "t", "36")), answered(reverse("near", a, "t", "")))
	events := l.audit(t)
	expectBalances(t, events, map[string]string{a: "65", b: "35"})
	if got := l.onlyReply(t, "r1"); !proto.Equal(got, events["r1"].GetOutcome()) || got.GetReversal().GetTotal() != "25" || got.GetTransferAccount() != a {
		t.Errorf("told of r1: %v", got)
	}
	for _, id := range []string{"r2", "near"} {
		if got := l.onlyReply(t, id); got.GetReason() != ledgerv1.Reason_REASON_NOT_REVERSIBLE || events[limits.UndoID(id, b)] != nil {
			t.Errorf("told of %s: %v", id, got)
		}
	}
	if c := events[limits.UndoID("r1", b)].GetCommand(); c.GetReplyTo() != "" || c.GetOrigin().GetReason() != ledgerv1.Reason_REASON_UNSPECIFIED || c.GetOrigin().GetAccount() != b || c.GetCurrency() != "EUR/2" {
		t.Errorf("return: %v", c)
	}
	l.send(t, freeze("f", a), first, answered(reverse("r3", b, "t", ""))) // again, and the rest
	events = l.audit(t)
	expectBalances(t, events, map[string]string{a: "100", b: "0"})
	if replies := l.replies(t)["r1"]; len(replies) != 2 || !proto.Equal(replies[0], replies[1]) {
		t.Errorf("replies to a reversal and its retry: %v", replies)
	}
	if got := l.onlyReply(t, "r3"); got.GetReversal().GetTotal() != "60" {
		t.Errorf("told of r3: %v", got)
	}
}

// An id is known to the shard that it was used on. Where two shards took it, the money of the second transfer comes back from the far end.
func TestTheSecondOfTwoTransfersWithOneIdComesBack(t *testing.T) {
	t.Parallel()
	for _, known := range []string{"applied", "rejected"} {
		l := setup(t)
		l.run(t)
		accounts := accountsOf()
		first, second, far := accounts[0], accounts[1], accounts[2]
		l.send(t, open(first), open(second), credit("c1", first, "10"), credit("c2", second, "10"))
		if known == "applied" {
			l.send(t, open(far))
		}
		l.audit(t)
		l.send(t, transfer("t", first, far, "4"))
		l.quiet(t)
		reused := answered(transfer("t", second, far, "3"))
		l.send(t, reused)
		l.quiet(t)
		l.send(t, reused) // and again
		l.quiet(t)
		balances, transit := map[string]string{}, int64(0)
		for _, r := range l.rows(t) {
			balances[r.GetOutcome().GetAccount()] = r.GetOutcome().GetAfter().GetBalance()
			for _, leg := range r.GetOutcome().GetLegs() {
				if leg.GetCounterAccount() == "@transit" {
					transit += minor(t, r.GetOutcome().GetDelta())
				}
			}
		}
		want := map[string]string{first: "6", second: "10", far: "4"}
		if known == "rejected" {
			want = map[string]string{first: "10", second: "10", far: ""}
		}
		if !maps.Equal(balances, want) || transit != 0 {
			t.Errorf("%s: balances %v, not %v; %d in transit", known, balances, want, transit)
		}
		replies := l.replies(t)["t"]
		if len(replies) != 2 || !proto.Equal(replies[0], replies[1]) || replies[0].GetOutcome().GetReason() != ledgerv1.Reason_REASON_COMMAND_ID_REUSED || replies[0].GetOutcome().GetAccount() != second {
			t.Errorf("%s: replies %v", known, replies)
		}
		if n := len(l.letters(t)); n != 2 {
			t.Errorf("%s: %d dead letters", known, n)
		}
	}
}

// Writers die after every decision; whoever comes next derives the same from the outbox.
func TestATransferArrivesOrComesBackThoughWritersDieAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"b", "unknown"} {
		for _, step := range []struct {
			name string
			then func(h *hand, b *batch)
		}{
			{"applied", func(*hand, *batch) {}},
			{"published", func(h *hand, b *batch) { must(h.t, h.publish(h.t.Context(), b)) }},
			{"committed", func(h *hand, b *batch) {
				must(h.t, h.publish(h.t.Context(), b))
				must(h.t, h.commit(h.t.Context(), nil))
			}},
		} {
			t.Run(target+", "+step.name, func(t *testing.T) {
				t.Parallel()
				l := setup(t)
				l.send(t, open("a"), open("b"), credit("c", "a", "50"))
				stop := l.run(t)
				l.audit(t)
				must(t, stop())
				l.send(t, answered(transfer("t", "a", target, "50")))
				for range 4 {
					if l.settled(t, "t") {
						break
					}
					h := l.byHand(t, l.writer(t))
					step.then(h, h.applied())
					h.crash()
				}
				l.run(t)
				events := l.audit(t)
				want := map[string]string{"a": "0", "b": "50"}
				if target == "unknown" {
					want = map[string]string{"a": "50", "b": "0"}
				}
				expectBalances(t, events, want)
				derived := map[string][]byte{}
				for _, r := range l.read(t, topics.Commands) {
					c := &ledgerv1.Command{}
					must(t, proto.Unmarshal(r.Value, c))
					if before := derived[c.GetCommandId()]; before != nil && c.GetCommandId()[0] == '@' && !bytes.Equal(before, r.Value) {
						t.Errorf("%s was derived as\n%x, and as\n%x", c.GetCommandId(), before, r.Value)
					}
					derived[c.GetCommandId()] = r.Value
				}
				replies := l.replies(t)["t"]
				if len(replies) == 0 {
					t.Fatal("its caller was never told")
				}
				for _, reply := range replies {
					if !proto.Equal(reply, replies[0]) || (reply.GetOutcome().GetStatus() == ledgerv1.Status_STATUS_APPLIED) != (target == "b") {
						t.Errorf("its caller was told %v, and %v", replies[0], reply)
					}
				}
			})
		}
	}
}

// settled tells whether all commands of a transfer are read, so that a writer would find none.
func (l *ledger) settled(t *testing.T, id string) bool {
	t.Helper()
	return len(l.replies(t)[id]) > 0
}
