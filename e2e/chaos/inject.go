package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// unleash carries out the faults of the plan at their times. It returns when all are over, or ctx ended.
func (w *world) unleash(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, f := range w.plan.Faults {
		select {
		case <-time.After(time.Until(w.started.Add(f.At))):
		case <-ctx.Done():
			return
		}
		running.Go(func() {
			w.note("%s%s", f, w.at())
			if err := w.inject(ctx, f); err != nil {
				w.note("%s: not carried out: %v", f.Kind, err)
				return
			}
			w.note("%s: over", f.Kind)
		})
	}
}

// at says how far Redis is, for the history of faults.
func (w *world) at() string {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	text := " (redis at"
	for shard := range shards {
		head, err := w.store.Head(ctx, shard)
		if err != nil {
			return ""
		}
		text += fmt.Sprintf(" %d", head.Position)
	}
	return text + ")"
}

func (w *world) inject(ctx context.Context, f Fault) error {
	writer := w.writers[f.Target%w.plan.Writers]
	projector := w.projectors[f.Target%len(w.projectors)]
	switch f.Kind {
	case RedisWipe:
		return w.replaceRedis(ctx, nil, f.For, nil)
	case RedisRestore:
		state, err := w.older(f.Target)
		if err != nil {
			return err
		}
		return w.replaceRedis(ctx, state, f.For, nil)
	case RedisFork:
		return w.fork(ctx, f)
	case RedisLoseKey:
		return w.loseKey(ctx, f.Target%shards, f.Detail)
	case RedisFlush:
		return w.again(ctx, f.For, 30*time.Millisecond, func() error { return w.rdb.ScriptFlush(ctx).Err() })
	case RedisLoseReplies:
		w.toRedis.Lose(counted(f.Count, "evalsha"))
		w.sleep(ctx, f.For)
		w.toRedis.Lose(nil)
	case RedisLate:
		direction, text, _ := strings.Cut(f.Detail, " ")
		late, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		if direction == "requests" {
			w.toRedis.Delay(late, 0)
		} else {
			w.toRedis.Delay(0, late)
		}
		w.sleep(ctx, f.For)
		w.toRedis.Delay(0, 0)
	case RedisCut:
		return w.again(ctx, f.For, 100*time.Millisecond, func() error { w.toRedis.Cut(); return nil })
	case RedisFull:
		if err := w.rdb.ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil {
			return err
		}
		w.sleep(ctx, f.For)
		return w.rdb.ConfigSet(ctx, "maxmemory", "0").Err()
	case WriterPause:
		writer.signal(syscall.SIGSTOP)
		w.sleep(ctx, f.For)
		writer.signal(syscall.SIGCONT)
	case WriterKill:
		writer.kill()
		w.sleep(ctx, f.For)
		return writer.start("")
	case WriterTrap:
		return w.trap(ctx, f, writer)
	case WriterDieCommit:
		return w.dieAtCommit(ctx, f, writer)
	case Rebalance:
		return w.rebalance(ctx, f)
	case KafkaError:
		return w.broker.answerWith(f.Detail, f.Count)
	case KafkaLoseReply:
		w.broker.loseReplies(f.Detail, f.Count)
	case KafkaKill:
		w.kafkaMu.Lock()
		defer w.kafkaMu.Unlock()
		return w.broker.kill(ctx, func() { w.sleep(ctx, f.For) })
	case ClickHouseKill:
		return w.killRows(ctx, f.For)
	case ClickHouseLose:
		w.toRows.Lose(counted(f.Count, "INSERT"))
		w.sleep(ctx, f.For)
		w.toRows.Lose(nil)
	case ClickHouseRefuse:
		w.toRows.Refuse(true)
		w.toRows.Cut()
		w.sleep(ctx, f.For)
		w.toRows.Refuse(false)
	case ProjectorKill:
		projector.kill()
		w.sleep(ctx, f.For)
		return projector.start("")
	case ProjectorLeave:
		projector.stop()
		w.sleep(ctx, f.For)
		return projector.start("")
	}
	return nil
}

func (w *world) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// again does something again and again for a while.
func (w *world) again(ctx context.Context, d, pause time.Duration, do func() error) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := do(); err != nil {
			return err
		}
		w.sleep(ctx, pause)
	}
	return nil
}

// counted matches the first n requests that contain a word.
func counted(n int, word string) func([]byte) bool {
	var mu sync.Mutex
	return func(request []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if n == 0 || !bytes.Contains(request, []byte(word)) {
			return false
		}
		n--
		return true
	}
}

// replaceRedis kills Redis and brings it back with another state; nil = empty. before runs while nobody else gets through.
func (w *world) replaceRedis(ctx context.Context, state []byte, away time.Duration, before func() error) error {
	w.redisMu.Lock()
	defer w.redisMu.Unlock()
	w.toRedis.Refuse(true)
	defer w.toRedis.Refuse(false)
	w.toRedis.Cut()
	w.redis.Kill()
	w.sleep(ctx, away)
	if err := os.Remove(w.rdbFile()); err != nil && !os.IsNotExist(err) {
		return err
	}
	if state != nil {
		if err := os.WriteFile(w.rdbFile(), state, 0o600); err != nil {
			return err
		}
	}
	// Not under ctx: whatever happens, Redis comes back.
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := w.redis.Restart(starting); err != nil || before == nil {
		return err
	}
	return before()
}

