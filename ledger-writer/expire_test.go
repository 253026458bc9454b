package writer

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// soon is when a hold of a test ends: late enough to be opened, soon enough to wait for.
const soon = 3 * time.Second

// ended waits until a hold was released because its time was over.
func (l *ledger) ended(t *testing.T, holds ...string) map[string]*ledgerv1.Event {
	t.Helper()
	until(t, "holds that ended", func() string {
		found := map[string]bool{}
		for _, r := range l.rows(t) {
			found[r.GetOutcome().GetCommandId()] = true
		}
		for _, id := range holds {
			if !found["@expire/"+id] {
				return id + " is open"
			}
		}
		return ""
	})
	events := l.audit(t)
	for _, id := range holds {
		if o := events["@expire/"+id].GetOutcome(); o.GetStatus() != ledgerv1.Status_STATUS_APPLIED || o.GetHold().GetRemaining() != "0" {
			t.Errorf("the end of %s: %v", id, o)
		}
	}
	return events
}

func TestAHoldEndsByItself(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	other := neighbour("a")
	l.send(t, open("a"), credit("c", "a", "100"), open(other), credit("d", other, "100"),
		hold("taken", "a", "10", soon), hold("part", "a", "20", soon), hold("late", other, "30", soon+time.Second), hold("never", "a", "5", 0), hold("far", "a", "5", 1000*time.Hour),
		capture("x", "a", "taken", ""), capture("y", "a", "part", "3"))
	events := l.ended(t, "part", "late")
	for _, id := range []string{"taken", "never", "far"} {
		if events["@expire/"+id] != nil {
			t.Errorf("%s was released, though nothing of it was left, or it was not over", id)
		}
	}
	end := events["@expire/part"]
	if o := end.GetOutcome(); o.GetAfter().GetHeld() != "10" || o.GetAfter().GetBalance() != "87" {
		t.Errorf("the end of part: %v", o)
	}
	if at := end.GetOutcome().GetDecidedAt().AsTime(); at.Before(end.GetOutcome().GetHold().GetExpiresAt().AsTime()) {
		t.Errorf("released at %s, before its end", at)
	}
	l.send(t, capture("z", "a", "part", "1"))
	if got := l.audit(t)["z"].GetOutcome().GetReason(); got != ledgerv1.Reason_REASON_HOLD_UNKNOWN {
		t.Errorf("capture of a hold that ended: %s", got)
	}
}

func TestAHoldEndsWhateverHappensToWriterAndRedis(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(t *testing.T, l *ledger, stop func() error){
		"the writer is restarted": func(t *testing.T, l *ledger, stop func() error) { must(t, stop()); l.run(t) },
		"redis is wiped":          func(t *testing.T, l *ledger, _ func() error) { must(t, l.rdb.FlushAll(t.Context()).Err()) },
		"both": func(t *testing.T, l *ledger, stop func() error) {
			must(t, stop())
			must(t, l.rdb.FlushAll(t.Context()).Err())
			l.run(t)
		},
		"a hold cannot be read": func(t *testing.T, l *ledger, stop func() error) {
			must(t, stop())
			must(t, l.rdb.HSet(t.Context(), lua.HoldsKey(topics.ShardOf("a", shards)), "h", "nonsense").Err())
			l.run(t)
		},
		"another takes over": func(t *testing.T, l *ledger, stop func() error) { l.run(t); must(t, stop()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := setup(t)
			stop := l.run(t)
			l.send(t, open("a"), credit("c", "a", "100"), hold("h", "a", "10", soon), hold("i", "a", "20", soon))
			l.decided(t, 4)
			disturb(t, l, stop)
			if got := l.ended(t, "h", "i")["@expire/i"].GetOutcome().GetAfter(); got.GetHeld() != "0" && got.GetHeld() != "10" {
				t.Errorf("after the end: %v", got)
			}
		})
	}
}

// More holds than are read, or released, in one turn.
func TestManyHoldsEndAtOnce(t *testing.T) {
	t.Parallel()
	l := setup(t)
	const n = 2*expireMax + 100
	commands := []*ledgerv1.Command{open("a"), credit("c", "a", "1000000")}
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("h%d", i))
		commands = append(commands, hold(ids[i], "a", "1", 2*soon))
	}
	stop := l.run(t)
	l.send(t, commands...)
	l.decided(t, n/2)
	must(t, stop()) // the next one reads them from Redis
	l.run(t)
	if got := l.ended(t, ids...)["@expire/"+ids[n-1]].GetOutcome(); got.GetHold() == nil {
		t.Errorf("the last one: %v", got)
	}
	if left := l.rdb.HLen(t.Context(), lua.HoldsKey(topics.ShardOf("a", shards))).Val(); left != 1 {
		t.Errorf("%d holds left, with the marker", left)
	}
}
