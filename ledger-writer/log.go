package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// eventLog reads committed events of a shard, for recovery. Rebuilds beside the loop read with it too; it keeps no state.
type eventLog struct {
	cfg    kafka.Config
	logger *zap.Logger
	admin  *kadm.Client
	// patience ends a wait in which nothing comes: Kafka is away, or the range no longer there. Whoever waits gives up and begins again, and
	// hears of a stop in between.
	patience time.Duration
}

var errNoProgress = errors.New("kafka gave nothing for too long")

// eventLog makes one. A neighbour's transaction stays open for about a transaction timeout after its death, which its session outlives.
func (w *Writer) eventLog(admin *kadm.Client) *eventLog {
	return &eventLog{cfg: w.cfg.Kafka, logger: w.logger, admin: admin, patience: w.cfg.TransactionTimeout + w.cfg.SessionTimeout}
}

// lastWindow is how many offsets before the end are looked at first for the last event. Behind it stand at most transaction
// markers and aborted batches; the window grows until it holds an event.
const lastWindow = 64

// stableEnd notes the high watermark and waits until the last stable offset has reached it: every transaction that was open then is
// decided (rule 12). It returns that offset: all committed events are below it. It waits for patience at most.
func (l *eventLog) stableEnd(ctx context.Context, shard int) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.patience, errNoProgress)
	defer cancel()
	var watermark, stable int64
	watermark, err := l.offset(ctx, shard, l.admin.ListEndOffsets)
	if err != nil {
		return 0, err
	}
	err = retry.Do(ctx, l.logger, "wait for open transactions", func(ctx context.Context) error {
		var err error
		if stable, err = l.offset(ctx, shard, l.admin.ListCommittedOffsets); err != nil {
			return err
		}
		if stable < watermark {
			return fmt.Errorf("last stable offset %d is below the high watermark %d of shard %d: a transaction is still open", stable, watermark, shard)
		}
		return nil
	})
	return stable, err
}

