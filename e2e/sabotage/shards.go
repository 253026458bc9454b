package sabotage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/reconciler"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// keysOf are the keys of a shard in Redis, whatever they are.
func (s *suite) keysOf(ctx context.Context, shard int) ([]string, error) {
	return s.ledger.Redis.Keys(ctx, fmt.Sprintf("*{%d}*", shard)).Result()
}

// recovered is a damage to a whole shard, which the ledger-writer notices at its next call and heals under a new generation.
func recovered(name string, shard int, harm func(context.Context, *suite, *damage) error) *damage {
	return &damage{
		name: name, fate: byWriter, shard: shard, want: nil, memory: map[string]string{},
		do: func(ctx context.Context, s *suite, d *damage) error {
			head, err := s.awaitHead(ctx, shard, "")
			if err != nil {
				return err
			}
			d.memory["generation"] = head.Generation
			if err := harm(ctx, s, d); err != nil {
				return err
			}
			// One damage at a time: the next one meets a shard that is whole again.
			head, err = s.awaitHead(ctx, shard, head.Generation)
			d.memory["after"] = head.Generation
			return err
		},
		check: func(_ context.Context, _ *suite, d *damage) error {
			if d.memory["after"] == d.memory["generation"] {
				return fmt.Errorf("shard %d was not recovered", d.shard)
			}
			return nil
		},
	}
}

// awaitHead waits until a shard has a head of another generation than not. Commands to the shard make the ledger-writer look.
func (s *suite) awaitHead(ctx context.Context, shard int, not string) (lua.ShardHead, error) {
	for i := 0; ; i++ {
		head, err := s.store.Head(ctx, shard)
		if err == nil && head.Generation != not {
			return head, nil
		}
		if ctx.Err() != nil {
			return head, errors.Join(context.Cause(ctx), err)
		}
		for v := range victims {
			if shardOf(victim(v)) == shard {
				if _, err := s.client.Submit(ctx, s.command(victim(v), ledgerv1.Operation_OPERATION_CREDIT, "1")); err != nil && ctx.Err() != nil {
					return head, err
				}
				break
			}
		}
	}
}

func shardDamages() []*damage {
	unlink := func(key func(int) string, shard int) func(context.Context, *suite, *damage) error {
		return func(ctx context.Context, s *suite, _ *damage) error {
			return s.ledger.Redis.Unlink(ctx, key(shard)).Err()
		}
	}
	return []*damage{
		recovered("a whole shard deleted", 0, func(ctx context.Context, s *suite, d *damage) error {
			keys, err := s.keysOf(ctx, d.shard)
			if err != nil {
				return err
			}
			return s.ledger.Redis.Unlink(ctx, keys...).Err()
		}),
		recovered("an older backup of a shard", 1, func(ctx context.Context, s *suite, d *damage) error {
			keys, err := s.keysOf(ctx, d.shard)
			if err != nil {
				return err
			}
			dumps := make([]string, len(keys))
			for i, key := range keys {
				if dumps[i], err = s.ledger.Redis.Dump(ctx, key).Result(); err != nil {
					return err
				}
			}
			for v := range victims { // the shard goes on after the backup
				if shardOf(victim(v)) == d.shard {
					if _, err := s.client.Submit(ctx, s.command(victim(v), ledgerv1.Operation_OPERATION_CREDIT, "1")); err != nil {
						return err
					}
				}
			}
			pipe := s.ledger.Redis.TxPipeline()
			for i, key := range keys {
				pipe.RestoreReplace(ctx, key, 0, dumps[i])
			}
			_, err = pipe.Exec(ctx)
			return err
		}),
		recovered("all accounts of a shard evicted", 2, unlink(lua.AccountsKey, 2)),
		recovered("all remembered outcomes of a shard evicted", 3, unlink(lua.OutcomesKey, 3)),
		recovered("the outbox wiped", 0, unlink(lua.OutboxKey, 0)),
		recovered("the head of a shard deleted", 1, unlink(lua.HeadKey, 1)),
		recovered("every key of Redis deleted", 2, func(ctx context.Context, s *suite, _ *damage) error { return s.ledger.Redis.FlushAll(ctx).Err() }),
		recovered("every script of Redis forgotten, and a shard's head moved", 3, func(ctx context.Context, s *suite, d *damage) error {
			if err := s.ledger.Redis.ScriptFlush(ctx).Err(); err != nil {
				return err
			}
			return s.ledger.Redis.HIncrBy(ctx, lua.HeadKey(d.shard), "position", 3).Err()
		}),
	}
}

