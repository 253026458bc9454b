package writer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// pointAt finds an event below the log's last by its position. It returns the point that the event carries (no head where it does not end a call: Redis
// never stood there), and the offset after it.
//
// Positions grow with offsets, without gaps, while offsets also count transaction markers and aborted records. So the offset is at
// least position-1, and as far below the end as there are events above it; every look in between narrows both. A log of n
// transactions takes about log2(n) looks.
func (l *eventLog) pointAt(ctx context.Context, shard int, position uint64, last lua.Point, end int64) (lua.Point, int64, error) {
	if position == 0 {
		return lua.Origin, 0, nil
	}
	low, high := int64(position)-1, end-1-int64(last.Head.Position-position)
	for low <= high {
		middle := low + (high-low)/2
		first, found, err := l.look(ctx, shard, middle, end, position)
		if err != nil {
			return lua.Point{}, 0, err
		}
		if found.event != nil {
			point, _ := lua.PointOf(found.event)
			return point, found.offset + 1, nil
		}
		at := first.event.GetOutcome().GetPosition()
		if first.event == nil || at > position { // nothing between the middle and the first event is one
			high = middle - 1
			if first.event != nil {
				high = min(high, first.offset-int64(at-position))
			}
			continue
		}
		low = first.offset + int64(position-at)
	}
	return lua.Point{}, 0, errDamagedLog{fmt.Errorf("events of shard %d end at %s but hold no position %d", shard, last.Link, position)}
}

// located is an event and where it is.
type located struct {
	event  *ledgerv1.Event
	offset int64
}

// look reads one fetch from an offset on: its first event, and the one at a position if it is among them.
func (l *eventLog) look(ctx context.Context, shard int, from, end int64, position uint64) (first, found located, err error) {
	err = l.records(ctx, shard, from, end, func(records []*kgo.Record) error {
		e, err := decodeEvent(records[0])
		if err != nil {
			return err
		}
		first = located{e, records[0].Offset}
		at := e.GetOutcome().GetPosition()
		if at > position || position-at >= uint64(len(records)) {
			return errStopReading
		}
		for _, r := range records {
			if e, err = decodeEvent(r); err != nil {
				return err
			}
			if e.GetOutcome().GetPosition() == position {
				found = located{e, r.Offset}
				break
			}
		}
		return errStopReading
	})
	return first, found, err
}
