package writer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/cloudevents"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/hotledger/hotledger/schemas/topics"
)

// publishDecided writes the outcomes of the last call into the batch's transaction.
func (w *Writer) publishDecided(p *publisher, part *part) {
	for ; part.published < len(part.decisions); part.published++ {
		w.publishDecision(p, part, part.published)
	}
}

// publish writes what is left of the batch into its transaction: events, replies, dead letters, commands sent on. It returns when the broker
// has acknowledged all of it; nobody sees any of it before the commit.
func (w *Writer) publish(ctx context.Context, b *batch) error {
	p := b.out
	for _, part := range b.parts {
		for _, reply := range part.replies {
			p.reply(w.cfg.Kafka.Shards, reply)
		}
		for _, letter := range part.letters {
			p.message(topics.DeadLetters, letter.GetPartition(), letter.GetKey(), "deadletter",
				fmt.Sprintf("%s/%d/%d", letter.GetTopic(), letter.GetPartition(), letter.GetOffset()), letter)
		}
		for _, moved := range part.moved {
			p.send(moved)
		}
	}
	for _, command := range b.derived {
		p.command(w.cfg.Kafka.Shards, command)
	}
	return p.wait(ctx)
}

// publishDecision writes the i-th outcome of a part, with what it asks for, and tells its caller.
func (w *Writer) publishDecision(p *publisher, part *part, i int) {
	command, d := part.commands[i], part.decisions[i]
	outcome := d.Outcome
	outcome.BusinessDate = part.calendar.dateOf(outcome.GetDecidedAt().AsTime())
	w.metrics.decided(d)
	switch d.Kind {
	case lua.Decided:
		event, link, err := part.at.Link.Event(command, d)
		if err != nil {
			p.fail(err)
			return
		}
		part.at.Link = link
		p.event(&part.shard.room, event, command.Body)
		part.shard.noteHold(outcome)
	case lua.Reused:
		// Answered, counted and dead-lettered; the first outcome stands.
		outcome = &ledgerv1.Outcome{
			CommandId: command.GetCommandId(), Account: command.GetAccount(), Status: ledgerv1.Status_STATUS_REJECTED,
			Reason: ledgerv1.Reason_REASON_COMMAND_ID_REUSED, Shard: d.Outcome.GetShard(), Position: d.Outcome.GetPosition(), Delta: "0",
			DecidedAt: d.Outcome.GetDecidedAt(),
		}
		detail := fmt.Sprintf("command id %q was used before with another payload, at position %d of shard %d", command.GetCommandId(), outcome.GetPosition(), outcome.GetShard())
		w.bury(part, part.sources[i], reason.Of(outcome.GetReason()).Code, detail)
		if strayed(command.Command, d.Outcome) {
			p.command(w.cfg.Kafka.Shards, derive(command.Command, outcome))
			return
		}
		part.answer(command.Command, outcome, detail)
		return
	case lua.Remembered:
	}
	if next := derive(command.Command, outcome); next != nil {
		p.command(w.cfg.Kafka.Shards, next)
	}
	if outcome = told(command.Command, outcome); outcome == nil {
		return
	}
	detail := part.details[i]
	if detail == "" {
		detail = detailOf(outcome)
	}
	part.answer(command.Command, outcome, detail)
}

// publishEvent publishes an event of the outbox with what it asks for, and tells its caller.
func (w *Writer) publishEvent(p *publisher, s *shard, e *ledgerv1.Event) error {
	command, err := proto.Marshal(e.GetCommand())
	if err != nil {
		return fmt.Errorf("encode command %q: %w", e.GetCommand().GetCommandId(), err)
	}
	e.Outcome.BusinessDate = w.calendar.dateOf(e.GetOutcome().GetDecidedAt().AsTime())
	p.event(&s.room, e, command)
	if next := derive(e.GetCommand(), e.GetOutcome()); next != nil {
		p.command(w.cfg.Kafka.Shards, next)
	}
	if outcome, to := told(e.GetCommand(), e.GetOutcome()), e.GetCommand().GetReplyTo(); outcome != nil && to != "" {
		p.reply(w.cfg.Kafka.Shards, &ledgerv1.Reply{ReplyTo: to, Outcome: outcome, Detail: detailOf(outcome)})
	}
	return nil
}

// detailOf is what a rejection's reason means, for a person; empty when applied.
func detailOf(o *ledgerv1.Outcome) string {
	if o.GetStatus() != ledgerv1.Status_STATUS_REJECTED {
		return ""
	}
	return reason.Of(o.GetReason()).Text
}

// publisher writes into one transaction and remembers the first error. Safe for concurrent use.
type publisher struct {
	session  *kgo.GroupTransactSession
	patience time.Duration            // the broker gives the transaction up after it
	promise  func(*kgo.Record, error) // promised, made once
	failure  atomic.Pointer[error]    // written by the client's promises, too
}

