package lua

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Condition is what Inspect found of a shard's keys.
type Condition int

const (
	// Empty is a shard without any key.
	Empty Condition = iota + 1
	// Broken is a shard whose keys do not belong together.
	Broken
	// Whole is a shard whose keys all carry the head.
	Whole
)

// State is a shard in Redis, read in one moment.
type State struct {
	Condition  Condition
	Head       Head   // zero unless Whole
	Generation string // names the recovery that wrote these keys
	Why        string // what is broken
	Outbox     []Entry
}

// Entry is what one call of apply.lua left in the outbox.
type Entry struct {
	ID string
	// Before is the head that the call started from; each event is linked to it through the ones before.
	Before Head
	Events []*ledgerv1.Event
}

// After is the head at the end of the entry.
func (e Entry) After() Head { return HeadOf(e.Events[len(e.Events)-1]) }

// EventOf makes the event of a new decision.
func EventOf(c Command, d Decision) (*ledgerv1.Event, error) {
	chain, err := hex.DecodeString(d.Head.Chain)
	if err != nil {
		return nil, fmt.Errorf("chain of command %q: %w", c.GetCommandId(), err)
	}
	return &ledgerv1.Event{Outcome: d.Outcome, Chain: chain, Fingerprint: c.Fingerprint[:], Command: c.Command}, nil
}

// Inspect reads head and outbox of a shard in one atomic call.
func (s *Store) Inspect(ctx context.Context, shard int) (State, error) {
	reply, err := s.run(ctx, inspectScript, LiveKeys(shard))
	if err != nil {
		return State{}, fmt.Errorf("inspect shard %d: %w", shard, err)
	}
	state, err := parseShard(shard, reply)
	if err != nil {
		return State{}, fmt.Errorf("inspect shard %d: %w", shard, err)
	}
	return state, nil
}

func parseShard(shard int, reply []any) (State, error) {
	var entries []any
	if len(reply) == 5 {
		entries, _ = reply[4].([]any)
		reply = reply[:4]
	}
	words, err := texts(reply)
	switch {
	case err != nil:
		return State{}, err
	case len(words) == 1 && words[0] == "EMPTY":
		return State{Condition: Empty}, nil
	case len(words) == 4 && words[0] == "BROKEN":
		return State{Condition: Broken, Why: words[3]}, nil
	case len(words) != 4 || words[0] != "WHOLE":
		return State{}, fmt.Errorf("script answered %q", words)
	}
	state := State{Condition: Whole, Generation: words[3]}
	if state.Head, err = parseHead(words[1], words[2]); err != nil {
		return State{}, err
	}
	for _, raw := range entries {
		entry, err := parseEntry(shard, raw)
		if err != nil {
			return State{Condition: Broken, Why: err.Error()}, nil //nolint:nilerr // a finding, not a failure of the call
		}
		state.Outbox = append(state.Outbox, entry)
	}
	return state, nil
}

// parseEntry reads {id, {"prev", chain, "records", lines, "known", numbers, "bodies", bodies}}, as apply.lua writes it, and recomputes every link.
func parseEntry(shard int, raw any) (Entry, error) {
	pair, ok := raw.([]any)
	if !ok || len(pair) != 2 {
		return Entry{}, fmt.Errorf("outbox entry is %T, not a pair", raw)
	}
	id, _ := pair[0].(string)
	list, _ := pair[1].([]any)
	f, err := texts(list)
	if err != nil || len(f) != 8 || f[0] != "prev" || f[2] != "records" || f[4] != "known" || f[6] != "bodies" {
		return Entry{}, fmt.Errorf("outbox entry %s is not one of apply.lua", id)
	}
	entry := Entry{ID: id, Before: Head{Chain: f[1]}}
	bodies, err := newBodies(f[7], f[5])
	if err != nil {
		return Entry{}, fmt.Errorf("outbox entry %s: %w", id, err)
	}
	head := Head{}
	for fingerprint, record := range recordsOf(f[3]) {
		event, err := bodies.event(shard, record)
		if err == nil && Fingerprint(event.GetFingerprint()) != fingerprint {
			err = fmt.Errorf("record %q has another fingerprint than its body", record)
		}
		if err != nil {
			return Entry{}, fmt.Errorf("outbox entry %s: %w", id, err)
		}
		if len(entry.Events) == 0 {
			entry.Before.Position = event.GetOutcome().GetPosition() - 1
			head = entry.Before
		}
		head = head.Next(event.GetOutcome().GetCommandId(), Fingerprint(event.GetFingerprint()), record)
		if event.Chain, err = hex.DecodeString(head.Chain); err != nil {
			return Entry{}, fmt.Errorf("outbox entry %s: %w", id, err)
		}
		entry.Events = append(entry.Events, event)
	}
	if head.Chain == "" || head.outboxID() != id {
		return Entry{}, fmt.Errorf("outbox entry %s does not lead to its own head", id)
	}
	return entry, nil
}

// bodies are the commands of one call, of which those that were known already have no record.
type bodies struct {
	rest   []byte
	number int // of the next body, from 1
	known  map[int]bool
}

func newBodies(text, known string) (*bodies, error) {
	b := &bodies{rest: []byte(text), number: 1, known: map[int]bool{}}
	for _, word := range strings.Fields(known) {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("known command %q", word)
		}
		b.known[number] = true
	}
	return b, nil
}

// event makes the event of a record and of the next body that is not known. Its chain is left to the caller.
func (b *bodies) event(shard int, record string) (*ledgerv1.Event, error) {
	for {
		body, n := protowire.ConsumeBytes(b.rest)
		if n < 0 {
			return nil, fmt.Errorf("bodies end before record %q", record)
		}
		number := b.number
		b.rest, b.number = b.rest[n:], b.number+1
		if b.known[number] {
			continue
		}
		command := &ledgerv1.Command{}
		if err := proto.Unmarshal(body, command); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		outcome, err := parseOutcome(shard, command.GetCommandId(), command.GetAccount(), record)
		if err != nil {
			return nil, err
		}
		fingerprint := FingerprintOf(command)
		return &ledgerv1.Event{Outcome: outcome, Fingerprint: fingerprint[:], Command: command}, nil
	}
}

// Trim deletes outbox entries by the ids that Apply or Inspect gave. An id carries position and chain, so nothing else is deleted.
// Only for what a confirmed commit contained.
func (s *Store) Trim(ctx context.Context, shard int, entries []string) error {
	if len(entries) == 0 {
		return nil
	}
	if err := s.rdb.XDel(ctx, OutboxKey(shard), entries...).Err(); err != nil {
		return fmt.Errorf("trim outbox of shard %d: %w", shard, err)
	}
	return nil
}
