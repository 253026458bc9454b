package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/topics"
)

// standing is all that a take over reads: what Kafka remembers of the projector before, and what ClickHouse has.
type standing struct {
	topic  string // the topic's id
	logEnd int64  // last stable offset
	mark   *mark  // nil = none
	rows   watermark
	head   lua.Link // at the watermark
}

// takeOver finds out where to go on, finishes what the projector before intended, and opens the reader there.
//
// The order matters: the assignment fenced the projector before, so its last committed intent is final; ClickHouse is read
// after it, so a range that is neither landed nor intended is nobody's.
func (w *worker) takeOver(ctx context.Context) error {
	var s standing
	err := retry.Do(ctx, w.logger, "take over", func(ctx context.Context) error {
		var err error
		s, err = w.readStanding(ctx)
		return err
	})
	if err != nil {
		return err
	}
	plan, err := w.resolve(s, time.Now())
	if err != nil {
		return err
	}
	w.report(s, plan)
	w.committed, w.head = plan.mark, s.head
	w.reached.Store(s.rows.next())
	w.metrics.reached(w.shard, s.rows.last, s.rows.logTime)
	w.unacknowledged = plan.verdict != landed || s.mark.intended()
	if w.reader, err = newReader(w.cfg, w.logger, w.shard, s.rows.next()); err != nil {
		return err
	}
	if plan.verdict != resend {
		return nil
	}
	return w.resend(ctx, plan.mark)
}

func (w *worker) readStanding(ctx context.Context) (standing, error) {
	admin := kadm.NewClient(w.group)
	offsets, err := admin.FetchOffsetsForTopics(ctx, w.cfg.Group, topics.Events)
	if err != nil {
		return standing{}, fmt.Errorf("fetch committed offsets: %w", err)
	}
	committed, ok := offsets.Lookup(topics.Events, w.shard)
	if ok && committed.Err != nil {
		return standing{}, fmt.Errorf("fetch committed offset: %w", committed.Err)
	}
	var s standing
	if s.mark, err = parseMark(committed.Metadata); err != nil {
		return standing{}, retry.Permanent(w.halt(haltIntent, "%w", err))
	}
	details, err := admin.ListTopics(ctx, topics.Events)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return standing{}, fmt.Errorf("look up the topic's id: %w", err)
	}
	s.topic = details[topics.Events].ID.String()
	ends, err := admin.ListCommittedOffsets(ctx, topics.Events)
	if err != nil {
		return standing{}, fmt.Errorf("look up the log's end: %w", err)
	}
	end, ok := ends.Lookup(topics.Events, w.shard)
	if !ok || end.Err != nil {
		return standing{}, fmt.Errorf("look up the log's end: partition is listed: %t: %w", ok, end.Err)
	}
	s.logEnd = end.Offset
	if s.rows, err = w.readWatermark(ctx); err != nil {
		return standing{}, err
	}
	s.head, err = w.readHead(ctx, s.rows)
	return s, err
}

// verdict is what the watermark says about the committed mark.
type verdict string

const (
	fresh  verdict = "fresh"  // no mark: a new group, or an operator reset the offsets; ClickHouse says where to go on
	landed verdict = "landed" // ClickHouse is where the mark says, or where its intent ends
	resend verdict = "resend" // the intent may be in flight or never left: the same rows again, under the same token
	ahead  verdict = "ahead"  // ClickHouse has more than the mark knows: offsets were set back by hand
	behind verdict = "behind" // ClickHouse lost rows: a restored backup, a power failure
)

type plan struct {
	verdict verdict
	mark    mark // to go on from; with the intent only where it is resent
}

// resolve decides from a standing alone.
func (w *worker) resolve(s standing, now time.Time) (plan, error) {
	last := s.rows.last
	if !s.rows.whole() {
		return plan{}, w.halt(haltClickHouse, "ClickHouse has %d rows of this shard at positions %d to %d (sum %s), which are not 1 to %d once each; "+
			"delete the shard's rows from the first wrong position up, and restart: they are inserted again",
			s.rows.rows, s.rows.first, last, s.rows.sum, last)
	}
	if s.mark != nil && s.mark.Topic != s.topic {
		return plan{}, w.halt(haltLog, "topic %s has id %s, the committed offset belongs to %s: the topic was deleted and created again; "+
			"if this log is the right one, reset the offsets of group %s", topics.Events, s.topic, s.mark.Topic, w.cfg.Group)
	}
	if s.logEnd < s.rows.next() {
		return plan{}, w.halt(haltLog, "the log ends at offset %d, ClickHouse has position %d from offset %d: the log lost its end", s.logEnd, last, s.rows.offset)
	}
	p := plan{mark: mark{Version: markVersion, Topic: s.topic, Done: last}}
	switch m := s.mark; {
	case m == nil:
		p.verdict = fresh
	case last == m.Done && !m.intended(), m.intended() && last == m.To:
		p.verdict, p.mark.Epoch = landed, m.Epoch
		return p, nil
	case last == m.Done:
		if s.logEnd <= m.ToOffset {
			return plan{}, w.halt(haltLog, "the log ends at offset %d, the intent %d-%d reaches to offset %d: the log lost its end", s.logEnd, m.From, m.To, m.ToOffset)
		}
		p.verdict, p.mark = resend, *m
		return p, nil
	case last < m.Done:
		p.verdict = behind
	case last > max(m.Done, m.To):
		p.verdict = ahead
	default:
		return plan{}, w.halt(haltIntent, "the intent is %d-%d and ClickHouse has up to %d, though a batch is one block and lands whole; "+
			"did a second group write to this ClickHouse?", m.From, m.To, last)
	}
	// Whatever is inserted now must not be taken for what an earlier life of the table had under the same name.
	p.mark.Epoch = nextEpoch(s.mark, now)
	return p, nil
}

func (w *worker) report(s standing, p plan) {
	fields := []zap.Field{zap.String("verdict", string(p.verdict)), zap.Uint64("clickhouse_position", s.rows.last), zap.Int64("epoch", p.mark.Epoch)}
	if s.mark != nil {
		fields = append(fields, zap.Uint64("committed_position", s.mark.Done), zap.Uint64("from", s.mark.From), zap.Uint64("to", s.mark.To))
	}
	switch w.metrics.takenOver(w.shard, p.verdict); p.verdict {
	case behind:
		w.logger.Error("ClickHouse lost rows that were there, inserting them again from the log", fields...)
	case ahead:
		w.logger.Warn("ClickHouse is ahead of the committed offset, going on from ClickHouse", fields...)
	case fresh, landed, resend:
		w.logger.Info("shard taken over", fields...)
	}
}

// resend inserts an intended range again. Afterwards the rows must be there: a server that drops them as known, though they
// are not in the table (rows were deleted, and its deduplication log was not), would drop them for ever.
func (w *worker) resend(ctx context.Context, m mark) error {
	b, err := w.cutRange(ctx, m)
	if err != nil {
		return err
	}
	if err := w.insert(ctx, b); err != nil {
		return err
	}
	w.advance(b)
	var rows watermark
	err = retry.Do(ctx, w.logger, "confirm rows", func(ctx context.Context) error {
		var err error
		rows, err = w.readWatermark(ctx)
		return err
	})
	if err == nil && rows.last == m.Done {
		return w.halt(haltClickHouse, "ClickHouse accepted positions %d-%d again and does not have them: its deduplication log knows token %s though the rows were deleted; "+
			"reset the offsets of group %s, which gives new tokens", m.From, m.To, m.token(w.shard), w.cfg.Group)
	}
	return err
}
