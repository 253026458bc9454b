package lua

import (
	"context"
	"encoding/hex"
	"errors"
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
	// Before is the head that the call started from, After the one that it left; the last event carries it.
	Before, After Head
	// Events of the call; they have no chain until they are appended to the log (Link.Append).
	Events []*ledgerv1.Event
}

// Inspect reads head and outbox of a shard in one atomic call, and the outcomes that the outbox's commands had, as of the same head. ErrOutOfSync:
// Redis moved on in between; ask again.
func (s *Store) Inspect(ctx context.Context, shard int) (State, error) {
	reply, err := s.run(ctx, inspectScript, LiveKeys(shard))
	if err != nil {
		return State{}, fmt.Errorf("inspect shard %d: %w", shard, err)
	}
	state, entries, err := parseShard(reply)
	if err != nil {
		return State{}, fmt.Errorf("inspect shard %d: %w", shard, err)
	}
	for _, raw := range entries {
		entry, err := s.entry(ctx, shard, state.Head, raw)
		if broken := (*brokenEntry)(nil); errors.As(err, &broken) {
			return State{Condition: Broken, Why: broken.Error()}, nil
		}
		if err != nil {
			return State{}, fmt.Errorf("inspect shard %d: %w", shard, err)
		}
		state.Outbox = append(state.Outbox, entry)
	}
	return state, nil
}

func parseShard(reply []any) (State, []any, error) {
	var entries []any
	if len(reply) == 5 {
		entries, _ = reply[4].([]any)
		reply = reply[:4]
	}
	words, err := texts(reply)
	switch {
	case err != nil:
		return State{}, nil, err
	case len(words) == 1 && words[0] == "EMPTY":
		return State{Condition: Empty}, nil, nil
	case len(words) == 4 && words[0] == "BROKEN":
		return State{Condition: Broken, Why: words[3]}, nil, nil
	case len(words) != 4 || words[0] != "WHOLE":
		return State{}, nil, fmt.Errorf("script answered %q", words)
	}
	head, err := parseHead(words[1], words[2])
	return State{Condition: Whole, Generation: words[3], Head: head}, entries, err
}

// brokenEntry is an outbox entry that apply.lua did not write, or whose outcomes are gone: a finding, not a failure of the call.
type brokenEntry struct{ error }

// entry reads {id, {"before", "position chain", "now", ms, "known", numbers, "bodies", bodies}}, as apply.lua writes it, and the outcomes of its commands.
// That it leads to the head that its id names is computed again.
func (s *Store) entry(ctx context.Context, shard int, head Head, raw any) (Entry, error) {
	pair, ok := raw.([]any)
	if !ok || len(pair) != 2 {
		return Entry{}, &brokenEntry{fmt.Errorf("outbox entry is %T, not a pair", raw)}
	}
	id, _ := pair[0].(string)
	broken := func(err error) error { return &brokenEntry{fmt.Errorf("outbox entry %s: %w", id, err)} }
	list, _ := pair[1].([]any)
	f, err := texts(list)
	if err != nil || len(f) != 8 || f[0] != "before" || f[2] != "now" || f[4] != "known" || f[6] != "bodies" {
		return Entry{}, broken(errors.New("not one of apply.lua"))
	}
	before, errBefore := parseWords(f[1])
	now, errNow := strconv.ParseInt(f[3], 10, 64)
	if err := errors.Join(errBefore, errNow); err != nil {
		return Entry{}, broken(err)
	}
	commands, err := freshCommands(f[7], f[5])
	if err != nil {
		return Entry{}, broken(err)
	}
	after := Head{Position: before.Position + uint64(len(commands)), Chain: nextChain(before.Chain, now, []byte(f[7]))}
	if after.outboxID() != id {
		return Entry{}, broken(errors.New("it does not lead to its own head"))
	}
	records, err := s.recall(ctx, shard, head, commands)
	if err != nil {
		return Entry{}, err
	}
	events, err := eventsOf(shard, before.Position, now, commands, records)
	if err != nil {
		return Entry{}, broken(err)
	}
	events[len(events)-1].Head, err = hex.DecodeString(after.Chain)
	return Entry{ID: id, Before: before, After: after, Events: events}, err
}

// freshCommands are the commands of a call that were not known before it.
func freshCommands(bodies, known string) ([]*ledgerv1.Command, error) {
	skipped := map[int]bool{}
	for _, word := range strings.Fields(known) {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("known command %q", word)
		}
		skipped[number] = true
	}
	var fresh []*ledgerv1.Command
	rest := []byte(bodies)
	for number := 1; len(rest) > 0; number++ {
		body, n := protowire.ConsumeBytes(rest)
		if n < 0 {
			return nil, errors.New("bodies are cut short")
		}
		rest = rest[n:]
		if skipped[number] {
			continue
		}
		command := &ledgerv1.Command{}
		if err := proto.Unmarshal(body, command); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		fresh = append(fresh, command)
	}
	if len(fresh) == 0 {
		return nil, errors.New("it has no commands")
	}
	return fresh, nil
}

// recall reads the outcomes of commands as of a head; "" for one that is not remembered.
func (s *Store) recall(ctx context.Context, shard int, head Head, commands []*ledgerv1.Command) ([]string, error) {
	args := []any{head.Position, head.Chain}
	for _, c := range commands {
		args = append(args, OutcomeField(c.GetCommandId()))
	}
	reply, err := s.run(ctx, recallScript, []string{OutcomesKey(shard), OldOutcomesKey(shard), HeadKey(shard)}, args...)
	if err != nil {
		return nil, err
	}
	if outcomes, ok := reply[len(reply)-1].([]any); ok && len(outcomes) == len(commands) {
		return texts(outcomes)
	}
	_, _, err = answer(reply)
	return nil, errors.Join(errors.New("recall outcomes"), err)
}

// eventsOf puts commands together with their outcomes, which were decided now (ms), after a position. The chains are left to the caller.
func eventsOf(shard int, position uint64, now int64, commands []*ledgerv1.Command, records []string) ([]*ledgerv1.Event, error) {
	events := make([]*ledgerv1.Event, len(commands))
	for i, command := range commands {
		fingerprint := FingerprintOf(command)
		record, ours := strings.CutPrefix(records[i], string(fingerprint[:]))
		if !ours {
			return nil, fmt.Errorf("the outcome of command %q is not remembered", command.GetCommandId())
		}
		outcome, err := new(room).parseOutcome(shard, command.GetCommandId(), command.GetAccount(), record)
		if err != nil {
			return nil, err
		}
		if position++; outcome.GetPosition() != position || outcome.GetDecidedAt().AsTime().UnixMilli() != now {
			return nil, fmt.Errorf("the outcome of command %q is at position %d, not one of this call at %d", command.GetCommandId(), outcome.GetPosition(), position)
		}
		events[i] = &ledgerv1.Event{Outcome: outcome, Fingerprint: fingerprint[:], Command: command}
	}
	return events, nil
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
