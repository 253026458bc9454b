package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// literatureScript is the usual answer to a hot account: one script call per command. It knows no sequence, no event, no rejection that
// is remembered, and loses exactness above 2^53.
var literatureScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local balance = tonumber(redis.call('GET', KEYS[1]))
local amount = tonumber(ARGV[1])
if balance < amount then return -1 end
redis.call('DECRBY', KEYS[1], amount)
redis.call('SET', KEYS[2], 1, 'EX', ARGV[2])
return 1
`)

// Literature runs the per-command script, depth calls to a pipeline, on one account, for about the given time. Debits of 1.
func Literature(ctx context.Context, rdb *redis.Client, depth int, lasting time.Duration) (perSecond float64, err error) {
	const account, ttlSeconds = "literature:{hot}:balance", 86400
	const funds = 1_000_000_000
	if err := rdb.Set(ctx, account, funds, 0).Err(); err != nil {
		return 0, err
	}
	if err := literatureScript.Load(ctx, rdb).Err(); err != nil {
		return 0, err
	}
	start, done := time.Now(), 0
	for time.Since(start) < lasting {
		pipe := rdb.Pipeline()
		for i := range depth {
			literatureScript.EvalSha(ctx, pipe, []string{account, "literature:{hot}:id:" + strconv.Itoa(done+i)}, 1, ttlSeconds)
		}
		replies, err := pipe.Exec(ctx)
		if err != nil {
			return 0, err
		}
		for _, reply := range replies {
			if n, err := reply.(*redis.Cmd).Int(); err != nil || n != 1 {
				return 0, fmt.Errorf("literature script answered %d: %w", n, err)
			}
		}
		done += depth
	}
	took := time.Since(start)
	balance, err := rdb.Get(ctx, account).Int()
	if err != nil {
		return 0, err
	}
	if balance != funds-done {
		return 0, fmt.Errorf("literature script: balance %d after %d debits, want %d", balance, done, funds-done)
	}
	return float64(done) / took.Seconds(), nil
}
