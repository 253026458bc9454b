package lua

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// CommandsMax is how many commands one call of apply.lua takes: Lua unpacks at most about 8,000 values, and a longer script keeps
// the other clients of this Redis waiting.
const CommandsMax = 900

// sequenceMax is the last sequence that a Lua number holds with room to count on; no account gets there by counting.
const sequenceMax = 999_999_999_999_999

// Command is a command on its way into apply.lua.
type Command struct {
	*ledgerv1.Command
	// Fingerprint of its payload.
	Fingerprint Fingerprint
	// Refusal makes the script record this rejection instead of deciding: the command was found invalid. Unspecified = decide.
	Refusal ledgerv1.Reason
	// Body is the command as it was received; the outbox keeps it.
	Body []byte
	// AskedAt is when it was first asked for, as far as anybody knows: a retry or a redelivery does not make it younger.
	AskedAt time.Time
}

// Kind says how an outcome came about.
type Kind int

const (
	// Decided is a decision of this call: an event belongs into the log.
	Decided Kind = iota + 1
	// Remembered is an id that is known with the same payload: this is the outcome it had.
	Remembered
	// Reused is an id that is known with another payload: this is the outcome of the first one, untouched. Records do not carry the account:
	// Outcome.Account is the one of the command asked about, and After may belong to another.
	Reused
)

// Decision is what became of one command of a call.
type Decision struct {
	Kind    Kind
	Outcome *ledgerv1.Outcome
	// Record is the outcome as the script wrote it; empty unless Decided.
	Record string
	// Head is where the call left Redis: on its last new outcome alone.
	Head Head
}

// Call is one call of apply.lua: commands of one shard in their order, at most CommandsMax.
type Call struct {
	Shard    int
	Expected Head
	Now      time.Time
	// LookedUp is the head through which ClickHouse was complete when the commands that may be older than what Redis remembers (TooOldError)
	// were looked up there, and not found. Zero: none was.
	LookedUp Head
	Commands []Command
}

// Result answers one Call. Err is ErrOutOfSync, ErrCorrupt or a TooOldError (nothing written), or what the client reported, in which case the outcome
// is unknown: send the very same call again, or recover.
type Result struct {
	Head      Head
	Decisions []Decision
	// Entry names what the call left in the outbox, for Trim; empty when nothing new was decided.
	Entry string
	Err   error
}

// Apply runs calls for different shards in one round trip per Redis node. Results are in the order of the calls.
func (s *Store) Apply(ctx context.Context, calls ...Call) []Result {
	results := make([]Result, len(calls))
	var sent []int // places of the calls that are fit to be sent
	var keys [][]string
	var args [][]any
	for i, call := range calls {
		if results[i].Err = call.check(); results[i].Err == nil {
			sent, keys, args = append(sent, i), append(keys, LiveKeys(call.Shard)), append(args, call.args(s.window))
		}
	}
	for at, cmd := range s.runEach(ctx, applyScript, keys, args) {
		i := sent[at]
		reply, err := cmd.Slice()
		if err != nil {
			results[i].Err = fmt.Errorf("apply to shard %d: %w", calls[i].Shard, err)
			continue
		}
		results[i] = calls[i].result(reply)
	}
	return results
}

// CheckClock tells whether the clock of the caller is behind the times of its commands by more than clocks may be apart. Nothing must be decided
// then: an outcome with too early a time could be forgotten sooner than its command counts as old.
func (c Call) CheckClock() error {
	for _, command := range c.Commands {
		if ahead := command.AskedAt.Sub(c.Now); ahead > skew {
			return fmt.Errorf("command %q was asked for %s from now: this clock is behind; set it right", command.GetCommandId(), ahead)
		}
	}
	return nil
}

// check holds what the script would refuse as a whole against the call, before anything is sent.
func (c Call) check() error {
	if len(c.Commands) > CommandsMax {
		return fmt.Errorf("apply to shard %d: %d commands in one call, at most %d", c.Shard, len(c.Commands), CommandsMax)
	}
	if c.Now.UnixMilli() < 0 {
		return fmt.Errorf("apply to shard %d: the clock says %s, before 1970", c.Shard, c.Now)
	}
	for _, command := range c.Commands {
		if command.GetCommandId() == "" || command.GetAccount() == "" {
			return fmt.Errorf("apply to shard %d: command %q for account %q: an id is empty", c.Shard, command.GetCommandId(), command.GetAccount())
		}
	}
	return nil
}

// asked is when the first of the commands was first asked for, ms; one without a time was asked for now.
func (c Call) asked() int64 {
	first := c.Now.UnixMilli()
	for _, command := range c.Commands {
		if !command.AskedAt.IsZero() {
			first = min(first, max(0, command.AskedAt.UnixMilli()))
		}
	}
	return first
}