// fork brings back an older state on which somebody else went on: a replica that was promoted, a writer that woke up. Only shards whose log has
// gone further are forked; on the others the same step would be a right one.
func (w *world) fork(ctx context.Context, f Fault) error {
	state, err := w.older(f.Target)
	if err != nil {
		return err
	}
	forked := 0
	defer func() { w.note("redis-fork: %d shards forked", forked) }()
	return w.replaceRedis(ctx, state, f.For, func() error {
		positions, err := w.client.Positions(ctx)
		if err != nil {
			return err
		}
		for shard, last := range positions {
			now, err := w.store.Inspect(ctx, shard)
			if err != nil {
				return err
			}
			if now.Condition != lua.Whole || now.Head.Position >= last {
				continue
			}
			command := &ledgerv1.Command{CommandId: fmt.Sprintf("never-sent-%d", shard), Account: "never-opened", Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: "1", Currency: "EUR"}
			body, err := proto.Marshal(command)
			if err != nil {
				return err
			}
			commands := []lua.Command{{Command: command, Fingerprint: lua.FingerprintOf(command), Body: body}}
			result := w.store.Apply(ctx, lua.Call{Shard: shard, Expected: now.Head, Now: time.Now(), Commands: commands})
			if result.Err != nil {
				return result.Err
			}
			forked++
		}
		return nil
	})
}

// loseKey deletes one key of a shard, or the mark that ties it to the others, or half of the head.
func (w *world) loseKey(ctx context.Context, shard int, what string) error {
	name, mark := strings.CutSuffix(what, "-mark")
	key := map[string]string{
		"accounts": lua.AccountsKey(shard), "holds": lua.HoldsKey(shard), "recent": lua.OutcomesKey(shard), "old": lua.OldOutcomesKey(shard),
		"outbox": lua.OutboxKey(shard), "head": lua.HeadKey(shard), "head-chain": lua.HeadKey(shard),
	}[name]
	switch {
	case what == "head-chain":
		return w.rdb.HDel(ctx, key, "chain").Err()
	case mark:
		return w.rdb.HDel(ctx, key, "").Err()
	}
	return w.rdb.Del(ctx, key).Err()
}

// trap starts the writer so that it kills itself at a step. Steps of a recovery need something to recover from.
func (w *world) trap(ctx context.Context, f Fault, s *service) error {
	s.kill()
	count := f.Count
	switch f.Detail {
	case "settled", "inspected":
		if err := s.start("applied"); err != nil {
			return err
		}
		for end := time.Now().Add(2 * time.Second); s.running() && time.Now().Before(end) && ctx.Err() == nil; {
			w.sleep(ctx, 20*time.Millisecond)
		}
		s.kill()
		count = 1
	case "replaying":
		count = 1
		if state, err := w.older(f.Target); err == nil {
			if err := w.replaceRedis(ctx, state, 0, nil); err != nil {
				return err
			}
		}
	case "building", "swapped":
		if err := w.replaceRedis(ctx, nil, 0, nil); err != nil {
			return err
		}
	}
	if err := s.start(fmt.Sprintf("%s:%d", f.Detail, count)); err != nil {
		return err
	}
	w.sleep(ctx, f.For)
	return nil
}

// dieAtCommit kills the writer while its EndTxn is on the way: the broker carries it out, and nobody hears.
func (w *world) dieAtCommit(ctx context.Context, f Fault, s *service) error {
	died := make(chan struct{})
	var once sync.Once
	w.broker.onRequest(func(key int16, by string) {
		if key == kmsg.EndTxn.Int16() && s.lives(by) {
			once.Do(func() { s.killNow(); close(died) })
		}
	})
	select {
	case <-died:
		w.sleep(ctx, f.For)
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
	}
	w.broker.onRequest(nil)
	return nil
}

// rebalance lets writers come and go in good order.
func (w *world) rebalance(ctx context.Context, f Fault) error {
	for i := range 3 {
		s := w.writers[(f.Target+i)%writersMax]
		if s.running() {
			s.stop()
		} else if err := s.start(""); err != nil {
			return err
		}
		w.sleep(ctx, f.For/3)
	}
	return nil
}

func (w *world) killRows(ctx context.Context, away time.Duration) error {
	w.rowsMu.Lock()
	defer w.rowsMu.Unlock()
	w.shared.Kill()
	w.sleep(ctx, away)
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return w.shared.Restart(starting)
}

// heal ends every fault, and starts what is down.
func (w *world) heal() (hits int) {
	hits = w.broker.heal()
	w.toRedis.Lose(nil)
	w.toRedis.Delay(0, 0)
	w.toRedis.Refuse(false)
	w.toRows.Lose(nil)
	w.toRows.Refuse(false)
	_ = w.rdb.ConfigSet(context.Background(), "maxmemory", "0").Err()
	for i, s := range w.writers {
		s.signal(syscall.SIGCONT)
		s.disarm()
		if i < w.plan.Writers {
			_ = s.start("")
		}
	}
	for _, s := range w.projectors {
		_ = s.start("")
	}
	return hits + int(w.toRedis.Lost()) + int(w.toRows.Lost())
}
