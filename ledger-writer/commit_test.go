package writer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// hand is a writer whose turns a test takes step by step.
type hand struct {
	*Writer
	t     *testing.T
	ended bool
}

func (l *ledger) byHand(t *testing.T, w *Writer) *hand {
	t.Helper()
	must(t, w.prepare(t.Context()))
	must(t, w.begin(t.Context()))
	h := &hand{Writer: w, t: t}
	t.Cleanup(func() {
		h.crash()
		w.close()
	})
	return h
}

// crash ends the session without another word to anybody about what was applied.
func (h *hand) crash() {
	if !h.ended {
		h.ended = true
		h.end()
	}
}

// applied takes turns until a batch is decided in Redis, and leaves it there. Rebalances stay blocked, as in a turn.
func (h *hand) applied() *batch {
	h.t.Helper()
	deadline := time.Now().Add(waitMax)
	for time.Now().Before(deadline) {
		b, err := h.poll(h.t.Context())
		must(h.t, err)
		must(h.t, h.recover(h.t.Context(), b))
		if !b.empty() {
			h.share(b)
			b.out, err = h.open()
			must(h.t, err)
			must(h.t, h.apply(h.t.Context(), b))
			return b
		}
		h.session.AllowRebalance()
	}
	h.t.Fatal("no commands")
	return nil
}

// accountsOf returns accounts that live on different shards, one per shard.
func accountsOf() []string {
	accounts := make([]string, shards)
	for i, found := 0, 0; found < shards; i++ {
		name := fmt.Sprintf("acc-%d", i)
		if s := topics.ShardOf(name, shards); accounts[s] == "" {
			accounts[s] = name
			found++
		}
	}
	return accounts
}

func answered(c *ledgerv1.Command) *ledgerv1.Command {
	c.ReplyTo = "caller"
	return c
}

func payments(account string) []*ledgerv1.Command {
	return []*ledgerv1.Command{
		answered(open(account)), answered(credit("c1", account, "100")), answered(debit("d1", account, "60")), answered(debit("d2", account, "60")), answered(credit("c1", account, "100")),
	}
}

func TestACrashBetweenApplyAndCommitLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		crash func(h *hand, b *batch)
		same  bool // the process comes back under its own name
	}{
		{"before anything is published", func(*hand, *batch) {}, false},
		{"before anything is published, same name", func(*hand, *batch) {}, true},
		{"published, and the transaction left open, same name", func(h *hand, b *batch) { must(h.t, h.publish(h.t.Context(), b)) }, true},
		{"published, and the transaction left open", func(h *hand, b *batch) { must(h.t, h.publish(h.t.Context(), b)) }, false},
		{"committed, and not trimmed", func(h *hand, b *batch) {
			must(h.t, h.publish(h.t.Context(), b))
			must(h.t, h.commit(h.t.Context(), nil))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := setup(t)
			l.send(t, payments("a")...)
			first := l.byHand(t, l.instance(t, "first"))
			c.crash(first, first.applied())
			if n := len(l.read(t, topics.Events)); n != 0 && c.name != "committed, and not trimmed" {
				t.Errorf("%d events of a transaction that is not committed", n)
			}
			first.crash()
			second := l.writer(t)
			if c.same {
				second = l.instance(t, "first")
			}
			start(t, second)
			l.send(t, answered(credit("c2", "a", "1")))
			events := l.audit(t)
			for id, want := range map[string]string{"open:a": "0", "c1": "100", "d1": "40", "d2": "40", "c2": "41"} {
				if got := events[id].GetOutcome().GetAfter().GetBalance(); got != want {
					t.Errorf("balance after %s is %s, want %s", id, got, want)
				}
				if len(l.replies(t)[id]) == 0 {
					t.Errorf("nobody was told of %s", id)
				}
			}
			if d2 := events["d2"].GetOutcome(); d2.GetReason() != ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS {
				t.Errorf("d2: %v", d2)
			}
		})
	}
}

