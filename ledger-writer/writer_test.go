package writer

import (
	"testing"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

func TestCommandsBecomeLinkedEventsInOrder(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, open("a"), credit("c1", "a", "100"), debit("d1", "a", "60"), debit("d2", "a", "60"), credit("c2", "a", "10"), credit("c1", "a", "100"))
	l.run(t)
	events := l.audit(t)
	for id, want := range map[string]string{"open:a": "0", "c1": "100", "d1": "40", "d2": "40", "c2": "50"} {
		if got := events[id].GetOutcome().GetAfter().GetBalance(); got != want {
			t.Errorf("balance after %s is %s, want %s", id, got, want)
		}
	}
	if got := events["d2"].GetOutcome().GetReason(); got != ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS {
		t.Errorf("d2: %s", got)
	}
}

// A piece of memory is some hundred times what the event of one command needs: a quiet writer would collect garbage all the time.
func TestBatchesOfOneCommandShareAPieceOfMemory(t *testing.T) {
	t.Parallel()
	l := setup(t)
	h := l.byHand(t, l.writer(t))
	commands := []*ledgerv1.Command{open("a"), credit("c1", "a", "100"), debit("d1", "a", "60")}
	for _, c := range commands {
		l.send(t, c)
		b := h.applied()
		must(t, h.publish(t.Context(), b))
		must(t, h.commit(t.Context(), nil))
		h.trim(t.Context(), b)
		h.session.AllowRebalance()
	}
	s, _ := h.owned.get(topics.ShardOf("a", shards))
	if left := len(s.room.records); left != roomRecords-len(commands) {
		t.Errorf("%d records are left of the piece, want %d", left, roomRecords-len(commands))
	}
	h.crash()
	l.audit(t)
}
