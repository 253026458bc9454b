package writer

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Causes of a dead letter that are not reasons of the catalogue.
const (
	causeNotACommand = "NOT_A_COMMAND"
	causeTooLarge    = "TOO_LARGE"
)

const (
	// headerBytesMax lets a command be sent on with its headers: a record that came compressed can hold more than a batch may.
	headerBytesMax = 64 << 10
	// letterBytesMax is what fits into ledger.deadletters (schemas/topics), with room for the record around it.
	letterBytesMax = 2<<20 - 64<<10
)

// callBytesMax bounds one call of the script: Redis copies the arguments, and other clients wait meanwhile.
const callBytesMax = 1 << 20

// decode turns the records of a shard's next call into commands. A record that does not even name a command and an account becomes a dead
// letter; one that landed on the wrong partition is sent on; an invalid one goes to the script as a refusal, so that its outcome is recorded
// like any other.
func (w *Writer) decode(p *part) {
	begun, bytes := len(p.commands), 0
	room := make([]ledgerv1.Command, min(len(p.records), lua.CommandsMax)) // at once: one by one costs more
	for len(p.records) > 0 && len(p.commands)-begun < lua.CommandsMax {
		r := p.records[0]
		if bytes += len(r.Value); bytes > callBytesMax && len(p.commands) > begun {
			break
		}
		p.records = p.records[1:]
		w.decodeRecord(p, r, &room[len(p.commands)-begun])
	}
}

// share gives every owned shard its part of the batch.
func (w *Writer) share(b *batch) {
	b.parts = make(map[int]*part, len(b.records))
	for number, records := range b.records {
		s, ok := w.owned.get(number)
		if !ok {
			continue // revoked in the same poll; its new owner reads them
		}
		n := len(records)
		b.parts[number] = &part{
			shard: s, at: s.at, calendar: w.calendar, records: records, sources: make([]*kgo.Record, 0, n),
			commands: make([]lua.Command, 0, n), details: make([]string, 0, n), decisions: make([]lua.Decision, 0, n),
		}
	}
}

// decodeRecord decodes into command, which is empty, or holds what a record was refused for.
func (w *Writer) decodeRecord(p *part, r *kgo.Record, command *ledgerv1.Command) {
	if len(r.Value) > limits.CommandBytesMax {
		w.bury(p, r, causeTooLarge, fmt.Sprintf("%d bytes; a command has at most %d", len(r.Value), limits.CommandBytesMax))
		return
	}
	if n := headerBytes(r); n > headerBytesMax {
		w.bury(p, r, causeTooLarge, fmt.Sprintf("%d bytes of headers; a command has at most %d", n, headerBytesMax))
		return
	}
	if err := proto.Unmarshal(r.Value, command); err != nil || len(r.Value) == 0 {
		w.bury(p, r, causeNotACommand, fmt.Sprintf("not a ledger.v1.Command: %v", err))
		return
	}
	refusal, problem := limits.Command(command)
	if problem != nil && !limits.Recordable(command) {
		// Without a name there is no outcome to remember.
		w.bury(p, r, reason.Of(refusal).Code, problem.Error())
		p.answer(command, &ledgerv1.Outcome{
			CommandId: command.GetCommandId(), Account: command.GetAccount(), Status: ledgerv1.Status_STATUS_REJECTED, Reason: refusal, Delta: "0",
		}, problem.Error())
		return
	}
	if home := topics.ShardOf(command.GetAccount(), w.cfg.Kafka.Shards); home != p.shard.number {
		p.moved = append(p.moved, &kgo.Record{Topic: topics.Commands, Partition: int32(home), Key: []byte(command.GetAccount()), Value: r.Value, Headers: firstSeen(r)})
		w.metrics.moved.Inc()
		return
	}
	detail := ""
	if problem != nil {
		detail = problem.Error()
	}
	p.sources = append(p.sources, r)
	p.details = append(p.details, detail)
	p.commands = append(p.commands, lua.Command{Command: command, Fingerprint: p.fingerprints.Of(command), Refusal: refusal, Body: r.Value, AskedAt: askedAt(command, r)})
}

