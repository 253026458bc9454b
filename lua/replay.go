package lua

import (
	"context"
	"fmt"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// EventsMax is how many events one call of replay.lua takes, for the reason of CommandsMax.
const EventsMax = 900

// Replay folds events of the log onto the live keys, which must stand at the point before them. The last event ends a call. The generation names
// the recovery. It returns the point after them; ErrOutOfSync if Redis is elsewhere.
func (s *Store) Replay(ctx context.Context, shard int, before Point, events []*ledgerv1.Event, generation string) (Point, error) {
	after, err := s.fold(ctx, LiveKeys(shard), at(before.Head), before, events, generation)
	if err != nil {
		return Point{}, fmt.Errorf("replay shard %d: %w", shard, err)
	}
	return after, nil
}

// Build is a shard being rebuilt beside the live one. One goroutine uses it.
type Build struct {
	store      *Store
	shard      int
	generation string
	at         Point
}

// BeginBuild drops what an interrupted build left, and begins again at Origin.
func (s *Store) BeginBuild(ctx context.Context, shard int, generation string) (*Build, error) {
	b := &Build{store: s, shard: shard, generation: generation}
	if err := s.rdb.Unlink(ctx, buildKeys(shard)...).Err(); err != nil {
		return nil, fmt.Errorf("begin build of shard %d: %w", shard, err)
	}
	var err error
	if b.at, err = s.fold(ctx, buildKeys(shard), [2]string{}, Origin, nil, generation); err != nil {
		return nil, fmt.Errorf("begin build of shard %d: %w", shard, err)
	}
	return b, nil
}

// At is how far the build is.
func (b *Build) At() Point { return b.at }

// Add folds the next events of the log, at most EventsMax, each linked to the one before. The last one ends a call.
func (b *Build) Add(ctx context.Context, events []*ledgerv1.Event) error {
	chunk, err := b.Events(events)
	if err != nil {
		return err
	}
	return b.Send(ctx, chunk)
}

// Events makes a chunk of the next events, which Send folds. So one goroutine can read and check events while another one sends: the
// first alone uses everything but Send.
func (b *Build) Events(events []*ledgerv1.Event) (Chunk, error) {
	after, args, err := b.store.foldArgs(at(b.at.Head), b.at, events, b.generation)
	if err != nil {
		return Chunk{}, fmt.Errorf("build shard %d: %w", b.shard, err)
	}
	b.at = after
	return Chunk{script: replayScript, args: args}, nil
}

// Swap puts the build in the place of the live keys, all at once.
func (b *Build) Swap(ctx context.Context) error {
	keys := append(buildKeys(b.shard), LiveKeys(b.shard)...)
	reply, err := b.store.run(ctx, swapScript, keys, b.at.Head.Position, b.at.Head.Chain)
	if err == nil {
		_, _, err = answer(reply)
	}
	if err != nil {
		return fmt.Errorf("swap build of shard %d: %w", b.shard, err)
	}
	return nil
}

func at(h Head) [2]string { return [2]string{fmt.Sprint(h.Position), h.Chain} }

func (s *Store) fold(ctx context.Context, keys []string, from [2]string, before Point, events []*ledgerv1.Event, generation string) (Point, error) {
	after, args, err := s.foldArgs(from, before, events, generation)
	if err != nil {
		return Point{}, err
	}
	reply, err := s.run(ctx, replayScript, keys, args...)
	if err != nil {
		return Point{}, err
	}
	_, _, err = answer(reply)
	return after, err
}

// foldArgs are the ARGV of replay.lua, and the point that the events lead to. Each is checked against the log's chain.
func (s *Store) foldArgs(from [2]string, before Point, events []*ledgerv1.Event, generation string) (Point, []any, error) {
	if len(events) > EventsMax {
		return Point{}, nil, fmt.Errorf("%d events in one call, at most %d", len(events), EventsMax)
	}
	after, ends := before, true
	args := make([]any, 7, 7+4*len(events))
	clock := int64(0)
	for _, e := range events {
		record := appendOutcome(nil, e.GetOutcome())
		link, err := linkAfter(after.Link, e, record)
		if err != nil {
			return Point{}, nil, err
		}
		after, ends = PointOf(e)
		after.Link = link
		clock = max(clock, e.GetOutcome().GetDecidedAt().AsTime().UnixMilli())
		id := appendHash(nil, e.GetOutcome().GetCommandId())
		if r := e.GetOutcome().GetReversal(); r != nil {
			id = appendHash(id, r.GetCommandId())
		}
		args = append(args, id, e.GetOutcome().GetAccount(), e.GetFingerprint(), record)
	}
	if !ends {
		return Point{}, nil, fmt.Errorf("%w: position %d is in the middle of a call", ErrChainBroken, after.Link.Position)
	}
	copy(args, []any{from[0], from[1], after.Head.Position, after.Head.Chain, generation, s.window.Milliseconds(), clock})
	return after, args, nil
}
