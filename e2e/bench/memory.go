package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Memory measures what Redis keeps: bytes per idle account (with the outcome of its opening taken off), and bytes per remembered command id, over count of
// each. Ids are UUIDs of 36 bytes, accounts 12 bytes, as callers send them. It needs an empty shard 0.
func Memory(ctx context.Context, rdb *redis.Client, count int) (perAccount, perID float64, err error) {
	a, err := newApplier(ctx, lua.New(rdb), depth)
	if err != nil {
		return 0, 0, err
	}
	before, err := usedMemory(ctx, rdb)
	if err != nil {
		return 0, 0, err
	}
	err = a.fill(ctx, count, func(i int) *ledgerv1.Command {
		return &ledgerv1.Command{CommandId: uuidLike(i), Operation: ledgerv1.Operation_OPERATION_OPEN, Account: fmt.Sprintf("acct-%07d", i), Currency: "EUR"}
	})
	if err != nil {
		return 0, 0, err
	}
	opened, err := usedMemory(ctx, rdb)
	if err != nil {
		return 0, 0, err
	}
	err = a.fill(ctx, count, func(i int) *ledgerv1.Command {
		return &ledgerv1.Command{CommandId: uuidLike(count + i), Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: "acct-0000000", Currency: "EUR", Amount: strconv.Itoa(1 + i%9999)}
	})
	if err != nil {
		return 0, 0, err
	}
	credited, err := usedMemory(ctx, rdb)
	if err != nil {
		return 0, 0, err
	}
	perID = float64(credited-opened) / float64(count)
	perAccount = float64(opened-before)/float64(count) - perID
	return perAccount, perID, nil
}

func uuidLike(i int) string { return fmt.Sprintf("01a229cd-2585-77d4-88b9-%012d", i) }

// fill applies count commands.
func (a *applier) fill(ctx context.Context, count int, make1 func(i int) *ledgerv1.Command) error {
	for done := 0; done < count; {
		var commands []*ledgerv1.Command
		for len(commands) < callsPerBatch*a.depth && done < count {
			commands = append(commands, make1(done))
			done++
		}
		if _, err := a.batch(ctx, commands...); err != nil {
			return err
		}
	}
	return nil
}

// usedMemory waits until the dictionaries have finished to grow step by step: half-moved ones are counted twice.
func usedMemory(ctx context.Context, rdb *redis.Client) (int64, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	info := rdb.InfoMap(ctx, "memory")
	if err := info.Err(); err != nil {
		return 0, err
	}
	used, err := strconv.ParseInt(info.Item("Memory", "used_memory"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO memory: used_memory: %w", err)
	}
	return used, nil
}
