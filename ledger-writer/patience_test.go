package writer

import (
	"context"
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