// open begins the transaction of a batch.
func (w *Writer) open() (*publisher, error) {
	if err := w.session.Begin(); err != nil {
		return nil, fmt.Errorf("%w: begin transaction: %w", errTenureOver, err)
	}
	w.inTxn = true
	p := &publisher{session: w.session, patience: w.cfg.TransactionTimeout}
	p.promise = p.promised
	return p, nil
}

func (p *publisher) fail(err error) { p.failure.CompareAndSwap(nil, &err) }

// send is never cancelled for one record: the whole transaction is aborted.
func (p *publisher) send(r *kgo.Record) { p.session.Produce(context.Background(), r, p.promise) }

// promised notes what became of one record.
func (p *publisher) promised(r *kgo.Record, err error) {
	if err != nil {
		p.fail(fmt.Errorf("produce to %s/%d: %w", r.Topic, r.Partition, err))
	}
}

func (p *publisher) message(topic string, partition int32, key []byte, kind, id string, m proto.Message) {
	value, err := proto.Marshal(m)
	if err != nil {
		p.fail(fmt.Errorf("encode %s %s: %w", kind, id, err))
		return
	}
	p.send(&kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value, Headers: cloudevents.Headers(kind, id)})
}

// event writes an event, in memory of its shard.
func (p *publisher) event(m *room, e *ledgerv1.Event, command []byte) {
	r, err := m.eventRecord(e, command)
	if err != nil {
		p.fail(err)
		return
	}
	p.send(r)
}

// room is memory for the records of events, cut off larger pieces: a piece is free again once all that was cut off it is. One goroutine uses it.
// It outlives the batch: most batches of a quiet system are of one command, and would each take a piece of their own.
type room struct {
	records []kgo.Record
	headers []kgo.RecordHeader
	bytes   []byte
}

const (
	// roomRecords is how many records one piece has.
	roomRecords = 256
	// roomBytes is one piece of bytes; what needs more than a quarter of it gets its own.
	roomBytes = 128 << 10
)

// record returns one of no content, and room for its headers.
func (m *room) record() (*kgo.Record, []kgo.RecordHeader) {
	const h = cloudevents.HeadersPerRecord
	if len(m.records) == 0 {
		m.records, m.headers = make([]kgo.Record, roomRecords), make([]kgo.RecordHeader, roomRecords*h)
	}
	record, headers := &m.records[0], m.headers[:0:h]
	m.records, m.headers = m.records[1:], m.headers[h:]
	return record, headers
}

// take returns n bytes that nobody else has.
func (m *room) take(n int) []byte {
	if n > len(m.bytes) {
		if n > roomBytes/4 {
			return make([]byte, n)
		}
		m.bytes = make([]byte, roomBytes)
	}
	taken := m.bytes[:n:n]
	m.bytes = m.bytes[n:]
	return taken
}

// eventRecord makes the record of an event. The command inside is the bytes as they came: decoding and encoding them again could lose what this
// version does not know.
func (m *room) eventRecord(e *ledgerv1.Event, command []byte) (*kgo.Record, error) {
	const commandField = 4 // Event.command
	o := e.GetOutcome()
	without := &ledgerv1.Event{Outcome: o, Chain: e.GetChain(), Fingerprint: e.GetFingerprint(), Head: e.GetHead()}
	size, id, account := without.SizeVT(), o.GetCommandId(), o.GetAccount()
	value := m.take(size + protowire.SizeTag(commandField) + protowire.SizeBytes(len(command)))
	if _, err := without.MarshalToSizedBufferVT(value[:size]); err != nil {
		return nil, fmt.Errorf("encode event %d/%d: %w", o.GetShard(), o.GetPosition(), err)
	}
	protowire.AppendBytes(protowire.AppendTag(value[:size], commandField, protowire.BytesType), command)
	names := m.take(len(id) + len(account))
	copy(names[copy(names, id):], account)
	r, headers := m.record()
	*r = kgo.Record{
		Topic: topics.Events, Partition: int32(o.GetShard()), Key: names[len(id):], Value: value,
		Headers:   cloudevents.AppendHeaders(headers, cloudevents.Event, names[:len(id):len(id)]),
		Timestamp: o.GetDecidedAt().AsTime(), // the broker puts its own; the client would ask the clock for one
	}
	return r, nil
}

func (p *publisher) reply(shards int, r *ledgerv1.Reply) {
	id := r.GetOutcome().GetCommandId()
	p.message(topics.Replies, topics.PartitionOf(r.GetReplyTo(), shards), []byte(id), "reply", id, r)
}

// wait flushes, and returns the first error of anything sent.
func (p *publisher) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	if err := p.session.Client().Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := p.failure.Load(); err != nil {
		return errors.Join(errors.New("publish"), *err)
	}
	return nil
}
