package auditor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Ledger is what is audited: quiet, everything decided and projected.
type Ledger struct {
	Kafka      kafka.Config
	Redis      goredis.UniversalClient
	ClickHouse driver.Conn
	// Database of the events, and FinanceDatabase of the views, in ClickHouse.
	Database, FinanceDatabase string
	// Window is for how long Redis remembers outcomes at least; 0 = for ever.
	Window time.Duration
}

// Verdict is what an audit found. Problems is empty when the books agree.
type Verdict struct {
	Commands, Events, Accounts  int
	Transfers, Returned         int // that left their account; of these, refused at the far end
	Holds, Reversals, Forgotten int // applied; outcomes that Redis does not remember any more
	Problems                    []string

	stranded map[string]*big.Int // by unit: what came back to an account that could not take it
}

// problemsMax keeps a broken ledger readable.
const problemsMax = 20

func (v *Verdict) complain(format string, args ...any) {
	if len(v.Problems) < problemsMax {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// Err is nil when the books agree.
func (v *Verdict) Err() error {
	var problems []error
	for _, p := range v.Problems {
		problems = append(problems, errors.New(p))
	}
	return errors.Join(problems...)
}

// Audit checks that money is conserved; that no floor is broken at any prefix of the log; that every command id has exactly one outcome, the
// expected one, that Redis remembers it and nobody was told another; that every transfer arrived or came back, and its caller heard which; that
// positions and sequences have no gap; that every account and every hold is the same in the books, in Redis and in ClickHouse, at the same sequence,
// and every event one row; and that the outbox is empty.
func (l Ledger) Audit(ctx context.Context) (*Verdict, error) {
	v := &Verdict{stranded: map[string]*big.Int{}}
	commands, err := l.Records(ctx, topics.Commands)
	if err != nil {
		return nil, err
	}
	events, err := l.Records(ctx, topics.Events)
	if err != nil {
		return nil, err
	}
	var books []*Books
	for shard := range l.Kafka.Shards {
		log := v.readLog(shard, events[int32(shard)])
		b := NewBooks(log, l.Window)
		v.Commands += len(commands[int32(shard)])
		for _, r := range commands[int32(shard)] {
			c := &ledgerv1.Command{}
			if err := proto.Unmarshal(r.Value, c); err != nil || len(r.Value) == 0 {
				c = nil
			}
			if c != nil && !nameless(c) && topics.ShardOf(c.GetAccount(), l.Kafka.Shards) != shard {
				continue // sent on to its own shard, where it is read again
			}
			b.Take(c)
		}
		v.Events += len(events[int32(shard)])
		books = append(books, b)
		v.checkLog(b)
		v.count(b)
	}
	v.checkDerived(books)
	v.checkTransit(books)
	if err := l.checkTold(ctx, v, books); err != nil {
		return nil, err
	}
	if err := l.checkDeadLetters(ctx, v, books); err != nil {
		return nil, err
	}
	for shard, b := range books {
		for _, check := range []func(context.Context, *Verdict, int, *Books) error{l.checkRemembered, l.checkRedis, l.checkHolds, l.checkClickHouse} {
			if err := check(ctx, v, shard, b); err != nil {
				return nil, err
			}
		}
		if err := l.checkRows(ctx, v, shard, events[int32(shard)]); err != nil {
			return nil, err
		}
	}
	return v, l.checkConserved(ctx, v)
}

func (v *Verdict) count(b *Books) {
	v.Accounts += len(b.Accounts)
	for _, e := range b.Outcomes {
		if e.Reason != "" {
			if e.Command.GetOrigin() != nil {
				v.Returned++
			}
			continue
		}
		switch e.Command.GetOperation() { //nolint:exhaustive // the others are not counted
		case ledgerv1.Operation_OPERATION_TRANSFER:
			v.Transfers++
		case ledgerv1.Operation_OPERATION_HOLD:
			v.Holds++
		case ledgerv1.Operation_OPERATION_REVERSE:
			v.Reversals++
		}
	}
}

// readLog reads the events of one shard: one outcome per id, positions without gaps.
func (v *Verdict) readLog(shard int, records []*kgo.Record) map[string]*ledgerv1.Outcome {
	log := map[string]*ledgerv1.Outcome{}
	for i, r := range records {
		e := &ledgerv1.Event{}
		if err := proto.Unmarshal(r.Value, e); err != nil {
			v.complain("shard %d: event at offset %d cannot be read: %v", shard, r.Offset, err)
			continue
		}
		o := e.GetOutcome()
		if o.GetPosition() != uint64(i+1) {
			v.complain("shard %d: event %d has position %d", shard, i+1, o.GetPosition())
		}
		if log[o.GetCommandId()] != nil {
			v.complain("command %s has two outcomes", o.GetCommandId())
		}
		log[o.GetCommandId()] = o
	}
	return log
}

// checkLog holds the events of one shard against the books: the expected outcomes and no others, sequences without gaps, floors.
func (v *Verdict) checkLog(b *Books) {
	sequences := map[string]uint64{}
	for _, o := range slices.SortedFunc(maps.Values(b.log), func(x, y *ledgerv1.Outcome) int { return cmp.Compare(x.GetPosition(), y.GetPosition()) }) {
		id := o.GetCommandId()
		e := b.Outcomes[id]
		if e == nil {
			v.complain("command %s has an outcome, and was never sent", id)
			continue
		}
		if got := wholeOf(o); got != e.whole() || o.GetAccount() != e.Command.GetAccount() {
			v.complain("command %s (%s) became %s, expected %s", id, e.Command.GetOperation(), got, e.whole())
		}
		if o.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
			continue
		}
		sequences[o.GetAccount()]++
		if o.GetAfter().GetSequence() != sequences[o.GetAccount()] {
			v.complain("account %s: sequence %d follows %d", o.GetAccount(), o.GetAfter().GetSequence(), sequences[o.GetAccount()]-1)
		}
		v.checkFloor(e, o.GetAfter())
	}
	for id := range b.Outcomes {
		if b.log[id] == nil {
			v.complain("command %s has no outcome", id)
		}
	}
}

// checkFloor wants what took money, or set it aside, to have left what is held and the floor, unless it was told not to mind.
func (v *Verdict) checkFloor(e *Expectation, after *ledgerv1.AccountState) {
	left := new(big.Int)
	for i, text := range []string{after.GetBalance(), after.GetHeld(), after.GetFloor()} {
		n, _ := number(text, "")
		if n == nil {
			return // complained about already
		}
		if i == 0 {
			left.Set(n)
		} else {
			left.Sub(left, n)
		}
	}
	if left.String() != after.GetAvailable() {
		v.complain("account %s: %q is available, expected %s", e.Command.GetAccount(), after.GetAvailable(), left)
	}
	switch e.Command.GetOperation() { //nolint:exhaustive // the others may find an account below its floor
	case ledgerv1.Operation_OPERATION_DEBIT, ledgerv1.Operation_OPERATION_TRANSFER, ledgerv1.Operation_OPERATION_HOLD, ledgerv1.Operation_OPERATION_SET_LIMITS:
		if left.Sign() < 0 {
			v.complain("account %s: command %s left %s", e.Command.GetAccount(), e.Command.GetCommandId(), recordOf(after))
		}
	}
}

// wholeOf is everything that an outcome says, as an expectation says it.
func wholeOf(o *ledgerv1.Outcome) string {
	hold, undone := "", ""
	if h := o.GetHold(); h != nil {
		hold = h.GetHoldId() + " " + h.GetRemaining()
	}
	if r := o.GetReversal(); r != nil {
		undone = r.GetCommandId() + " " + r.GetTotal()
	}
	var legs []leg
	for _, l := range o.GetLegs() {
		legs = append(legs, leg{l.GetCounterAccount(), l.GetAmount()})
	}
	return strings.Join([]string{codeOf(o.GetReason()), o.GetDelta(), recordOf(o.GetAfter()), hold, undone, o.GetTransferAccount(), fmt.Sprint(legs)}, " | ")
}

func codeOf(r ledgerv1.Reason) string {
	if r == ledgerv1.Reason_REASON_UNSPECIFIED {
		return ""
	}
	return strings.TrimPrefix(r.String(), "REASON_")
}

// recordOf is an account as an outcome shows it, as the books write it.
func recordOf(s *ledgerv1.AccountState) string {
	if s == nil {
		return "-"
	}
	limits := s.GetFloor()
	if s.GetCeiling() != "" {
		limits += ":" + s.GetCeiling()
	}
	return recordText(s.GetBalance(), s.GetHeld(), s.GetSequence(), limits, s.GetUnit(), s.GetStatus())
}
