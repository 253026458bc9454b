package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// receiver gets what is transferred.
const receiver = "shop-4"

// verbs measures apply.lua with other commands than debits: a hold and its capture, and the two ends of a transfer. Each is two commands, and
// counts as two.
func (b *bench) verbs(ctx context.Context) error {
	for _, verb := range []struct {
		name string
		pair func(i int) (first, second *ledgerv1.Command)
	}{{"apply_hold_capture", holdAndCapture}, {"apply_transfer", transferEnds}} {
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		value, err := applyPairs(ctx, lua.New(b.rdb), b.size.Lasting, verb.pair)
		if err != nil {
			return fmt.Errorf("%s: %w", verb.name, err)
		}
		b.report.Add(Figure{Name: verb.name, Value: value, Unit: "commands/s", Reference: "apply"})
	}
	return nil
}

func holdAndCapture(i int) (hold, capture *ledgerv1.Command) {
	hold = command("hold-"+strconv.Itoa(i), ledgerv1.Operation_OPERATION_HOLD, "1")
	capture = command("capture-"+strconv.Itoa(i), ledgerv1.Operation_OPERATION_CAPTURE, "")
	capture.HoldId = hold.GetCommandId()
	return hold, capture
}

func transferEnds(i int) (near, far *ledgerv1.Command) {
	near = command("transfer-"+strconv.Itoa(i), ledgerv1.Operation_OPERATION_TRANSFER, "1")
	near.CounterAccount = receiver
	far = command(limits.CreditID(near.GetCommandId()), ledgerv1.Operation_OPERATION_CREDIT, "1")
	far.Account, far.CounterAccount = receiver, limits.Transit
	far.Origin = &ledgerv1.Origin{CommandId: near.GetCommandId(), Account: hotAccount}
	return near, far
}

// applyPairs calls apply.lua for about the given time with pairs that take 1 from the hot account each.
func applyPairs(ctx context.Context, store *lua.Store, lasting time.Duration, pair func(int) (first, second *ledgerv1.Command)) (perSecond float64, err error) {
	a, err := newHotApplier(ctx, store, depth)
	if err != nil {
		return 0, err
	}
	other, _ := openAndFund(receiver)
	if _, err := a.batch(ctx, other); err != nil {
		return 0, err
	}
	commands := make([]*ledgerv1.Command, 0, callsPerBatch*depth)
	pairs := 0
	var spent time.Duration
	for spent < lasting {
		for commands = commands[:0]; len(commands) < callsPerBatch*depth; pairs++ {
			first, second := pair(pairs)
			commands = append(commands, first, second)
		}
		took, err := a.batch(ctx, commands...)
		if err != nil {
			return 0, err
		}
		spent += took
	}
	account, ok, err := store.Account(ctx, 0, hotAccount)
	if err != nil || !ok || account.Balance != int64(hotFunds-pairs) || account.Held != 0 {
		return 0, fmt.Errorf("after %d pairs the hot account is %+v: %w", pairs, account, err)
	}
	return float64(2*pairs) / spent.Seconds(), nil
}