func TestCommandsOfAPublishedOutboxAreRememberedWhenTheyComeAgain(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, payments("a")...)
	first := l.byHand(t, l.writer(t))
	decided := first.applied()
	first.crash()
	second := l.byHand(t, l.writer(t))
	again := second.applied()
	shard := topics.ShardOf("a", shards)
	for i, d := range again.parts[shard].decisions {
		if d.Kind != lua.Remembered {
			t.Errorf("command %d is of kind %d, not remembered", i, d.Kind)
		}
		if was := decided.parts[shard].decisions[i].Outcome; d.Outcome.String() != was.String() {
			t.Errorf("command %d was told %v, and then %v", i, was, d.Outcome)
		}
	}
	if again.parts[shard].entries != nil {
		t.Error("remembered commands left something in the outbox")
	}
	must(t, second.publish(t.Context(), again))
	must(t, second.commit(t.Context(), nil))
	second.trim(t.Context(), again)
	second.session.AllowRebalance()
	l.audit(t)
	if replies := l.replies(t)["d1"]; len(replies) != 2 || replies[0].GetOutcome().String() != replies[1].GetOutcome().String() {
		t.Errorf("replies to d1: %v", replies)
	}
}

// A recovery publishes the outbox while commands that it has not decided are polled already: they must not count as read.
func TestPublishingTheOutboxCommitsNoCommandThatIsNotDecided(t *testing.T) {
	t.Parallel()
	l := setup(t)
	accounts := accountsOf()
	l.send(t, open(accounts[0]))
	first := l.byHand(t, l.writer(t))
	first.applied()
	first.crash()
	for _, account := range accounts {
		l.send(t, answered(credit("c:"+account, account, "5")))
	}
	second := l.byHand(t, l.writer(t))
	until(t, "commands polled", func() string {
		b, err := second.poll(t.Context())
		must(t, err)
		if len(b.records) == 0 {
			second.session.AllowRebalance()
			return "none"
		}
		must(t, second.recover(t.Context(), b))
		return ""
	})
	second.session.AllowRebalance()
	if n := len(l.read(t, topics.Events)); n != 1 {
		t.Fatalf("%d events, want the one of the outbox", n)
	}
	offsets, err := l.admin.FetchOffsetsForTopics(t.Context(), l.cfg.Group, topics.Commands)
	must(t, err)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.At > 0 {
			t.Errorf("shard %d is committed at %d, but nothing of it is decided", o.Partition, o.At)
		}
	})
	second.crash()
	l.run(t)
	l.audit(t)
}

func TestAWriterThatLostItsShardsCommitsNothing(t *testing.T) {
	t.Parallel()
	for _, published := range []bool{false, true} {
		t.Run(fmt.Sprintf("published=%t", published), func(t *testing.T) {
			t.Parallel()
			l := setup(t, "LEDGER_WRITER_SESSION_TIMEOUT=2s", "LEDGER_WRITER_TRANSACTION_TIMEOUT=1500ms")
			l.send(t, payments("a")...)
			zombie := l.byHand(t, l.writer(t))
			stale := zombie.applied() // and from here it sleeps, with the rebalance blocked
			if published {
				must(t, zombie.publish(t.Context(), stale))
			}
			l.run(t)
			l.send(t, credit("c2", "a", "1"))
			until(t, "the other has the shards", func() string {
				for _, r := range l.read(t, topics.Events) {
					if string(r.Key) == "a" {
						return ""
					}
				}
				return "no events"
			})
			var err error
			if !published {
				err = zombie.publish(t.Context(), stale)
			}
			if err == nil {
				err = zombie.commit(t.Context(), nil)
			}
			if err == nil {
				t.Error("a writer without its shards could commit")
			}
			_ = zombie.abort(t.Context(), err)
			until(t, "c2 decided", func() string {
				if n := len(l.read(t, topics.Events)); n < 5 {
					return fmt.Sprintf("%d events", n)
				}
				return ""
			})
			late := credit("late", "a", "7")
			shard := stale.parts[topics.ShardOf("a", shards)].shard
			r := zombie.store.Apply(t.Context(), lua.Call{
				Shard: shard.number, Expected: shard.at.Head, Now: time.Now(), Commands: []lua.Command{{Command: late, Fingerprint: lua.FingerprintOf(late)}},
			})
			if !errors.Is(r.Err, lua.ErrOutOfSync) {
				t.Errorf("a late call of the zombie: %v", r.Err)
			}
			zombie.session.AllowRebalance()
			zombie.crash()
			l.audit(t)
		})
	}
}
