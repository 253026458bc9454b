package lua

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestBothProtocolsOfRedisSayTheSame(t *testing.T) {
	t.Parallel()
	var heads []Head
	var logs [][]*ledgerv1.Event
	for _, protocol := range []int{2, 3} {
		b := setupOn(t, client(t, protocol, addrs...))
		ctx := t.Context()
		again := b.debit("a", "3")
		b.expect(list(b.open("a", ""), b.credit("a", "9007199254740993"), b.debit("nobody", "1"), again, again, changed(again, func(c *ledgerv1.Command) { c.Amount = "4" })),
			"applied 0 0@1", "applied 9007199254740993 9007199254740993@2", "ACCOUNT_UNKNOWN 0 -",
			"applied -3 9007199254740990@3", "remembered applied -3 9007199254740990@3", "reused applied -3 9007199254740990@3")
		heads, logs = append(heads, b.head), append(logs, b.log())
		stale := b.call(b.credit("a", "1"))
		stale.Expected = Genesis
		b.refused("stale", stale, ErrOutOfSync)
		if head, err := b.store.Head(ctx, b.shard); err != nil || head != (ShardHead{Head: b.head, Generation: "g1"}) {
			t.Errorf("protocol %d: head %+v %v", protocol, head, err)
		}
		if account, found, err := b.store.Account(ctx, b.shard, "a"); err != nil || !found || account.Balance != 9007199254740990 {
			t.Errorf("protocol %d: account %+v %v %v", protocol, account, found, err)
		}
		if _, found, err := b.store.Account(ctx, b.shard, "nobody"); err != nil || found {
			t.Errorf("protocol %d: an account that nobody opened: %v %v", protocol, found, err)
		}
		if page, corrupt, next, err := b.store.Accounts(ctx, b.shard, 0, 10); err != nil || len(page) != 1 || corrupt != nil || next != 0 {
			t.Errorf("protocol %d: page %v %v %d %v", protocol, page, corrupt, next, err)
		}
		b.rebuild("g2", b.log()...)
		b.whole()
		b.ok(b.rdb.Del(ctx, OutcomesKey(b.shard)).Err())
		if state := b.condition(); state.Condition != Broken {
			t.Errorf("protocol %d: %+v", protocol, state)
		}
		b.ok(b.rdb.Del(ctx, LiveKeys(b.shard)...).Err())
		if state := b.condition(); state.Condition != Empty {
			t.Errorf("protocol %d: %+v", protocol, state)
		}
	}
	if heads[0] != heads[1] {
		t.Errorf("heads %v", heads)
	}
	for i := range logs[0] {
		logs[1][i].Outcome.Shard = logs[0][i].GetOutcome().GetShard()
		if !proto.Equal(logs[0][i], logs[1][i]) {
			t.Errorf("events\n%v\n%v", logs[0][i], logs[1][i])
		}
	}
}

func TestTheLargestCallWorks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const bodyBytes = 64 << 10
	commands := make([]*ledgerv1.Command, CommandsMax)
	for i := range commands {
		c := b.open(fmt.Sprintf("account %d", i), "-"+most)
		c.Description = strings.Repeat("d", bodyBytes)
		c.Description = c.Description[:2*bodyBytes-proto.Size(c)]
		commands[i] = c
	}
	call := b.call(commands...)
	if got := len(call.Commands[0].Body); got != bodyBytes {
		t.Fatalf("bodies of %d bytes", got)
	}
	for i, d := range b.run(call) {
		if got := said(d); got != "applied 0 0@1" {
			t.Fatalf("command %d: %s", i, got)
		}
	}
	events := b.log()
	if len(events) != CommandsMax {
		t.Fatalf("%d events", len(events))
	}
	for i := range commands {
		commands[i] = b.debit(fmt.Sprintf("account %d", i), most)
	}
	b.apply(commands...)
	want := b.content()
	b.rebuild("g2", b.log()...)
	b.whole()
	got := b.content()
	for _, key := range []string{AccountsKey(b.shard), OutcomesKey(b.shard)} {
		if got[key] != want[key] {
			t.Errorf("rebuilt %s differs", key)
		}
	}
	ids := map[string]bool{}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		page, corrupt, next, err := b.store.Accounts(t.Context(), b.shard, cursor, 50)
		b.ok(err)
		if len(corrupt) != 0 {
			t.Fatal(corrupt)
		}
		for _, a := range page {
			ids[a.ID] = a.Balance == -999_999_999_999_999_999 && a.Floor == a.Balance
		}
		cursor = next
	}
	for id, right := range ids {
		if !right {
			t.Errorf("account %q was read wrongly", id)
		}
	}
	if len(ids) != CommandsMax {
		t.Errorf("paged over %d accounts", len(ids))
	}
}

