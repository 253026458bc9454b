package lua

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
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

// Prepared is a call made ready: all that it sends is there, except what follows from Expected and Now, which may be set until it is sent. Making it ready
// takes time that Redis need not wait for.
type Prepared struct {
	Call
	bodies []byte
	args   []any // with room at the front for what follows from Expected and Now
}

// Prepare makes a call ready. An error is a fault of the caller: nothing of the call can be sent.
func (s *Store) Prepare(call Call) (*Prepared, error) {
	if err := call.check(); err != nil {
		return nil, err
	}
	p := &Prepared{Call: call, bodies: call.bodies()}
	p.args = p.prepare(s.window)
	return p, nil
}

// Answer is what became of a call that was sent: a Result whose decisions are not read yet.
type Answer struct {
	Head  Head
	Entry string // as in Result
	Err   error  // likewise; then the rest is zero

	call    *Prepared
	known   []any
	records []any
}

// Decide sends a call.
func (s *Store) Decide(ctx context.Context, call *Prepared) Answer {
	reply, err := s.run(ctx, applyScript, LiveKeys(call.Shard), call.send()...)
	if err == nil {
		var answer Answer
		if answer, err = call.answer(reply); err == nil {
			return answer
		}
	}
	return Answer{Err: fmt.Errorf("apply to shard %d: %w", call.Shard, err)}
}

// Apply prepares a call, sends it and reads its decisions.
func (s *Store) Apply(ctx context.Context, call Call) Result {
	ready, err := s.Prepare(call)
	if err != nil {
		return Result{Err: err}
	}
	return s.Decide(ctx, ready).Result()
}

