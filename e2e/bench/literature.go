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

// literature runs the per-command script, depth calls to a pipeline, on one account. Debits of 1.
type literature struct {
	rdb   *redis.Client
	depth int
	done  int
}

const (
	literatureAccount = "literature:{hot}:balance"
	literatureFunds   = 1_000_000_000
)

func newLiterature(ctx context.Context, rdb *redis.Client, depth int) (*literature, error) {
	if err := rdb.Set(ctx, literatureAccount, literatureFunds, 0).Err(); err != nil {
		return nil, err
	}
	return &literature{rdb: rdb, depth: depth}, literatureScript.Load(ctx, rdb).Err()
}

// measure goes on for about the given time. Debits per second.
func (l *literature) measure(ctx context.Context, lasting time.Duration) (perSecond float64, err error) {
	const ttlSeconds = 86400
	start, begun := time.Now(), l.done
	for time.Since(start) < lasting {
		pipe := l.rdb.Pipeline()
		for i := range l.depth {
			literatureScript.EvalSha(ctx, pipe, []string{literatureAccount, "literature:{hot}:id:" + strconv.Itoa(l.done+i)}, 1, ttlSeconds)
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
		l.done += l.depth
	}
	took := time.Since(start)
	balance, err := l.rdb.Get(ctx, literatureAccount).Int()
	if err != nil {
		return 0, err
	}
	if balance != literatureFunds-l.done {
		return 0, fmt.Errorf("literature script: balance %d after %d debits, want %d", balance, l.done, literatureFunds-l.done)
	}
	return float64(l.done-begun) / took.Seconds(), nil
}
