package writer

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// Holds end by themselves: whoever owns the shard asks for an ordinary release when the time has come, under an id made of the hold's. The script
// refuses to capture an expired hold, so nothing hangs on when that happens. What ends when is read from Redis after a recovery, and
// noted from then on.

const (
	// holdsPage is how many holds are read from Redis per turn.
	holdsPage = 1000
	// expireMax is how many releases one turn asks for.
	expireMax = 1000
)

// expiries are the holds of one shard that end by themselves, the next one first. The loop alone uses them.
type expiries struct {
	loaded bool
	cursor uint64
	next   []lua.Hold      // a heap
	known  map[string]bool // by hold id
}

func newExpiries() *expiries { return &expiries{known: map[string]bool{}} }

func (e *expiries) Len() int           { return len(e.next) }
func (e *expiries) Less(i, j int) bool { return e.next[i].ExpiresAt.Before(e.next[j].ExpiresAt) }
func (e *expiries) Swap(i, j int)      { e.next[i], e.next[j] = e.next[j], e.next[i] }
func (e *expiries) Push(h any)         { e.next = append(e.next, h.(lua.Hold)) } //nolint:forcetypeassert // heap.Push of add
func (e *expiries) Pop() any {
	last := e.next[len(e.next)-1]
	e.next = e.next[:len(e.next)-1]
	return last
}

func (e *expiries) add(h lua.Hold) {
	if h.ExpiresAt.IsZero() || e.known[h.ID] {
		return
	}
	e.known[h.ID] = true
	heap.Push(e, h)
}

// note takes up a hold that was opened.
func (e *expiries) note(o *ledgerv1.Outcome) {
	if h := o.GetHold(); h.GetExpiresAt() != nil && h.GetHoldId() == o.GetCommandId() {
		e.add(lua.Hold{ID: h.GetHoldId(), Account: o.GetAccount(), ExpiresAt: h.GetExpiresAt().AsTime()})
	}
}

// noteHold takes up a hold that was opened in this tenure; before the holds were read, reading will find it.
func (s *shard) noteHold(o *ledgerv1.Outcome) {
	if s.expiries != nil && o.GetHold() != nil {
		s.expiries.note(o)
	}
}

// due takes out what ends by now.
func (e *expiries) due(now time.Time) []lua.Hold {
	var due []lua.Hold
	for len(e.next) > 0 && len(due) < expireMax && !e.next[0].ExpiresAt.After(now) {
		h := heap.Pop(e).(lua.Hold) //nolint:forcetypeassert // a heap of holds
		delete(e.known, h.ID)
		due = append(due, h)
	}
	return due
}

// expire adds the releases that are due to the batch. Redis trouble puts them off to the next turn; a hold that cannot be read puts the shard in
// doubt, which rebuilds it.
func (w *Writer) expire(ctx context.Context, b *batch) {
	for _, s := range w.owned.all() {
		if s.inDoubt {
			continue
		}
		open, err := w.expired(ctx, s)
		if err != nil {
			w.logger.Warn("holds cannot be read, their expiry is put off", zap.Int("shard", s.number), zap.Error(err))
			s.inDoubt = errors.Is(err, lua.ErrCorrupt)
			s.corrupt = s.inDoubt
			continue
		}
		for _, h := range open {
			b.derived = append(b.derived, &ledgerv1.Command{
				CommandId: limits.ExpireID(h.ID), Operation: ledgerv1.Operation_OPERATION_RELEASE, Account: h.Account, HoldId: h.ID,
				RequestedAt: timestamppb.New(h.ExpiresAt), Source: "ledger-writer",
			})
		}
	}
}

// expired takes out the holds of a shard that end by now and are open.
func (w *Writer) expired(ctx context.Context, s *shard) ([]lua.Hold, error) {
	if err := w.loadExpiries(ctx, s); err != nil {
		return nil, err
	}
	due := s.expiries.due(time.Now())
	if len(due) == 0 {
		return nil, nil
	}
	open, err := w.store.OpenHolds(ctx, s.number, due)
	if err != nil {
		for _, h := range due {
			s.expiries.add(h)
		}
	}
	return open, err
}

// loadExpiries reads the next page of a shard's holds, until all are known.
func (w *Writer) loadExpiries(ctx context.Context, s *shard) error {
	if s.expiries == nil {
		s.expiries = newExpiries()
	}
	e := s.expiries
	if e.loaded {
		return nil
	}
	page, next, err := w.store.Holds(ctx, s.number, e.cursor, holdsPage)
	if err != nil {
		return err
	}
	for _, h := range page {
		e.add(h)
	}
	e.cursor, e.loaded = next, next == 0
	return nil
}