// logDamages are the ones that leave their mark in the log.
func logDamages() []*damage {
	return []*damage{
		{
			name: "an outcome evicted, and its command sent again", want: []reconciler.Class{reconciler.DuplicateEffect}, fate: twoPeople, accounts: []string{victim(40)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				c := s.command(victim(40), ledgerv1.Operation_OPERATION_DEBIT, "250")
				if _, err := s.client.Submit(ctx, c); err != nil {
					return err
				}
				if err := s.ledger.Redis.HDel(ctx, lua.OutcomesKey(shardOf(victim(40))), lua.OutcomeField(c.GetCommandId())).Err(); err != nil {
					return err
				}
				return s.produce(ctx, c)
			},
			mend: approve,
		},
		{
			name: "money invented and spent before anybody looked", want: []reconciler.Class{reconciler.FloorBroken}, fate: twoPeople, accounts: []string{victim(41)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				if err := s.edit(ctx, victim(41), func(a *lua.Account) { a.Balance += funds }); err != nil {
					return err
				}
				_, err := s.client.Submit(ctx, s.command(victim(41), ledgerv1.Operation_OPERATION_DEBIT, fmt.Sprint(funds+funds/2)))
				return err
			},
			mend: approve,
		},
		{
			name: "a wrong balance that was put right by hand, unseen", want: []reconciler.Class{reconciler.BalanceChainBroken}, fate: byHand, accounts: []string{victim(42)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				for _, by := range []int64{500, -500} {
					if err := s.edit(ctx, victim(42), func(a *lua.Account) { a.Balance += by }); err != nil {
						return err
					}
					if _, err := s.client.Submit(ctx, s.command(victim(42), ledgerv1.Operation_OPERATION_CREDIT, "1")); err != nil {
						return err
					}
				}
				return nil
			},
			mend: accept,
		},
		{
			name: "a record that is no command", want: []reconciler.Class{reconciler.DeadLettersUnattended}, fate: byHand,
			do: func(ctx context.Context, s *suite, _ *damage) error {
				return s.send(ctx, &kgo.Record{Topic: topics.Commands, Partition: 1, Value: []byte(`{"amount":12.5}`)})
			},
			mend: func(ctx context.Context, s *suite, _ *damage) error {
				r, err := reconciler.New(s.ledger.Reconciler, zap.NewNop(), nil)
				if err != nil {
					return err
				}
				return errors.Join(r.AttendDeadLetters(ctx, "anna"), r.Close())
			},
		},
		{
			name: "a caller's clock jumps: its command, first from the future, then from the past", fate: byWriter, accounts: []string{victim(46)}, memory: map[string]string{},
			do: func(ctx context.Context, s *suite, d *damage) error {
				c := s.command(victim(46), ledgerv1.Operation_OPERATION_DEBIT, "70")
				d.memory["id"] = c.GetCommandId()
				for _, days := range []int{0, 30, -30} {
					c.RequestedAt = timestamppb.New(time.Now().AddDate(0, 0, days))
					if err := s.produce(ctx, c); err != nil {
						return err
					}
				}
				return nil
			},
			check: func(ctx context.Context, s *suite, d *damage) error {
				var effects uint64
				err := s.ledger.ClickHouse.QueryRow(ctx, fmt.Sprintf("SELECT uniqExact(shard, position) FROM %s.events WHERE command_id = '%s' AND status = 'applied'",
					s.ledger.Projector.ClickHouse.Database, d.memory["id"])).Scan(&effects)
				if err == nil && effects != 1 {
					err = fmt.Errorf("%d effects of one command", effects)
				}
				return err
			},
		},
		{
			name: "the reconciler's clock jumps back, after a run of tomorrow", want: []reconciler.Class{reconciler.BalanceDiffers}, fate: repaired, accounts: []string{victim(47)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				// What a run left that went by a clock a day ahead.
				database := s.ledger.Projector.ClickHouse.Database
				for _, statement := range []string{
					"INSERT INTO {db}.reconciliation_runs SELECT * REPLACE ('tomorrow' AS run_id, started_at + INTERVAL 1 DAY AS started_at, finished_at + INTERVAL 1 DAY AS finished_at) FROM (SELECT * FROM {db}.reconciliation_runs FINAL WHERE verdict != 'could_not_tell' ORDER BY started_at DESC LIMIT 1)",
					"INSERT INTO {db}.account_snapshots SELECT * REPLACE (read_at + INTERVAL 1 DAY AS read_at) FROM {db}.account_snapshots WHERE account = '" + victim(47) + "'",
				} {
					if err := s.ledger.ClickHouse.Exec(ctx, strings.ReplaceAll(statement, "{db}", database)); err != nil {
						return err
					}
				}
				return s.edit(ctx, victim(47), func(a *lua.Account) { a.Balance += 99 })
			},
		},
		{
			name: "three reconcilers on one drift at the same time", want: []reconciler.Class{reconciler.BalanceDiffers}, fate: repaired, accounts: []string{victim(44)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				if err := s.edit(ctx, victim(44), func(a *lua.Account) { a.Balance += 333 }); err != nil {
					return err
				}
				var wg sync.WaitGroup
				reports := make([]*reconciler.Report, 3)
				for i := range reports {
					wg.Go(func() { reports[i], _ = s.ledger.Reconcile(ctx) }) // one that could not tell repairs nothing
				}
				wg.Wait()
				for _, report := range reports {
					s.attribute(report)
				}
				return nil
			},
			check: func(ctx context.Context, s *suite, d *damage) error {
				var repairs uint64
				err := s.ledger.ClickHouse.QueryRow(ctx, fmt.Sprintf("SELECT uniqExactIf(position, operation = 'repair' AND status = 'applied') FROM %s.events WHERE account = '%s'",
					s.ledger.Projector.ClickHouse.Database, d.accounts[0])).Scan(&repairs)
				if err == nil && repairs != 1 {
					err = fmt.Errorf("%d repairs of one drift", repairs)
				}
				return err
			},
		},
		{
			name: "a compensation replayed", want: []reconciler.Class{reconciler.BalanceDiffers}, fate: repaired, accounts: []string{victim(45)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				if err := s.edit(ctx, victim(45), func(a *lua.Account) { a.Balance += 444 }); err != nil {
					return err
				}
				report, err := s.reconcile(ctx)
				if err != nil {
					return err
				}
				s.attribute(report)
				return s.replayRepairs(ctx)
			},
			check: func(ctx context.Context, s *suite, _ *damage) error {
				a, ok, err := s.store.Account(ctx, shardOf(victim(45)), victim(45))
				if err == nil && (!ok || a.Balance < funds-100 || a.Balance > funds) {
					err = fmt.Errorf("a replayed repair took effect: %+v", a)
				}
				return err
			},
		},
	}
}