func (l *eventLog) offset(ctx context.Context, shard int, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (int64, error) {
	listed, err := list(ctx, topics.Events)
	if err != nil {
		return 0, fmt.Errorf("list offsets of events: %w", err)
	}
	at, ok := listed.Lookup(topics.Events, int32(shard))
	if !ok {
		return 0, fmt.Errorf("list offsets of events: shard %d is missing", shard)
	}
	if at.Err != nil {
		return 0, fmt.Errorf("list offsets of events of shard %d: %w", shard, at.Err)
	}
	return at.Offset, nil
}

// last returns the point that the last committed event below end carries; Origin when there is none.
func (l *eventLog) last(ctx context.Context, shard int, end int64) (lua.Point, error) {
	start, err := l.offset(ctx, shard, l.admin.ListStartOffsets)
	if err != nil {
		return lua.Point{}, err
	}
	if start > 0 {
		return lua.Point{}, errDamagedLog{fmt.Errorf("events of shard %d begin at offset %d: the authoritative log lost its beginning; "+
			"restore it, and set retention.ms=-1 on %s", shard, start, topics.Events)}
	}
	for window := int64(lastWindow); ; window *= 16 {
		from := max(0, end-window)
		last, ends, found := lua.Origin, true, false
		err := l.read(ctx, shard, from, end, func(events []*ledgerv1.Event) error {
			last, ends = lua.PointOf(events[len(events)-1])
			found = true
			return nil
		})
		if err == nil && !ends {
			err = errDamagedLog{fmt.Errorf("events of shard %d end at %s in the middle of a call: no ledger-writer commits that", shard, last.Link)}
		}
		if err != nil || found || from == 0 {
			return last, err
		}
	}
}

// after calls each with the events above a link, in order, whole calls of at most lua.EventsMax events together; next is the offset from which to
// look for them. That they are linked to it and to each other is checked by whoever takes them (lua.LinkAfter); reachedLast holds their end
// against the log's.
func (l *eventLog) after(ctx context.Context, shard int, from lua.Link, next, end int64, each func([]*ledgerv1.Event) error) error {
	var calls []*ledgerv1.Event
	return l.read(ctx, shard, next, end, func(events []*ledgerv1.Event) error {
		for len(events) > 0 && events[0].GetOutcome().GetPosition() <= from.Position {
			events = events[1:]
		}
		calls = append(calls, events...)
		for n := wholeCalls(calls); n > 0; n = wholeCalls(calls) {
			err := each(calls[:n])
			if errors.Is(err, lua.ErrChainBroken) {
				return errDamagedLog{err}
			}
			if err != nil {
				return err
			}
			calls = calls[n:]
		}
		if len(calls) >= lua.EventsMax {
			return errDamagedLog{fmt.Errorf("events of shard %d from position %d on end no call", shard, calls[0].GetOutcome().GetPosition())}
		}
		return nil
	})
}

// wholeCalls is how many of the first lua.EventsMax events end with a call.
func wholeCalls(events []*ledgerv1.Event) int {
	for n := min(len(events), lua.EventsMax); n > 0; n-- {
		if _, ends := lua.PointOf(events[n-1]); ends {
			return n
		}
	}
	return 0
}

// reachedLast says whether the events of a shard led to the point that the last of them carries.
func reachedLast(shard int, at, last lua.Point) error {
	if at == last {
		return nil
	}
	return errDamagedLog{fmt.Errorf("events of shard %d lead to %s, the last one carries %s", shard, at.Link, last.Link)}
}

// read calls each with the committed events at offsets [from, end), in chunks of at most lua.EventsMax. each may return errStopReading.
func (l *eventLog) read(ctx context.Context, shard int, from, end int64, each func([]*ledgerv1.Event) error) error {
	return l.records(ctx, shard, from, end, func(records []*kgo.Record) error {
		events := make([]*ledgerv1.Event, 0, len(records))
		for _, r := range records {
			e, err := decodeEvent(r)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return each(events)
	})
}

// records is read before it is decoded.
func (l *eventLog) records(ctx context.Context, shard int, from, end int64, each func([]*kgo.Record) error) error {
	if from >= end {
		return nil
	}
	client, err := kafka.NewClient(l.cfg, l.logger,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Events: {int32(shard): kgo.NewOffset().At(from)}}),
		// What ends a range is often a transaction marker, which must be seen to know that the range is read.
		kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	for next := from; next < end; {
		waiting, cancel := context.WithTimeoutCause(ctx, l.patience, errNoProgress)
		read, err := l.poll(waiting, client, shard)
		cancel()
		if err != nil {
			return fmt.Errorf("read events of shard %d from offset %d to %d: %w", shard, next, end, err)
		}
		var records []*kgo.Record
		for _, r := range read {
			if r.Offset >= end {
				next = end
				break
			}
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		}
		if len(records) == 0 {
			continue
		}
		if err := each(records); errors.Is(err, errStopReading) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// poll waits for the next records, through errors that pass.
func (l *eventLog) poll(ctx context.Context, client *kgo.Client, shard int) ([]*kgo.Record, error) {
	for {
		fetches := client.PollRecords(ctx, lua.EventsMax)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for _, failed := range fetches.Errors() {
			if isLogDamage(failed.Err) {
				return nil, errDamagedLog{failed.Err}
			}
			l.logger.Warn("fetch events", zap.Int("shard", shard), zap.Error(failed.Err))
		}
		if records := fetches.Records(); len(records) > 0 {
			return records, nil
		}
	}
}

func decodeEvent(r *kgo.Record) (*ledgerv1.Event, error) {
	e := &ledgerv1.Event{}
	if err := proto.Unmarshal(r.Value, e); err != nil {
		return nil, errDamagedLog{fmt.Errorf("event at %s/%d offset %d cannot be read: %w", r.Topic, r.Partition, r.Offset, err)}
	}
	return e, nil
}