// Every command of the largest call names a hold or a command, and changes or ends it.
func TestTheLargestCallOfHoldsAndReversalsWorks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(b.open("a", "-"+most))
	call := func(each func(i int) *ledgerv1.Command) {
		t.Helper()
		commands := make([]*ledgerv1.Command, CommandsMax)
		for i := range commands {
			commands[i] = each(i)
		}
		for i, d := range b.apply(commands...) {
			if d.Outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
				t.Fatalf("command %d: %s", i, told(d))
			}
		}
	}
	call(func(i int) *ledgerv1.Command { return as(fmt.Sprintf("h%d", i), b.hold("a", "5", 0)) })
	call(func(i int) *ledgerv1.Command {
		return as(fmt.Sprintf("x%d", i), to(b.capture("a", fmt.Sprintf("h%d", i), "3"), "@x", "1", "@y", "2"))
	})
	call(func(i int) *ledgerv1.Command { return b.reverse("a", fmt.Sprintf("x%d", i), "") })
	call(func(i int) *ledgerv1.Command { return b.release("a", fmt.Sprintf("h%d", i), "") })
	if got, want := b.record("a"), fmt.Sprintf("0 %d USD/2 -%s active", 1+4*CommandsMax, most); got != want || len(b.holds()) != 0 {
		t.Errorf("record %q, not %q, with %d holds", got, want, len(b.holds()))
	}
	b.sameAfterARebuild()
}

// hostileIDs mean something to Redis, to Lua, to the cluster's hash tags, or to the records; none may do so here.
var hostileIDs = []string{
	"{", "}", "{}", "{1}", "a{b}c", "ledger:{1}:accounts", "'", `"`, "`", `\`, "\\n", "%d", "%s%s%n", "$1",
	`]] .. redis.call('flushall') --`, `'); redis.call('FLUSHALL'); --`, "]]", "--", "-", "- -", " ", "  ", "|", "-|-|g1", "before", "0", "1e3", "nan", "nil", "false",
	"*", "?", "[a-z]", "a b", "\n", "a\nb", "\r\n", "x\r\n+OK\r\n", "\x00", "a\x00", "a\x00b", "\t", "é", "e\u0301", "\u202e", "🦊", "ß", "SS", "ss",
	"position", "chain", "generation", "accounts", strings.Repeat("9", 128), strings.Repeat("é", 64),
}

