package writer

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAMembershipThatEndsBetweenApplyAndCommitDoesNotHangTheWriter: rebalances are blocked then, so the library can neither go on with its
// heartbeats nor tell that the shards are lost, and the commit waits for one of the two.
func TestAMembershipThatEndsBetweenApplyAndCommitDoesNotHangTheWriter(t *testing.T) {
	t.Parallel()
	l := setup(t)
	commands := traffic("lost", 200)
	l.send(t, commands[:100]...)
	h := l.byHand(t, l.writer(t))
	b := h.applied()
	denied := l.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.UnknownMemberID})
	must(t, denied.Wait(t.Context(), 1))
	must(t, h.publish(t.Context(), b))
	committed := make(chan error, 1)
	go func() { committed <- h.commit(context.WithoutCancel(t.Context()), nil) }()
	waiting, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	select {
	case err := <-committed:
		if err == nil {
			t.Error("a writer whose membership ended has committed")
		}
	case <-waiting.Done():
		t.Error("the commit hangs")
	}
	h.crash()
	l.run(t)
	l.send(t, commands[100:]...)
	l.audit(t)
}

// TestAKafkaThatIsAwayEndsAnAbort: it runs to its end also when the writer is asked to stop, so it needs an end of its
// own, before that of the library's retries.
func TestAKafkaThatIsAwayEndsAnAbort(t *testing.T) {
	t.Parallel()
	l := setup(t, "LEDGER_WRITER_TRANSACTION_TIMEOUT=1200ms", "LEDGER_WRITER_SESSION_TIMEOUT=1500ms")
	l.send(t, traffic("away", 200)...)
	h := l.byHand(t, l.writer(t))
	b := h.applied()
	must(t, h.publish(t.Context(), b))
	back := make(chan struct{})
	cluster := l.kafka.Cluster()
	cluster.ControlKey(kmsg.EndTxn.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.SleepControl(func() { <-back })
		return nil, nil, false
	})
	ended := make(chan error, 1)
	go func() { ended <- h.abort(context.WithoutCancel(t.Context()), errors.New("gave up")) }()
	waiting, cancel := context.WithTimeout(t.Context(), waitMax/4)
	defer cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, errTenureOver) {
			t.Errorf("the abort ended with %v", err)
		}
	case <-waiting.Done():
		t.Error("the abort hangs")
	}
	close(back)
}

// TestALogThatGivesNothingEndsARecovery, for the same reason.
func TestALogThatGivesNothingEndsARecovery(t *testing.T) {
	t.Parallel()
	l := setup(t, "LEDGER_WRITER_TRANSACTION_TIMEOUT=1200ms", "LEDGER_WRITER_SESSION_TIMEOUT=1500ms")
	stop := l.run(t)
	l.send(t, traffic("silent", 200)...)
	l.audit(t)
	must(t, stop())
	h := l.byHand(t, l.writer(t))
	ctx, cancel := context.WithTimeoutCause(t.Context(), waitMax, errors.New("it hangs"))
	defer cancel()
	end, err := h.log.stableEnd(ctx, 0)
	must(t, err)

	silent := l.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	if _, err := h.log.last(ctx, 0, end); !errors.Is(err, errNoProgress) {
		t.Errorf("the last event: %v", err)
	}
	silent.Remove()
	last, err := h.log.last(ctx, 0, end)
	must(t, err)
	if now, err := l.store.Head(ctx, 0); err != nil || now.Head != last.Head {
		t.Errorf("the log ends at %v, redis %v, %v", last, now, err)
	}

	// As after a topic that lost its end: the range is not there, and never comes.
	if _, err := h.log.last(ctx, 0, end+1); !errors.Is(err, errNoProgress) {
		t.Errorf("beyond the end: %v", err)
	}
	open := l.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.NotLeaderForPartition, Count: -1})
	if _, err := h.log.stableEnd(ctx, 0); err == nil {
		t.Error("the end of a log that nobody leads was found")
	}
	open.Remove()
	if ctx.Err() != nil {
		t.Error(context.Cause(ctx))
	}
}