// produce sends a command without waiting for its outcome, past the client that remembers it.
func (s *suite) produce(ctx context.Context, c *ledgerv1.Command) error {
	value, err := proto.Marshal(c)
	if err != nil {
		return err
	}
	if err := s.send(ctx, &kgo.Record{Topic: topics.Commands, Partition: int32(shardOf(c.GetAccount())), Key: []byte(c.GetAccount()), Value: value}); err != nil {
		return err
	}
	// What comes after it on the same account tells that it is decided.
	_, err = s.client.Submit(ctx, s.command(c.GetAccount(), ledgerv1.Operation_OPERATION_CREDIT, "1"))
	return err
}

func (s *suite) send(ctx context.Context, record *kgo.Record) error {
	client, err := kafka.NewClient(s.ledger.Writer.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, record).FirstErr()
}

// replayRepairs sends every repair that lies in ledger.commands once more, byte for byte.
func (s *suite) replayRepairs(ctx context.Context) error {
	client, err := kafka.NewClient(s.ledger.Writer.Kafka, zap.NewNop(), kgo.ConsumeTopics(topics.Commands), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topics.Commands)
	if err != nil {
		return err
	}
	left := int64(0)
	ends.Each(func(end kadm.ListedOffset) { left += end.Offset })
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done() && left > 0; {
			record := records.Next()
			left--
			c := &ledgerv1.Command{}
			if proto.Unmarshal(record.Value, c) != nil || c.GetOperation() != ledgerv1.Operation_OPERATION_REPAIR {
				continue
			}
			copied := &kgo.Record{Topic: record.Topic, Partition: record.Partition, Key: record.Key, Value: record.Value}
			if err := client.ProduceSync(ctx, copied).FirstErr(); err != nil {
				return err
			}
		}
	}
	return nil
}
