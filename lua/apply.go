package lua

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"

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
}

// Kind says how an outcome came about.
type Kind int

const (
	// Decided now: an event belongs into the log.
	Decided Kind = iota + 1
	// Remembered: the id is known with the same payload; this is the outcome it had.
	Remembered
	// Reused: the id is known with another payload; this is the outcome of the first one, untouched. Records do not carry the account:
	// Outcome.Account is the one of the command asked about, and After may belong to another.
	Reused
)

// Decision is what became of one command of a call.
type Decision struct {
	Kind    Kind
	Outcome *ledgerv1.Outcome
	// Head after this event; zero unless Decided.
	Head Head
}

// Call is one call of apply.lua: commands of one shard in their order, at most CommandsMax.
type Call struct {
	Shard    int
	Expected Head
	Now      time.Time
	Commands []Command
}

// Result answers one Call. Err is ErrOutOfSync or ErrCorrupt (nothing written), or what the client reported, in which case the outcome
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
			sent, keys, args = append(sent, i), append(keys, liveKeys(call.Shard)), append(args, call.args())
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

func (c Call) args() []any {
	args := make([]any, 0, 3+8*len(c.Commands))
	args = append(args, c.Expected.Position, c.Expected.Chain, c.Now.UnixMilli())
	for _, command := range c.Commands {
		operation, terms, unit := command.terms()
		args = append(args, command.GetCommandId(), command.GetAccount(), operation, terms, unit,
			command.Fingerprint[:], command.conditions(), command.Body)
	}
	return args
}

// terms are the words of include/<operation>.lua.
func (c Command) terms() (operation, terms, unit string) {
	if c.Refusal != ledgerv1.Reason_REASON_UNSPECIFIED {
		return "refuse", reasonWord(c.Refusal), ""
	}
	if u, err := money.ParseUnit(c.GetCurrency()); err == nil {
		unit = u.String()
	}
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_OPEN:
		if terms = c.GetOpen().GetFloor(); terms == "" {
			terms = "0"
		}
		return "open", terms, unit
	case ledgerv1.Operation_OPERATION_DEBIT:
		return "debit", c.GetAmount(), unit
	case ledgerv1.Operation_OPERATION_CREDIT:
		return "credit", c.GetAmount(), unit
	case ledgerv1.Operation_OPERATION_REPAIR:
		r := c.GetRepair()
		if r.GetLog().GetSequence() > sequenceMax {
			return "refuse", reasonWord(ledgerv1.Reason_REASON_INVALID_REPAIR), ""
		}
		return "repair", snapshotRecord(r.GetLog()) + "|" + snapshotRecord(r.GetSeen()) + "|" + r.GetGeneration(), r.GetLog().GetUnit()
	case ledgerv1.Operation_OPERATION_UNSPECIFIED:
	}
	return "refuse", reasonWord(ledgerv1.Reason_REASON_INVALID_OPERATION), ""
}

func snapshotRecord(s *ledgerv1.AccountSnapshot) string {
	if s == nil {
		return noAccount
	}
	return stateRecord(&ledgerv1.AccountState{Balance: s.GetBalance(), Held: s.GetHeld(), Sequence: s.GetSequence(), Floor: s.GetFloor(), Unit: s.GetUnit(), Status: "active"})
}

func (c Command) conditions() string {
	deadline, sequence := "-", "-"
	if c.GetDeadline() != nil {
		deadline = strconv.FormatInt(c.GetDeadline().AsTime().UnixMilli(), 10)
	}
	if c.ExpectedSequence != nil {
		sequence = strconv.FormatUint(c.GetExpectedSequence(), 10)
	}
	return deadline + " " + sequence
}

func (c Call) result(reply []any) Result {
	head, answers, err := answer(reply)
	if err != nil {
		return Result{Err: fmt.Errorf("apply to shard %d: %w", c.Shard, err)}
	}
	if len(answers) != len(c.Commands) {
		return Result{Err: fmt.Errorf("apply to shard %d: %d answers for %d commands", c.Shard, len(answers), len(c.Commands))}
	}
	r := Result{Head: head, Decisions: make([]Decision, len(answers))}
	if head != c.Expected {
		r.Entry = head.outboxID()
	}
	before := c.Expected
	for i, text := range answers {
		d, err := c.decision(c.Commands[i], text, before)
		if err != nil {
			return Result{Err: fmt.Errorf("apply to shard %d: %w", c.Shard, err)}
		}
		if d.Kind == Decided {
			before = d.Head
		}
		r.Decisions[i] = d
	}
	if before != head {
		return Result{Err: fmt.Errorf("apply to shard %d: answers end at %s, the head is %s", c.Shard, before, head)}
	}
	return r
}

func (c Call) decision(command Command, text string, before Head) (Decision, error) {
	word, record, _ := strings.Cut(text, " ")
	var d Decision
	switch word {
	case "new":
		d.Kind = Decided
		d.Head = before.Next(command.GetCommandId(), command.GetAccount(), command.Fingerprint, record)
	case "remembered":
		d.Kind = Remembered
	case "reused":
		d.Kind = Reused
	default:
		return d, fmt.Errorf("answer %q to command %q", text, command.GetCommandId())
	}
	var err error
	d.Outcome, err = parseOutcome(c.Shard, command.GetCommandId(), command.GetAccount(), record)
	return d, err
}
