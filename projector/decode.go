package projector

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// decoder turns the records of a shard into rows, one at a time, in memory that it uses again.
type decoder struct {
	event ledgerv1.Event
	legs  []leg
	dates calendar
}

const (
	fingerprintBytes = 16
	chainBytes       = 20
)

// decode reads an event, which is valid until the next one and has its texts in the record. It checks what the table cannot: an event that does not say
// what the ledger-writer always says is no event.
func (d *decoder) decode(record *kgo.Record) (*ledgerv1.Event, error) {
	event := d.empty()
	if err := event.UnmarshalVTUnsafe(record.Value); err != nil {
		return nil, err
	}
	o := event.GetOutcome()
	switch {
	case int64(o.GetShard()) != int64(record.Partition):
		return nil, fmt.Errorf("event of shard %d in partition %d", o.GetShard(), record.Partition)
	case o.GetAccount() != string(record.Key):
		return nil, fmt.Errorf("event of account %q has the key %q", o.GetAccount(), record.Key)
	case o.GetAccount() != event.GetCommand().GetAccount() || o.GetCommandId() != event.GetCommand().GetCommandId():
		return nil, fmt.Errorf("event of command %q on account %q carries command %q on account %q", o.GetCommandId(), o.GetAccount(),
			event.GetCommand().GetCommandId(), event.GetCommand().GetAccount())
	case o.GetStatus() != ledgerv1.Status_STATUS_APPLIED && o.GetStatus() != ledgerv1.Status_STATUS_REJECTED:
		return nil, fmt.Errorf("event has status %d", o.GetStatus())
	case len(event.GetFingerprint()) != fingerprintBytes || len(event.GetChain()) != chainBytes:
		return nil, fmt.Errorf("event has a fingerprint of %d and a chain of %d bytes", len(event.GetFingerprint()), len(event.GetChain()))
	case len(event.GetHead()) != 0 && len(event.GetHead()) != chainBytes:
		return nil, fmt.Errorf("event has a head of %d bytes", len(event.GetHead()))
	case o.GetDecidedAt().GetSeconds() == 0 || o.GetDecidedAt().CheckValid() != nil: // 1970, to the second, is what empty leaves
		return nil, fmt.Errorf("event has no time of decision")
	}
	return event, nil
}

// empty empties the event, and keeps what it is made of. Reset would note for each message of which type it is, which is for reflection and takes a while, and
// ResetVT goes through pools. An event without outcome or command has an empty one in the end, and decode refuses it.
func (d *decoder) empty() *ledgerv1.Event {
	event := &d.event
	outcome, command := event.GetOutcome(), event.GetCommand()
	if outcome == nil {
		outcome, command = &ledgerv1.Outcome{DecidedAt: &timestamppb.Timestamp{}}, &ledgerv1.Command{}
	}
	decidedAt := outcome.GetDecidedAt()
	*decidedAt = timestamppb.Timestamp{}
	outcome.GetAfter().ReturnToVTPool() // whether there is a state says something: none is left here
	for _, legs := range [...][]*ledgerv1.Leg{outcome.GetLegs(), command.GetLegs()} {
		for _, leg := range legs {
			leg.Reset()
		}
	}
	*outcome, *command = ledgerv1.Outcome{Legs: outcome.GetLegs()[:0], DecidedAt: decidedAt}, ledgerv1.Command{Legs: command.GetLegs()[:0]}
	*event = ledgerv1.Event{Outcome: outcome, Command: command}
	return event
}

// calendar reads days, and remembers the last one: neighbours are of the same.
type calendar struct {
	text string
	last uint16
}

// day is the number of days since 1970.
func (c *calendar) day(text string) (uint16, error) {
	if text == c.text && text != "" {
		return c.last, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, err
	}
	days := t.Unix() / int64(24*time.Hour/time.Second)
	if days < 0 || days > math.MaxUint16 {
		return 0, fmt.Errorf("%s is not within the range of the table", text)
	}
	c.text, c.last = strings.Clone(text), uint16(days)
	return c.last, nil
}
