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

// eventLog reads committed events of a shard, for recovery. The loop alone uses it.
type eventLog struct {
	cfg    kafka.Config
	logger *zap.Logger
	admin  *kadm.Client
}

// lastWindow is how many offsets before the end are looked at first for the last event. Behind it stand at most transaction
// markers and aborted batches; the window grows until it holds an event.
const lastWindow = 64

// stableEnd notes the high watermark and waits until the last stable offset has reached it: every transaction that was open then is
// decided (rule 12). It returns that offset: all committed events are below it.
func (l *eventLog) stableEnd(ctx context.Context, shard int) (int64, error) {
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

// last returns the head that the last committed event below end carries; Genesis when there is none.
func (l *eventLog) last(ctx context.Context, shard int, end int64) (lua.Head, error) {
	start, err := l.offset(ctx, shard, l.admin.ListStartOffsets)
	if err != nil {
		return lua.Head{}, err
	}
	if start > 0 {
		return lua.Head{}, errDamagedLog{fmt.Errorf("events of shard %d begin at offset %d: the authoritative log lost its beginning; "+
			"restore it, and set retention.ms=-1 on %s", shard, start, topics.Events)}
	}
	for window := int64(lastWindow); ; window *= 16 {
		from := max(0, end-window)
		last, found := lua.Genesis, false
		err := l.read(ctx, shard, from, end, func(events []*ledgerv1.Event) error {
			last, found = lua.HeadOf(events[len(events)-1]), true
			return nil
		})
		if err != nil || found || from == 0 {
			return last, err
		}
	}
}

// headAt returns the head of the log at a position below last.
func (l *eventLog) headAt(ctx context.Context, shard int, position uint64, last lua.Head, end int64) (lua.Head, error) {
	if position == 0 {
		return lua.Genesis, nil
	}
	var head lua.Head
	err := l.read(ctx, shard, 0, end, func(events []*ledgerv1.Event) error {
		for _, e := range events {
			if e.GetOutcome().GetPosition() == position {
				head = lua.HeadOf(e)
				return errStopReading
			}
		}
		return nil
	})
	if err == nil && head == (lua.Head{}) {
		err = errDamagedLog{fmt.Errorf("events of shard %d end at %s but hold no position %d", shard, last, position)}
	}
	return head, err
}

// after calls each with the events above a head, in order, linked to it and to each other up to last.
func (l *eventLog) after(ctx context.Context, shard int, from, last lua.Head, end int64, each func([]*ledgerv1.Event) error) error {
	at := from
	err := l.read(ctx, shard, 0, end, func(events []*ledgerv1.Event) error {
		for len(events) > 0 && events[0].GetOutcome().GetPosition() <= from.Position {
			events = events[1:]
		}
		if len(events) == 0 {
			return nil
		}
		for _, e := range events {
			var err error
			if at, err = lua.HeadAfter(at, e); err != nil {
				return errDamagedLog{err}
			}
		}
		return each(events)
	})
	if err == nil && at != last {
		err = errDamagedLog{fmt.Errorf("events of shard %d lead to %s, the last one carries %s", shard, at, last)}
	}
	return err
}

// read calls each with the committed events at offsets [from, end), in chunks of at most lua.EventsMax. each may return errStopReading.
func (l *eventLog) read(ctx context.Context, shard int, from, end int64, each func([]*ledgerv1.Event) error) error {
	if from >= end {
		return nil
	}
	partition := int32(shard)
	client, err := kafka.NewClient(l.cfg, l.logger,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Events: {partition: kgo.NewOffset().At(from)}}),
		// What ends a range is often a transaction marker, which must be seen to know that the range is read.
		kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	for next := from; next < end; {
		fetches := client.PollRecords(ctx, lua.EventsMax)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		for _, failed := range fetches.Errors() {
			if isLogDamage(failed.Err) {
				return errDamagedLog{fmt.Errorf("read events of shard %d: %w", shard, failed.Err)}
			}
			l.logger.Warn("fetch events", zap.Int("shard", shard), zap.Error(failed.Err))
		}
		events, upTo, err := decodeEvents(fetches.Records(), next, end)
		if err != nil {
			return err
		}
		next = upTo
		if len(events) == 0 {
			continue
		}
		if err := each(events); errors.Is(err, errStopReading) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func decodeEvents(records []*kgo.Record, next, end int64) ([]*ledgerv1.Event, int64, error) {
	var events []*ledgerv1.Event
	for _, r := range records {
		if r.Offset >= end {
			return events, end, nil
		}
		next = r.Offset + 1
		if r.Attrs.IsControl() {
			continue
		}
		e := &ledgerv1.Event{}
		if err := proto.Unmarshal(r.Value, e); err != nil {
			return nil, next, errDamagedLog{fmt.Errorf("event at %s/%d offset %d cannot be read: %w", r.Topic, r.Partition, r.Offset, err)}
		}
		events = append(events, e)
	}
	return events, next, nil
}

// rebuildProgress is how often a rebuild says how far it is.
const rebuildProgress = 5 * time.Second
