package writer

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// history is a made-up chain of events: events[i] leads from heads[i] to heads[i+1].
type history struct {
	heads  []lua.Head
	events []*ledgerv1.Event
}

// branch makes a history of n events that shares its first events with another one.
func branch(name string, from history, shared, n int) history {
	h := history{heads: []lua.Head{lua.Genesis}}
	for i := range n {
		if i < shared {
			h.heads, h.events = append(h.heads, from.heads[i+1]), append(h.events, from.events[i])
			continue
		}
		chain := sha1.Sum(fmt.Appendf(nil, "%s-%d", name, i))
		h.heads = append(h.heads, lua.Head{Position: uint64(i) + 1, Chain: hex.EncodeToString(chain[:])})
		h.events = append(h.events, &ledgerv1.Event{Outcome: &ledgerv1.Outcome{Position: uint64(i) + 1}, Head: chain[:]})
	}
	return h
}

// entry is what an apply call left that decided the events after heads[from] up to heads[to].
func (h history) entry(from, to int) lua.Entry {
	return lua.Entry{ID: fmt.Sprintf("%d-%d", from, to), Before: h.heads[from], After: h.heads[to], Events: h.events[from:to]}
}

func (h history) redis(at int, outbox ...lua.Entry) lua.State {
	return lua.State{Condition: lua.Whole, Head: h.heads[at], Outbox: outbox}
}

func TestHeadsAreComparedAsTheTableSays(t *testing.T) {
	t.Parallel()
	ours := branch("ours", history{}, 0, 10)
	theirs := branch("theirs", ours, 3, 10)
	for _, c := range []struct {
		name      string
		state     lua.State
		log       history
		last      int // of the log
		want      string
		committed []string
		publish   []string
	}{
		{name: "equal", state: ours.redis(5), log: ours, last: 5, want: foundClean},
		{name: "equal, nothing ever happened", state: ours.redis(0), log: ours, last: 0, want: foundClean},
		{name: "equal, committed but not trimmed", state: ours.redis(5, ours.entry(2, 4), ours.entry(4, 5)), log: ours, last: 5, want: foundClean, committed: []string{"2-4", "4-5"}},
		{name: "ahead by one entry", state: ours.redis(7, ours.entry(5, 7)), log: ours, last: 5, want: foundAhead, publish: []string{"5-7"}},
		{name: "ahead by some entries", state: ours.redis(9, ours.entry(5, 7), ours.entry(7, 8), ours.entry(8, 9)), log: ours, last: 5, want: foundAhead, publish: []string{"5-7", "7-8", "8-9"}},
		{name: "ahead of an empty log", state: ours.redis(2, ours.entry(0, 2)), log: ours, last: 0, want: foundAhead, publish: []string{"0-2"}},
		{name: "ahead, with leftovers", state: ours.redis(7, ours.entry(1, 3), ours.entry(3, 5), ours.entry(5, 7)), log: ours, last: 5, want: foundAhead, committed: []string{"1-3", "3-5"}, publish: []string{"5-7"}},
		{name: "behind", state: ours.redis(3), log: ours, last: 5, want: foundBehind},
		{name: "behind, at the beginning", state: ours.redis(0), log: ours, last: 5, want: foundBehind},
		{name: "behind, with an outbox that is committed since", state: ours.redis(4, ours.entry(2, 4)), log: ours, last: 5, want: foundBehind},
		{name: "empty", state: lua.State{Condition: lua.Empty}, log: ours, last: 5, want: foundRebuild},
		{name: "empty, and so is the log", state: lua.State{Condition: lua.Empty}, log: ours, last: 0, want: foundRebuild},
		{name: "broken", state: lua.State{Condition: lua.Broken, Why: "outbox"}, log: ours, last: 5, want: foundRebuild},
		{name: "broken, and the log is empty", state: lua.State{Condition: lua.Broken}, log: ours, last: 0, want: foundRebuild},
		{name: "fork at the same position", state: theirs.redis(5), log: ours, last: 5, want: foundRebuild},
		{name: "fork at the same position, with its outbox", state: theirs.redis(5, theirs.entry(3, 5)), log: ours, last: 5, want: foundRebuild},
		{name: "fork behind", state: theirs.redis(4), log: ours, last: 5, want: foundRebuild},
		{name: "fork behind, with its outbox", state: theirs.redis(4, theirs.entry(3, 4)), log: ours, last: 5, want: foundRebuild},
		{name: "fork ahead, with its whole outbox", state: theirs.redis(7, theirs.entry(3, 7)), log: ours, last: 5, want: foundRebuild},
		{name: "fork ahead, with entries above the log's end", state: theirs.redis(7, theirs.entry(3, 5), theirs.entry(5, 7)), log: ours, last: 5, want: foundRebuild},
		{name: "ahead without an outbox", state: ours.redis(7), log: ours, last: 5, want: foundRebuild},
		{name: "ahead, the outbox only leftovers", state: ours.redis(7, ours.entry(3, 5)), log: ours, last: 5, want: foundRebuild},
		{name: "an entry that spans the log's end", state: ours.redis(7, ours.entry(4, 7)), log: ours, last: 5, want: foundRebuild},
		{name: "a hole after the log's end", state: ours.redis(8, ours.entry(6, 8)), log: ours, last: 5, want: foundRebuild},
		{name: "a hole within the outbox", state: ours.redis(9, ours.entry(5, 6), ours.entry(7, 9)), log: ours, last: 5, want: foundRebuild},
		{name: "an outbox that ends before the head", state: ours.redis(9, ours.entry(5, 7)), log: ours, last: 5, want: foundRebuild},
		{name: "an outbox that ends beyond the head", state: ours.redis(6, ours.entry(5, 7)), log: ours, last: 5, want: foundRebuild},
		{name: "an outbox in the wrong order", state: ours.redis(7, ours.entry(6, 7), ours.entry(5, 6)), log: ours, last: 5, want: foundRebuild},
	} {
		var logAt lua.Head // as recoverShard reads it: only where Redis is behind
		if at := int(c.state.Head.Position); c.state.Condition == lua.Whole && at < c.last {
			logAt = c.log.heads[at]
		}
		got := compare(c.state, c.log.heads[c.last], logAt)
		if got.what != c.want || (got.what == foundRebuild) != (got.why != "") {
			t.Errorf("%s: found %s (%s), want %s", c.name, got.what, got.why, c.want)
		}
		var publish []string
		for _, entry := range got.unpublished {
			publish = append(publish, entry.ID)
		}
		if !slices.Equal(got.committed, c.committed) || !slices.Equal(publish, c.publish) {
			t.Errorf("%s: trims %v and publishes %v, want %v and %v", c.name, got.committed, publish, c.committed, c.publish)
		}
	}
}