// askedAt is when a command was first asked for, as far as it shows: a retry keeps the caller's time, a redelivery the broker's, and a command
// that was sent on the header of the time before.
func askedAt(c *ledgerv1.Command, r *kgo.Record) time.Time {
	asked := r.Timestamp
	if at := c.GetRequestedAt(); at != nil && at.CheckValid() == nil && at.AsTime().Before(asked) {
		asked = at.AsTime()
	}
	for _, h := range r.Headers {
		if at, ok := seenAt(h); ok && at.Before(asked) {
			asked = at
		}
	}
	return asked
}

// firstSeenHeader says when a record that was sent on was appended first, in ms: the broker gives it a new time.
const firstSeenHeader = "hotledger-first-seen"

func seenAt(h kgo.RecordHeader) (time.Time, bool) {
	if h.Key != firstSeenHeader {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(string(h.Value), 10, 64)
	return time.UnixMilli(ms), err == nil
}

// firstSeen are the headers of a record that is sent on.
func firstSeen(r *kgo.Record) []kgo.RecordHeader {
	for _, h := range r.Headers {
		if at, ok := seenAt(h); ok && !at.After(r.Timestamp) {
			return r.Headers
		}
	}
	return append(slices.Clip(r.Headers), kgo.RecordHeader{Key: firstSeenHeader, Value: strconv.AppendInt(nil, r.Timestamp.UnixMilli(), 10)})
}

// bury makes a dead letter of a record, byte for byte. Only a record beyond what its topic takes (it came compressed) is cut, and says so.
func (w *Writer) bury(p *part, r *kgo.Record, cause, detail string) {
	letter := &ledgerv1.DeadLetter{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: timestamppb.New(r.Timestamp),
		Key: r.Key, Value: r.Value, HasKey: r.Key != nil, HasValue: r.Value != nil,
		Cause: cause, Detail: detail, DeadAt: timestamppb.Now(),
	}
	for _, h := range r.Headers {
		letter.Headers = append(letter.Headers, &ledgerv1.Header{Key: h.Key, Value: h.Value})
	}
	cut(letter)
	p.letters = append(p.letters, letter)
	w.metrics.deadLetters.WithLabelValues(cause).Inc()
}

// cut makes a dead letter fit: first the value, then the headers, then the key give way. The original stays in ledger.commands for as long
// as that topic keeps it.
func cut(letter *ledgerv1.DeadLetter) {
	excess := func() int { return proto.Size(letter) + len(letter.GetKey()) - letterBytesMax } // the key is the record's key as well
	if excess() <= 0 {
		return
	}
	whole := sha256.Sum256(letter.GetValue())
	letter.Detail += fmt.Sprintf("; cut to fit: the value had %d bytes, SHA-256 %x, the key %d bytes, %d headers",
		len(letter.GetValue()), whole, len(letter.GetKey()), len(letter.GetHeaders()))
	letter.Value = letter.GetValue()[:max(0, len(letter.GetValue())-max(0, excess()))]
	if excess() > 0 {
		letter.Headers = nil
	}
	if excess() > 0 {
		letter.Key = letter.GetKey()[:letterBytesMax/4]
	}
}

// headerBytes is how much the sender said in headers; what sending it on adds does not count.
func headerBytes(r *kgo.Record) int {
	n := 0
	for _, h := range r.Headers {
		if _, ours := seenAt(h); !ours {
			n += len(h.Key) + len(h.Value)
		}
	}
	return n
}

// answer adds a reply, if anybody waits for one.
func (p *part) answer(c *ledgerv1.Command, o *ledgerv1.Outcome, detail string) {
	if c.GetReplyTo() != "" {
		p.replies = append(p.replies, &ledgerv1.Reply{ReplyTo: c.GetReplyTo(), Outcome: o, Detail: detail})
	}
}
