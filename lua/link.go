package lua

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // it links, it does not sign (docs/decisions/0003)
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Link is a place in the log: every event is linked to the one before. Redis has no part in it; where it stands is a Head.
type Link struct {
	Position uint64 // gap-free per shard, from 1; 0 before the first event
	Chain    string // hash over all events up to Position, 40 hex digits
}

// FirstLink is before the first event of a shard.
var FirstLink = Link{Position: 0, Chain: strings.Repeat("0", 2*sha1.Size)}

// linkBytes has room for what most links hash, and for most outcome records.
const linkBytes = 512

// next is the link of one more event, and its chain as it is hashed: of the chain before, the command's id, its fingerprint, which stands for
// the account and all else that the command says, and the outcome record.
func (l Link) next(commandID string, fingerprint []byte, record []byte) (Link, [sha1.Size]byte) {
	var room [linkBytes]byte
	text := append(room[:0], l.Chain...)
	text = append(append(text, commandID...), '\n')
	text = append(append(text, fingerprint...), record...)
	sum := sha1.Sum(text) //nolint:gosec // see above
	return Link{Position: l.Position + 1, Chain: string(hex.AppendEncode(room[:0], sum[:]))}, sum
}

func (l Link) String() string { return fmt.Sprintf("%d:%.12s", l.Position, l.Chain) }

// ErrChainBroken says that an event does not follow from the link before it: a gap, a fork or a changed record.
var ErrChainBroken = errors.New("chain broken")

// LinkAfter checks that the event follows the link, and returns the link after it. Encode and decode meet here: what Redis decided is
// hashed again from the fields of the event.
func LinkAfter(before Link, e *ledgerv1.Event) (Link, error) {
	var room [linkBytes]byte
	return linkAfter(before, e, appendOutcome(room[:0], e.GetOutcome()))
}

// linkAfter is LinkAfter with the event's outcome record, so that nobody makes it twice.
func linkAfter(before Link, e *ledgerv1.Event, record []byte) (Link, error) {
	o := e.GetOutcome()
	if o.GetPosition() != before.Position+1 {
		return Link{}, fmt.Errorf("%w: position %d follows %d", ErrChainBroken, o.GetPosition(), before.Position)
	}
	if len(e.GetFingerprint()) != len(Fingerprint{}) {
		return Link{}, fmt.Errorf("%w: fingerprint of %d bytes at position %d", ErrChainBroken, len(e.GetFingerprint()), o.GetPosition())
	}
	if c := e.GetCommand(); c != nil && (c.GetCommandId() != o.GetCommandId() || c.GetAccount() != o.GetAccount()) {
		return Link{}, fmt.Errorf("%w: position %d is the outcome of %q for %q, its command is %q for %q", ErrChainBroken,
			o.GetPosition(), o.GetCommandId(), o.GetAccount(), c.GetCommandId(), c.GetAccount())
	}
	if n := len(e.GetHead()); n != 0 && n != sha1.Size {
		return Link{}, fmt.Errorf("%w: head of %d bytes at position %d", ErrChainBroken, n, o.GetPosition())
	}
	after, sum := before.next(o.GetCommandId(), e.GetFingerprint(), record)
	if !bytes.Equal(e.GetChain(), sum[:]) {
		return Link{}, fmt.Errorf("%w: position %d of shard %d carries %x, its content gives %s", ErrChainBroken, o.GetPosition(), o.GetShard(), e.GetChain(), after.Chain)
	}
	return after, nil
}

// LinkOf is the link that an event of the log carries.
func LinkOf(e *ledgerv1.Event) Link {
	return Link{Position: e.GetOutcome().GetPosition(), Chain: hex.EncodeToString(e.GetChain())}
}

// Point is a place in the log where a call ends: Redis can stand there.
type Point struct {
	Head Head
	Link Link
}

// Origin is the point before the first event.
var Origin = Point{Head: Genesis, Link: FirstLink}

// PointOf is the point that an event of the log carries; false for an event in the middle of a call.
func PointOf(e *ledgerv1.Event) (Point, bool) {
	link := LinkOf(e)
	return Point{Head: Head{Position: link.Position, Chain: hex.EncodeToString(e.GetHead())}, Link: link}, len(e.GetHead()) == sha1.Size
}

// Event makes the event of a new decision, and returns the link after it.
func (l Link) Event(c Command, d Decision) (*ledgerv1.Event, Link, error) {
	if l.Position+1 != d.Outcome.GetPosition() {
		return nil, l, fmt.Errorf("%w: position %d follows %d", ErrChainBroken, d.Outcome.GetPosition(), l.Position)
	}
	var room [linkBytes]byte
	made := &struct { // in one piece of memory
		event       ledgerv1.Event
		fingerprint Fingerprint
		chain       [sha1.Size]byte
	}{fingerprint: c.Fingerprint}
	event := &made.event
	l, made.chain = l.next(c.GetCommandId(), made.fingerprint[:], append(room[:0], d.Record...))
	event.Outcome, event.Chain, event.Fingerprint, event.Command = d.Outcome, made.chain[:], made.fingerprint[:], c.Command
	var err error
	if d.Head != (Head{}) {
		event.Head, err = hex.DecodeString(d.Head.Chain)
	}
	return event, l, err
}

// Append links events of the outbox, or of a batch, to the log's last one: it sets their chains, and returns the link after them.
func (l Link) Append(events ...*ledgerv1.Event) (Link, error) {
	for _, e := range events {
		o := e.GetOutcome()
		if o.GetPosition() != l.Position+1 {
			return Link{}, fmt.Errorf("%w: position %d follows %d", ErrChainBroken, o.GetPosition(), l.Position)
		}
		if len(e.GetFingerprint()) != len(Fingerprint{}) {
			return Link{}, fmt.Errorf("%w: fingerprint of %d bytes at position %d", ErrChainBroken, len(e.GetFingerprint()), o.GetPosition())
		}
		var chain [sha1.Size]byte
		l, chain = l.next(o.GetCommandId(), e.GetFingerprint(), appendOutcome(nil, o))
		e.Chain = chain[:]
	}
	return l, nil
}
