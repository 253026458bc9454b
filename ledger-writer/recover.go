package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// recover brings every shard in doubt back to where Redis and the log agree, in the order of PROTOCOL rules 10 to 14, and sends the
// consumer back to the committed offset: what was polled for such a shard is dropped and polled again.
func (w *Writer) recover(ctx context.Context, b *batch) error {
	if err := w.collect(); err != nil {
		return err
	}
	var doubted []*shard
	for _, s := range w.owned.all() {
		if s.inDoubt && w.besides[s.number] == nil {
			doubted = append(doubted, s)
		}
	}
	if len(doubted) == 0 {
		return nil
	}
	offsets, err := w.committedOffsets(ctx, doubted) // rule 10
	if err != nil {
		return err
	}
	for _, s := range doubted {
		if err := w.recoverShard(ctx, s, offsets[s.number]); err != nil {
			return fmt.Errorf("recover shard %d: %w", s.number, err)
		}
		b.drop(s.number)
		s.inDoubt = w.besides[s.number] != nil
		s.expiries = nil
	}
	rewind := map[int32]kgo.EpochOffset{}
	for _, s := range doubted {
		rewind[int32(s.number)] = offsets[s.number]
	}
	w.session.Client().SetOffsets(map[string]map[int32]kgo.EpochOffset{topics.Commands: rewind}) // rule 14
	return nil
}

// committedOffsets reads where the group is, waiting for pending transactions (require stable). A shard without a committed offset begins
// at the log's start, which must be 0: otherwise commands expired before anybody read them, and a person decides.
func (w *Writer) committedOffsets(ctx context.Context, shards []*shard) (map[int]kgo.EpochOffset, error) {
	committed, err := w.admin.FetchOffsetsForTopics(kadm.RequireStable(ctx), w.cfg.Group, topics.Commands)
	if err != nil {
		return nil, fmt.Errorf("fetch committed command offsets: %w", err)
	}
	starts, err := w.admin.ListStartOffsets(ctx, topics.Commands)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start of commands: %w", err)
	}
	offsets := map[int]kgo.EpochOffset{}
	for _, s := range shards {
		partition := int32(s.number)
		at, ok := committed.Lookup(topics.Commands, partition)
		if ok && at.Err != nil {
			return nil, fmt.Errorf("fetch committed command offset of shard %d: %w", s.number, at.Err)
		}
		start, _ := starts.Lookup(topics.Commands, partition)
		offset := kgo.EpochOffset{Epoch: at.LeaderEpoch, Offset: at.At}
		if !ok || at.At < 0 {
			offset = kgo.EpochOffset{Epoch: -1, Offset: 0}
		}
		if offset.Offset < start.Offset {
			return nil, errDamagedLog{fmt.Errorf("commands of shard %d begin at offset %d, the group is at %d: commands expired unread; "+
				"find out which, then set the group's offset by hand", s.number, start.Offset, offset.Offset)}
		}
		offsets[s.number] = offset
	}
	return offsets, nil
}

// errDamagedLog marks what no retry heals.
type errDamagedLog struct{ error }

func (e errDamagedLog) Unwrap() error { return e.error }

func isDamaged(err error) bool {
	var damaged errDamagedLog
	return errors.As(err, &damaged)
}

func (w *Writer) recoverShard(ctx context.Context, s *shard, offset kgo.EpochOffset) error {
	state, err := w.store.Inspect(ctx, s.number) // rule 11
	if err != nil {
		return err
	}
	if s.corrupt {
		state = lua.State{Condition: lua.Broken, Why: "a record cannot be read"}
	}
	hit(trapInspected)
	end, err := w.log.stableEnd(ctx, s.number) // rule 12: the head is read before the log
	if err != nil {
		return err
	}
	last, err := w.log.last(ctx, s.number, end)
	if err != nil {
		return err
	}
	var logAt lua.Point // what the log says at Redis's position
	var next int64      // offset after it
	if state.Condition == lua.Whole && state.Head.Position < last.Head.Position {
		if logAt, next, err = w.log.pointAt(ctx, s.number, state.Head.Position, last, end); err != nil {
			return err
		}
	}
	found := compare(state, last.Head, logAt.Head) // rule 13
	w.metrics.recoveries.WithLabelValues(found.what).Inc()
	w.logger.Info("shard recovered from", zap.Int("shard", s.number), zap.String("found", found.what), zap.String("why", found.why),
		zap.Stringer("redis", state.Head), zap.Stringer("log", last.Head))
	switch found.what {
	case foundClean:
		err = w.store.Trim(ctx, s.number, found.committed)
	case foundAhead:
		last, err = w.publishOutbox(ctx, s, found, last, offset)
	case foundBehind:
		err = w.replay(ctx, s.number, logAt, next, last, end)
	default:
		job := w.rebuild(s.number, last, end)
		if last.Head.Position >= w.besideEvents {
			w.rebuildBeside(job, s, offset)
			return nil
		}
		_, err = job.run(ctx)
	}
	if err != nil {
		return err
	}
	s.at, s.corrupt, s.checkedAt = last, false, time.Now()
	return nil
}