// bodies are the commands as they were received, each with its length before it.
func (c Call) bodies() []byte {
	size := 0
	for _, command := range c.Commands {
		size += len(command.Body) + binary.MaxVarintLen32
	}
	bodies := make([]byte, 0, size)
	for _, command := range c.Commands {
		bodies = protowire.AppendBytes(bodies, command.Body)
	}
	return bodies
}

func (c Call) args(window time.Duration) []any {
	bodies := c.bodies()
	args := make([]any, 0, 8+4*len(c.Commands))
	args = append(args, c.Expected.Position, c.Expected.Chain, nextChain(c.Expected.Chain, c.Now.UnixMilli(), bodies), c.Now.UnixMilli(), window.Milliseconds(), c.asked(), c.LookedUp.words(), bodies)
	asks := make([]string, len(c.Commands))
	for i := range c.Commands {
		command := &c.Commands[i]
		asks[i] = command.ask()
		args = append(args, &command.CommandId, &command.Account, command.Fingerprint[:], &asks[i]) // a pointer fits into any, a text would be copied
	}
	return args
}

// ask is what include/checks.lua understands: the same text for commands that ask for the same.
func (c Command) ask() string {
	verb, terms, unit := c.verb()
	deadline, sequence := never, "-"
	if c.GetDeadline() != nil {
		deadline = millis(c.GetDeadline())
	}
	if c.ExpectedSequence != nil {
		sequence = strconv.FormatUint(c.GetExpectedSequence(), 10)
	}
	return strings.Join([]string{verb, unit, deadline, sequence, terms}, "\n")
}

func (c Call) result(reply []any) Result {
	r, err := c.parse(reply)
	if err != nil {
		return Result{Err: fmt.Errorf("apply to shard %d: %w", c.Shard, err)}
	}
	if r.Head != c.Expected {
		r.Entry = r.Head.outboxID()
	}
	return r
}

func (c Call) parse(reply []any) (Result, error) {
	var records []any
	if len(reply) == 5 {
		if list, ok := reply[4].([]any); ok {
			reply, records = reply[:4], list
		}
	}
	head, answers, err := answer(reply)
	if err != nil {
		return Result{}, err
	}
	if len(answers) != 1 {
		return Result{}, fmt.Errorf("script answered %d words after the head, not 1", len(answers))
	}
	decisions, err := c.decisions(head, answers[0], records)
	return Result{Head: head, Decisions: decisions}, err
}

// decisions puts the records of new outcomes and the known ones back into the order of the commands; the new ones lead from the expected head's
// position to that of the one that Redis answered.
func (c Call) decisions(head Head, known string, records []any) ([]Decision, error) {
	decisions := make([]Decision, len(c.Commands))
	for line := range lines(known) {
		if err := c.takeKnown(decisions, line); err != nil {
			return nil, err
		}
	}
	position, last := c.Expected.Position, -1
	for i := range decisions {
		if decisions[i].Kind != 0 {
			continue
		}
		command := &c.Commands[i]
		if len(records) == 0 {
			return nil, fmt.Errorf("no record for command %q", command.GetCommandId())
		}
		text, _ := records[0].(string)
		record, ours := strings.CutPrefix(text, string(command.Fingerprint[:]))
		if !ours {
			return nil, fmt.Errorf("record %q is not one of command %q", text, command.GetCommandId())
		}
		records = records[1:]
		outcome, err := parseOutcome(c.Shard, command.GetCommandId(), command.GetAccount(), record)
		if err != nil {
			return nil, err
		}
		if position++; outcome.GetPosition() != position {
			return nil, fmt.Errorf("record of command %q says position %d, not %d", command.GetCommandId(), outcome.GetPosition(), position)
		}
		decisions[i], last = Decision{Kind: Decided, Outcome: outcome, Record: record}, i
	}
	if position != head.Position || len(records) > 0 {
		return nil, fmt.Errorf("records end at position %d, the head is %s, %d are left", position, head, len(records))
	}
	if last >= 0 {
		decisions[last].Head = head
	}
	return decisions, nil
}

// takeKnown reads "<number> <remembered or reused> <record>".
func (c Call) takeKnown(decisions []Decision, line string) error {
	words := strings.SplitN(line, " ", 3)
	number, err := strconv.Atoi(words[0])
	if err != nil || len(words) != 3 || number < 1 || number > len(decisions) {
		return fmt.Errorf("known command %q of %d", line, len(decisions))
	}
	d := &decisions[number-1]
	switch words[1] {
	case "remembered":
		d.Kind = Remembered
	case "reused":
		d.Kind = Reused
	default:
		return fmt.Errorf("known command %q", line)
	}
	command := &c.Commands[number-1]
	d.Outcome, err = parseOutcome(c.Shard, command.GetCommandId(), command.GetAccount(), words[2])
	return err
}

// lines are the lines of a text; none for an empty one.
func lines(text string) iter.Seq[string] {
	if text == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(text, "\n")
}
