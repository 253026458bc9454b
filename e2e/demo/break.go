package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/topics"
)

// breakThings does what no script of the ledger would: it gives one account money in Redis, and deletes another.
func (d *demo) breakThings(ctx context.Context) error {
	const richer, gone = "Assets:US:BofA:Checking", "bank-07:EUR"
	const gift = 1_000_000
	key := lua.AccountsKey(topics.ShardOf(richer, shards))
	record, err := d.ledger.Redis.HGet(ctx, key, richer).Result()
	if err != nil {
		return fmt.Errorf("read %s: %w", richer, err)
	}
	balance, rest, _ := strings.Cut(record, " ")
	minor, err := strconv.ParseInt(balance, 10, 64)
	if err != nil {
		return fmt.Errorf("read %s: %w", richer, err)
	}
	changed := strconv.FormatInt(minor+gift, 10) + " " + rest
	if err := d.ledger.Redis.HSet(ctx, key, richer, changed).Err(); err != nil {
		return fmt.Errorf("change %s: %w", richer, err)
	}
	d.say("  HSET %s %s %q   (was %q)\n", key, richer, changed, record)
	key = lua.AccountsKey(topics.ShardOf(gone, shards))
	if err := d.ledger.Redis.HDel(ctx, key, gone).Err(); err != nil {
		return fmt.Errorf("delete %s: %w", gone, err)
	}
	d.say("  HDEL %s %s\n", key, gone)
	return nil
}