func TestHostileIdsShareNoState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	count := len(hostileIDs)
	if sorted := slices.Sorted(slices.Values(hostileIDs)); len(slices.Compact(sorted)) != count {
		t.Fatal("an id stands there twice")
	}
	var opens, credits, wantOpens, wantCredits []string
	var opening, crediting []*ledgerv1.Command
	for i, id := range hostileIDs {
		opening = append(opening, changed(b.open(id, ""), func(c *ledgerv1.Command) { c.CommandId = "open " + id }))
		crediting = append(crediting, changed(b.credit(hostileIDs[(i+1)%count], fmt.Sprint(i+1)), func(c *ledgerv1.Command) { c.CommandId = id }))
		wantOpens = append(wantOpens, "applied 0 0@1")
		wantCredits = append(wantCredits, fmt.Sprintf("applied %d %d@2", i+1, i+1))
	}
	for _, d := range b.apply(opening...) {
		opens = append(opens, said(d))
	}
	for _, d := range b.apply(crediting...) {
		credits = append(credits, said(d))
	}
	if !slices.Equal(opens, wantOpens) || !slices.Equal(credits, wantCredits) {
		t.Errorf("decided %v\n%v", opens, credits)
	}
	for i := range hostileIDs {
		id := hostileIDs[(i+1)%count]
		account, found, err := b.store.Account(t.Context(), b.shard, id)
		if err != nil || !found || account.Balance != int64(i+1) || account.ID != id {
			t.Errorf("account %q is %+v %v %v", id, account, found, err)
		}
	}
	want := b.content()
	b.rebuild("g2", b.log()...)
	b.whole()
	got := b.content()
	if got[AccountsKey(b.shard)] != want[AccountsKey(b.shard)] || got[OutcomesKey(b.shard)] != want[OutcomesKey(b.shard)] {
		t.Error("a rebuild gave other keys")
	}
	b.untouched("redelivery", func() {
		for i, d := range b.apply(crediting...) {
			if d.Kind != Remembered {
				t.Errorf("%q is known, but %s", hostileIDs[i], said(d))
			}
		}
	})
}

// Where a line break tells id from account in what is hashed, two splits of one text still are two commands.
func TestIdsThatRunIntoEachOtherStayApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one := changed(b.open("y\nz", ""), func(c *ledgerv1.Command) { c.CommandId = "x" })
	other := changed(b.open("z", "-1"), func(c *ledgerv1.Command) { c.CommandId = "x\ny" })
	b.expect(list(one, other, other, one), "applied 0 0@1", "applied 0 0@1", "remembered applied 0 0@1", "remembered applied 0 0@1")
	if b.record("z") != "0 1 USD/2 -1 active" || b.record("y\nz") != "0 1 USD/2" {
		t.Errorf("records %q and %q", b.record("z"), b.record("y\nz"))
	}
	b.whole()
}

// The text of an error names the id; it must not become an answer of its own.
func TestAnErrorThatNamesAHostileIdBreaksNoConnection(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	for _, id := range hostileIDs {
		b.untouched(id, func() {
			call := b.call(changed(b.credit("a", "nan"), func(c *ledgerv1.Command) { c.CommandId, c.Account = id, id }))
			for range 2 { // most likely on the same connection
				if r := b.store.Apply(t.Context(), call); r.Err == nil || !strings.Contains(r.Err.Error(), "INVALID_ARGUMENT") {
					t.Errorf("%q: %v", id, r.Err)
				}
			}
		})
	}
	b.whole()
}

// A call may wait for Redis after it was made ready: it is decided when it is sent, from the head that Redis has then.
func TestACallIsOfTheMomentAtWhichItIsSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.expect(list(b.open("a", ""), b.credit("a", "5")), "applied 0 0@1", "applied 5 5@2")
	early := b.call(b.debit("a", "1"))
	early.Expected = Genesis
	ready, err := b.store.Prepare(early)
	b.ok(err)
	ready.Expected, ready.Now = b.head, early.Now.Add(time.Minute)
	result := b.store.Decide(t.Context(), ready).Result()
	b.ok(result.Err)
	if at := result.Decisions[0].Outcome.GetDecidedAt().AsTime(); !at.Equal(ready.Now.Truncate(time.Millisecond)) {
		t.Errorf("decided at %s, sent at %s", at, ready.Now)
	}
	state, err := b.store.Inspect(t.Context(), b.shard) // reads the outbox, and computes its heads again
	b.ok(err)
	if state.Condition != Whole || state.Head != result.Head {
		t.Errorf("redis is %v at %s, not whole at %s", state.Condition, state.Head, result.Head)
	}
}
