package bench

import (
	"context"
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

func scripted(c *ledgerv1.Command) (lua.Command, error) {
	body, err := proto.Marshal(c)
	return lua.Command{Command: c, Fingerprint: lua.FingerprintOf(c), Body: body}, err
}

// Apply calls apply.lua as the writer does, depth commands to a call, on one account, for about the given time: debits of 1, with the outbox
// trimmed after each call. It needs an empty shard 0.
func Apply(ctx context.Context, store *lua.Store, depth int, lasting time.Duration) (perSecond float64, err error) {
	const shard = 0
	build, err := store.BeginBuild(ctx, shard, "bench")
	if err != nil {
		return 0, err
	}
	if err := build.Swap(ctx); err != nil {
		return 0, err
	}
	open, err := scripted(command("open", ledgerv1.Operation_OPERATION_OPEN, ""))
	if err != nil {
		return 0, err
	}
	fund, err := scripted(command("fund", ledgerv1.Operation_OPERATION_CREDIT, strconv.Itoa(hotFunds)))
	if err != nil {
		return 0, err
	}
	head, err := applyOnce(ctx, store, lua.Genesis, []lua.Command{open, fund})
	if err != nil {
		return 0, err
	}
	var spent time.Duration // making the commands is the callers' work and does not count
	done := 0
	for spent < lasting {
		commands := make([]lua.Command, depth)
		for i := range commands {
			if commands[i], err = scripted(command("debit-"+strconv.Itoa(done+i), ledgerv1.Operation_OPERATION_DEBIT, "1")); err != nil {
				return 0, err
			}
		}
		start := time.Now()
		if head, err = applyOnce(ctx, store, head, commands); err != nil {
			return 0, err
		}
		spent += time.Since(start)
		done += depth
	}
	account, ok, err := store.Account(ctx, shard, hotAccount)
	if err != nil || !ok {
		return 0, fmt.Errorf("read the hot account: found %t: %w", ok, err)
	}
	if account.Balance != int64(hotFunds-done) || account.Sequence != uint64(done+2) {
		return 0, fmt.Errorf("apply: balance %d at sequence %d after %d debits", account.Balance, account.Sequence, done)
	}
	return float64(done) / spent.Seconds(), nil
}

func applyOnce(ctx context.Context, store *lua.Store, head lua.Head, commands []lua.Command) (lua.Head, error) {
	result := store.Apply(ctx, lua.Call{Shard: 0, Expected: head, Now: time.Now(), Commands: commands})[0]
	if result.Err != nil {
		return head, result.Err
	}
	for _, d := range result.Decisions {
		if d.Outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
			return head, fmt.Errorf("apply: %s was rejected: %s", d.Outcome.GetCommandId(), d.Outcome.GetReason())
		}
	}
	return result.Head, store.Trim(ctx, 0, []string{result.Entry})
}
