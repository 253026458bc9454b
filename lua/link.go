package lua

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // it links, it does not sign (docs/decisions/0003)
	"encoding/hex"
	"errors"
	"fmt"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Link is a place in the log: every event is linked to the one before. Redis has no part in it; where it stands is a Head.
type Link struct {
	Position uint64 // gap-free per shard, from 1; 0 before the first event
	Chain    Chain
}

// Chain is a hash over all events up to a position. What is hashed, and what databases keep of how far a log was read, are its 40 hex digits.
type Chain [sha1.Size]byte

// noChain is what an event carries whose chain has another length: the chain of no event, and not that of FirstLink.
var noChain = Chain(bytes.Repeat([]byte{0xff}, sha1.Size))

func (c Chain) String() string { return hex.EncodeToString(c[:]) }

// Scan implements sql.Scanner. It reads the hex digits.
func (c *Chain) Scan(from any) error {
	digits, isText := from.(string)
	if !isText || len(digits) != hex.EncodedLen(len(c)) {
		return fmt.Errorf("chain %v has not %d hex digits", from, hex.EncodedLen(len(c)))
	}
	if _, err := hex.Decode(c[:], []byte(digits)); err != nil {
		return fmt.Errorf("chain %q: %w", digits, err)
	}
	return nil
}

// FirstLink is before the first event of a shard.
var FirstLink = Link{}

// linkBytes has room for what most links hash.
const linkBytes = 512

// text begins what the next link hashes: the chain before, the command's id, and its fingerprint, which stands for the account and all else that
// the command says. What follows is the outcome record.
func (l Link) text(room []byte, commandID string, fingerprint []byte) []byte {
	room = hex.AppendEncode(room, l.Chain[:])
	room = append(append(room, commandID...), '\n')
	return append(room, fingerprint...)
}

// next is the link of one more event, of which text is hashed.
func (l Link) next(text []byte) Link {
	return Link{Position: l.Position + 1, Chain: sha1.Sum(text)} //nolint:gosec // see above
}

func (l Link) String() string { return fmt.Sprintf("%d:%.12s", l.Position, l.Chain) }

// ErrChainBroken says that an event does not follow from the link before it: a gap, a fork or a changed record.
var ErrChainBroken = errors.New("chain broken")

// LinkAfter checks that the event follows the link, and returns the link after it. Encode and decode meet here: what Redis decided is
// hashed again from the fields of the event.
func LinkAfter(before Link, e *ledgerv1.Event) (Link, error) {
	var room [linkBytes]byte
	return before.checked(e, appendOutcome(before.text(room[:0], e.GetOutcome().GetCommandId(), e.GetFingerprint()), e.GetOutcome()))
}

// linkAfter is LinkAfter with the event's outcome record, so that nobody makes it twice.
func linkAfter(before Link, e *ledgerv1.Event, record []byte) (Link, error) {
	var room [linkBytes]byte
	return before.checked(e, append(before.text(room[:0], e.GetOutcome().GetCommandId(), e.GetFingerprint()), record...))
}

// checked is the link after the event, of which text is hashed, if the event follows the link.
func (l Link) checked(e *ledgerv1.Event, text []byte) (Link, error) {
	o := e.GetOutcome()
	if o.GetPosition() != l.Position+1 {
		return Link{}, fmt.Errorf("%w: position %d follows %d", ErrChainBroken, o.GetPosition(), l.Position)
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
	if err := recordable(o); err != nil {
		return Link{}, fmt.Errorf("%w: position %d: %w", ErrChainBroken, o.GetPosition(), err)
	}
	after := l.next(text)
	if !bytes.Equal(e.GetChain(), after.Chain[:]) {
		return Link{}, fmt.Errorf("%w: position %d of shard %d carries %x, its content gives %s", ErrChainBroken, o.GetPosition(), o.GetShard(), e.GetChain(), after.Chain)
	}
	return after, nil
}

// recordable tells what an outcome record cannot say of an outcome, so that no hash would show it.
func recordable(o *ledgerv1.Outcome) error {
	if ms := o.GetDecidedAt().AsTime().UnixMilli(); ms < 0 || ms > timeMax {
		return fmt.Errorf("decided at %d ms, not from 0 to %d", ms, int64(timeMax))
	}
	rejected := o.GetStatus() == ledgerv1.Status_STATUS_REJECTED
	if rejected && o.GetDelta() != "0" || !rejected && isReason(o.GetDelta()) {
		return fmt.Errorf("%s by %q", o.GetStatus(), o.GetDelta())
	}
	return nil
}

// LinkOf is the link that an event of the log carries.
func LinkOf(e *ledgerv1.Event) Link {
	link := Link{Position: e.GetOutcome().GetPosition(), Chain: noChain}
	if len(e.GetChain()) == sha1.Size {
		link.Chain = Chain(e.GetChain())
	}
	return link
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
		chain       Chain
	}{fingerprint: c.Fingerprint}
	event := &made.event
	l = l.next(append(l.text(room[:0], c.GetCommandId(), made.fingerprint[:]), d.Record...))
	made.chain = l.Chain
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
		l = l.next(appendOutcome(l.text(nil, o.GetCommandId(), e.GetFingerprint()), o))
		e.Chain = bytes.Clone(l.Chain[:])
	}
	return l, nil
}