// Result reads the decisions.
func (a Answer) Result() Result {
	r := Result{Head: a.Head, Entry: a.Entry, Err: a.Err}
	if a.Err == nil {
		if r.Decisions, r.Err = a.call.decisions(a.Head, a.known, a.records); r.Err != nil {
			return Result{Err: fmt.Errorf("apply to shard %d: %w", a.call.Shard, r.Err)}
		}
	}
	return r
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

// prepare makes the arguments, the first four of which are left to send. Accounts and asks are there once each; a command names them by number.
func (p *Prepared) prepare(window time.Duration) []any {
	c := p.Call
	n := len(c.Commands)
	ids, rows := make([]byte, 0, idHashBytes*n), make([]byte, 0, rowBytes*n)
	var reversed []byte
	accounts, asks := numbered{numbers: map[string]int{}}, numbered{numbers: map[string]int{}}
	times := make([]int, n+1) // that an account comes, by number
	var ask []byte
	var amount uint64
	var units units
	for i := range c.Commands {
		command := &c.Commands[i]
		ids = appendHash(ids, command.GetCommandId())
		ask, amount = command.appendAsk(ask[:0], &units)
		account := numberOf(&accounts, command.GetAccount())
		times[account]++
		rows = binary.BigEndian.AppendUint16(rows, account)
		known := len(asks.texts)
		rows = binary.BigEndian.AppendUint16(rows, numberOf(&asks, ask))
		if id := command.reverses(); id != "" && len(asks.texts) > known {
			reversed = appendHash(appendHash(reversed, id), limits.CreditID(id))
		}
		rows = binary.BigEndian.AppendUint64(rows, amount/1e4<<16|amount%1e4)
		rows = append(rows, command.Fingerprint[:]...)
	}
	for row := range slices.Chunk(rows, rowBytes) {
		if account := binary.BigEndian.Uint16(row); times[account] == 1 {
			binary.BigEndian.PutUint16(row, account|alone)
		}
	}
	args := make([]any, 4, fixedArgs+len(accounts.texts)+len(asks.texts))
	args = append(args, window.Milliseconds(), c.asked(), c.LookedUp.words(), p.bodies, rows, append(ids, reversed...), len(accounts.texts))
	args = append(args, accounts.texts...)
	return append(args, asks.texts...)
}

const (
	alone     = 1 << 15                        // added to the number of an account that has one command in the call
	fixedArgs = 11                             // before the accounts
	rowBytes  = 2 + 2 + 8 + len(Fingerprint{}) // per command
)

// numbered are texts by number, from 1, in the order in which they first come; at most CommandsMax.
type numbered struct {
	texts   []any
	numbers map[string]int
	last    string // the text that came last, which often comes again, and its number
	at      int
}

func numberOf[T string | []byte](t *numbered, text T) uint16 {
	if t.at == 0 || t.last != string(text) {
		at, known := t.numbers[string(text)]
		if !known {
			t.last = string(text)
			t.texts = append(t.texts, t.last)
			at = len(t.texts)
			t.numbers[t.last] = at
		} else {
			t.last, _ = t.texts[at-1].(string)
		}
		t.at = at
	}
	return uint16(t.at)
}

// appendAsk writes what include/checks.lua understands: the same text for commands that ask for the same. The amount of debits and credits is not in it.
func (c *Command) appendAsk(b []byte, units *units) (ask []byte, amount uint64) {
	verb, terms, unit := c.verb(units)
	if verb == debit || verb == credit {
		amount = moved(c.GetAmount())
	}
	b = append(append(b, verb...), '\n')
	b = append(append(b, unit...), '\n')
	if c.GetDeadline() != nil {
		b = strconv.AppendInt(b, c.GetDeadline().AsTime().UnixMilli(), 10)
	} else {
		b = append(b, never...)
	}
	b = append(b, '\n')
	if c.ExpectedSequence != nil {
		b = strconv.AppendUint(b, c.GetExpectedSequence(), 10)
	} else {
		b = append(b, '-')
	}
	return append(append(b, '\n'), terms...), amount
}

// send completes the arguments.
func (p *Prepared) send() []any {
	now := p.Now.UnixMilli()
	p.args[0], p.args[1], p.args[2], p.args[3] = p.Expected.Position, p.Expected.Chain, nextChain(p.Expected.Chain, now, p.bodies), now
	return p.args
}

func (p *Prepared) answer(reply []any) (Answer, error) {
	a := Answer{call: p}
	if len(reply) == 5 {
		known, isKnown := reply[3].([]any)
		records, isRecords := reply[4].([]any)
		if isKnown && isRecords {
			reply, a.known, a.records = reply[:3], known, records
		}
	}
	head, rest, err := answer(reply)
	if err != nil {
		return Answer{}, err
	}
	if len(rest) != 0 {
		return Answer{}, fmt.Errorf("script answered %q after the head, not two lists", rest)
	}
	a.Head = head
	if head != p.Expected {
		a.Entry = head.outboxID()
	}
	return a, nil
}

// decisions puts the records of new outcomes and the known ones back into the order of the commands; the new ones lead from the expected head's
// position to that of the one that Redis answered.
func (c Call) decisions(head Head, known, records []any) ([]Decision, error) {
	decisions, rooms := make([]Decision, len(c.Commands)), make([]room, len(c.Commands))
	knows, err := texts(known)
	if err != nil {
		return nil, err
	}
	for _, said := range knows {
		if err := c.takeKnown(decisions, rooms, said); err != nil {
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
		outcome, err := rooms[i].parseOutcome(c.Shard, command.GetCommandId(), command.GetAccount(), record)
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
func (c Call) takeKnown(decisions []Decision, rooms []room, said string) error {
	words := strings.SplitN(said, " ", 3)
	number, err := strconv.Atoi(words[0])
	if err != nil || len(words) != 3 || number < 1 || number > len(decisions) {
		return fmt.Errorf("known command %q of %d", said, len(decisions))
	}
	d := &decisions[number-1]
	switch words[1] {
	case "remembered":
		d.Kind = Remembered
	case "reused":
		d.Kind = Reused
	default:
		return fmt.Errorf("known command %q", said)
	}
	command := &c.Commands[number-1]
	d.Outcome, err = rooms[number-1].parseOutcome(c.Shard, command.GetCommandId(), command.GetAccount(), words[2])
	return err
}
