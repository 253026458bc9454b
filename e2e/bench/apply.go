package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

const (
	hotAccount = "flash-sale-17"
	// hotFunds are never used up by a run.
	hotFunds = 999_999_999_999
)

func command(id string, operation ledgerv1.Operation, amount string) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: id, Operation: operation, Account: hotAccount, Amount: amount, Currency: "EUR"}
}

func debitID(i int) string { return "debit-" + strconv.Itoa(i) }

// debit number i of 1.
func debit(i int, account string) *ledgerv1.Command {
	c := command(debitID(i), ledgerv1.Operation_OPERATION_DEBIT, "1")
	c.Account = account
	return c
}

func scripted(c *ledgerv1.Command) (lua.Command, error) {
	body, err := proto.Marshal(c)
	return lua.Command{Command: c, Fingerprint: lua.FingerprintOf(c), Body: body}, err
}

// callsPerBatch is about what a writer under load takes at once.
const callsPerBatch = 8

// applier calls apply.lua on shard 0 as the writer does, depth commands to a call.
type applier struct {
	store *lua.Store
	depth int
	head  lua.Head
	done  int // debits
}

// newApplier makes shard 0, which must be empty.
func newApplier(ctx context.Context, store *lua.Store, depth int) (*applier, error) {
	build, err := store.BeginBuild(ctx, 0, "bench")
	if err != nil {
		return nil, err
	}
	return &applier{store: store, depth: depth, head: lua.Genesis}, build.Swap(ctx)
}

// batch applies commands, all of which must succeed. Making them is the callers' work and does not count.
func (a *applier) batch(ctx context.Context, commands ...*ledgerv1.Command) (took time.Duration, err error) {
	batch := make([]lua.Command, len(commands))
	for i, c := range commands {
		if batch[i], err = scripted(c); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	err = a.apply(ctx, batch)
	return time.Since(start), err
}

// callsAhead may be with Redis, wait for it, or wait to be read, as in the writer.
const callsAhead = 3

// apply makes the calls of a batch, and trims the outbox. While Redis decides one call, the answer of the last one is read and the next one made
// ready.
func (a *applier) apply(ctx context.Context, commands []lua.Command) (err error) {
	var entries []string
	ready, decided := make(chan *lua.Prepared, callsAhead), make(chan lua.Answer, callsAhead)
	go a.decide(ctx, ready, decided)
	defer func() { // what Redis was asked must not outlive this
		close(ready)
		for answer := range decided {
			err = errors.Join(err, answer.Err)
		}
	}()
	for ahead := 0; ; ahead-- {
		for len(commands) > 0 && ahead < callsAhead {
			n := min(a.depth, len(commands))
			call, err := a.store.Prepare(lua.Call{Shard: 0, Now: time.Now(), Commands: commands[:n]})
			if err != nil {
				return err
			}
			ready <- call
			commands, ahead = commands[n:], ahead+1
		}
		if ahead == 0 {
			return a.store.Trim(ctx, 0, entries)
		}
		answer := <-decided
		if err := allApplied(answer); err != nil {
			return err
		}
		entries = append(entries, answer.Entry)
	}
}

// decide sends one call after the other, each from the head that the last one returned.
func (a *applier) decide(ctx context.Context, ready <-chan *lua.Prepared, decided chan<- lua.Answer) {
	defer close(decided)
	for call := range ready {
		call.Expected = a.head
		answer := a.store.Decide(ctx, call)
		if decided <- answer; answer.Err != nil {
			return
		}
		a.head = answer.Head
	}
}

// allApplied reads an answer.
func allApplied(answer lua.Answer) error {
	result := answer.Result()
	for _, d := range result.Decisions {
		if d.Outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
			return fmt.Errorf("apply: %s was rejected: %s", d.Outcome.GetCommandId(), d.Outcome.GetReason())
		}
	}
	return result.Err
}

// debits makes calls for about the given time, of debits of 1 from the accounts that pick names.
func (a *applier) debits(ctx context.Context, lasting time.Duration, pick func() string) (perSecond float64, err error) {
	commands := make([]*ledgerv1.Command, callsPerBatch*a.depth)
	var spent time.Duration
	begun := a.done
	for spent < lasting {
		for i := range commands {
			commands[i] = debit(a.done, pick())
			a.done++
		}
		took, err := a.batch(ctx, commands...)
		if err != nil {
			return 0, err
		}
		spent += took
	}
	return float64(a.done-begun) / spent.Seconds(), nil
}

// newHotApplier is newApplier with one account that has more than a run can use up.
func newHotApplier(ctx context.Context, store *lua.Store, depth int) (*applier, error) {
	a, err := newApplier(ctx, store, depth)
	if err != nil {
		return nil, err
	}
	open, fund := openAndFund(hotAccount)
	_, err = a.batch(ctx, open, fund)
	return a, err
}

// hotDebits measures apply.lua alone, on the account of newHotApplier, for about the given time.
func (a *applier) hotDebits(ctx context.Context, lasting time.Duration) (perSecond float64, err error) {
	if perSecond, err = a.debits(ctx, lasting, func() string { return hotAccount }); err != nil {
		return 0, err
	}
	account, ok, err := a.store.Account(ctx, 0, hotAccount)
	if err != nil || !ok {
		return 0, fmt.Errorf("read the hot account: found %t: %w", ok, err)
	}
	if account.Balance != int64(hotFunds-a.done) || account.Sequence != uint64(a.done+2) {
		return 0, fmt.Errorf("apply: balance %d at sequence %d after %d debits", account.Balance, account.Sequence, a.done)
	}
	return perSecond, nil
}