// What a recovery can find.
const (
	foundClean   = "clean"   // Redis and the log agree
	foundAhead   = "ahead"   // a crash between apply and commit: the outbox links on to the log
	foundBehind  = "behind"  // Redis lost its tail, and is a prefix of the log
	foundRebuild = "rebuild" // Redis is empty, broken, or a fork
)

// finding is the verdict on one shard.
type finding struct {
	what string
	why  string // of a rebuild
	// committed names outbox entries that the log already has, unpublished those that link on to it.
	committed   []string
	unpublished []lua.Entry
}

// compare decides by (position, chain) alone: the table of rule 13. logAt is the log's head at Redis's position, where Redis is behind.
func compare(state lua.State, last, logAt lua.Head) finding {
	switch {
	case state.Condition == lua.Empty:
		return finding{what: foundRebuild, why: "redis is empty"}
	case state.Condition != lua.Whole:
		return finding{what: foundRebuild, why: "keys do not belong together: " + state.Why}
	case state.Head.Position < last.Position && state.Head == logAt:
		return finding{what: foundBehind}
	case state.Head.Position < last.Position:
		return finding{what: foundRebuild, why: "fork: redis has another history"}
	}
	committed, unpublished, linked := split(state, last)
	switch {
	case !linked:
		return finding{what: foundRebuild, why: "fork: the outbox does not link on to the log"}
	case len(unpublished) > 0:
		return finding{what: foundAhead, committed: committed, unpublished: unpublished}
	}
	return finding{what: foundClean, committed: committed}
}

// split sorts the outbox into entries that end at or below the log's last event and entries above it, and tells whether the latter are linked
// from that event to Redis's head without a hole.
func split(state lua.State, last lua.Head) (committed []string, unpublished []lua.Entry, linked bool) {
	at := last
	for _, entry := range state.Outbox {
		if entry.After.Position <= last.Position {
			committed = append(committed, entry.ID)
			continue
		}
		if entry.Before != at {
			return nil, nil, false
		}
		at = entry.After
		unpublished = append(unpublished, entry)
	}
	return committed, unpublished, at == state.Head
}

// publishOutbox finishes what a dead writer had applied: events and replies from the outbox, in a transaction that also commits the
// unchanged command offset, so that a stale owner is fenced (rule 13). It returns the log's end after them.
func (w *Writer) publishOutbox(ctx context.Context, s *shard, found finding, last lua.Point, offset kgo.EpochOffset) (lua.Point, error) {
	p, err := w.open()
	if err != nil {
		return last, err
	}
	ids := found.committed
	for _, entry := range found.unpublished {
		ids = append(ids, entry.ID)
		link, err := last.Link.Append(entry.Events...)
		if err != nil {
			return last, err
		}
		last = lua.Point{Head: entry.After, Link: link}
		for _, e := range entry.Events {
			if err := w.publishEvent(p, s, e); err != nil {
				return last, err
			}
		}
	}
	if err := p.wait(ctx); err != nil {
		return last, err
	}
	if err := w.commit(ctx, map[int]kgo.EpochOffset{s.number: offset}); err != nil {
		return last, err
	}
	hit(trapSettled)
	return last, w.store.Trim(ctx, s.number, ids)
}

// replay brings a Redis that lost its tail up to the log, one conditional script per step. next is the offset after its head.
func (w *Writer) replay(ctx context.Context, shard int, from lua.Point, next int64, last lua.Point, end int64) error {
	generation, at := newGeneration(), from
	err := w.log.after(ctx, shard, from.Link, next, end, func(events []*ledgerv1.Event) error {
		var err error
		at, err = w.store.Replay(ctx, shard, at, events, generation)
		hit(trapReplaying)
		return err
	})
	if err != nil {
		return err
	}
	return reachedLast(shard, at, last)
}

func newGeneration() string { return uuid.NewString() }

var errStopReading = errors.New("stop reading")
