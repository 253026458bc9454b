package sabotage

import (
	"context"
	"fmt"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/reconciler"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// edit rewrites an account's record in Redis behind everybody's back.
func (s *suite) edit(ctx context.Context, account string, change func(*lua.Account)) error {
	a, ok, err := s.store.Account(ctx, shardOf(account), account)
	if err != nil || !ok {
		return fmt.Errorf("read %s: %t %w", account, ok, err)
	}
	change(&a)
	return s.ledger.Redis.HSet(ctx, lua.AccountsKey(shardOf(account)), account, a.Record()).Err()
}

// mates are those of some victims that live in the shard of the first one.
func mates(from, to int) []string {
	var accounts []string
	for i := from; i < to; i++ {
		if shardOf(victim(i)) == shardOf(victim(from)) {
			accounts = append(accounts, victim(i))
		}
	}
	return accounts
}

// edited is a damage that edits one account.
func edited(name string, account string, want reconciler.Class, change func(*lua.Account)) *damage {
	return &damage{name: name, want: []reconciler.Class{want}, fate: repaired, accounts: []string{account},
		do: func(ctx context.Context, s *suite, _ *damage) error { return s.edit(ctx, account, change) }}
}

func redisDamages() []*damage {
	key := func(account string) string { return lua.AccountsKey(shardOf(account)) }
	elsewhere := lua.AccountsKey((shardOf(victim(16)) + 1) % shards)
	return []*damage{
		edited("a balance one unit too high", victim(0), reconciler.BalanceDiffers, func(a *lua.Account) { a.Balance++ }),
		edited("a balance one unit too low", victim(1), reconciler.BalanceDiffers, func(a *lua.Account) { a.Balance-- }),
		edited("a balance with the other sign", victim(2), reconciler.BalanceDiffers, func(a *lua.Account) { a.Balance = -a.Balance }),
		edited("a balance emptied", victim(3), reconciler.BalanceDiffers, func(a *lua.Account) { a.Balance = 0 }),
		edited("money invented on the hottest account, under full load", hot(0), reconciler.BalanceDiffers, func(a *lua.Account) { a.Balance += 77_700 }),
		edited("a hold that nobody asked for", victim(5), reconciler.BalanceDiffers, func(a *lua.Account) { a.Held = 7 }),
		edited("a floor lowered", victim(6), reconciler.TermsDiffer, func(a *lua.Account) { a.Floor = -50_000 }),
		edited("a ceiling set by hand", victim(13), reconciler.TermsDiffer, func(a *lua.Account) { a.Ceiling = "5" }),
		edited("an account frozen by hand", victim(14), reconciler.TermsDiffer, func(a *lua.Account) { a.Status = "frozen" }),
		edited("a currency changed", victim(7), reconciler.TermsDiffer, func(a *lua.Account) { a.Unit = "USD/2" }),
		edited("an account set back to an earlier sequence", victim(8), reconciler.RedisBehind, func(a *lua.Account) { a.Sequence, a.Balance = 2, funds }),
		edited("an account put ahead of the log", victim(9), reconciler.RedisAhead, func(a *lua.Account) { a.Sequence, a.Balance = a.Sequence+5, 1 }),
		{
			name: "two accounts swapped", want: []reconciler.Class{reconciler.BalanceDiffers}, fate: repaired, accounts: []string{victim(10), victim(11)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				if _, err := s.client.Submit(ctx, s.command(victim(10), ledgerv1.Operation_OPERATION_DEBIT, "5")); err != nil {
					return err
				}
				if _, err := s.client.Submit(ctx, s.command(victim(11), ledgerv1.Operation_OPERATION_DEBIT, "9")); err != nil {
					return err
				}
				one, err := s.ledger.Redis.HGet(ctx, key(victim(10)), victim(10)).Result()
				if err != nil {
					return err
				}
				other, err := s.ledger.Redis.HGet(ctx, key(victim(11)), victim(11)).Result()
				if err != nil {
					return err
				}
				if err := s.ledger.Redis.HSet(ctx, key(victim(10)), victim(10), other).Err(); err != nil {
					return err
				}
				return s.ledger.Redis.HSet(ctx, key(victim(11)), victim(11), one).Err()
			},
		},
		{
			name: "some accounts of a shard put back to a moment", want: []reconciler.Class{reconciler.RedisBehind}, fate: repaired, one: true, accounts: mates(57, 60),
			do: func(ctx context.Context, s *suite, d *damage) error {
				records, err := s.ledger.Redis.HMGet(ctx, key(d.accounts[0]), d.accounts...).Result()
				if err != nil {
					return err
				}
				var moment []any
				for i, account := range d.accounts {
					if _, err := s.client.Submit(ctx, s.command(account, ledgerv1.Operation_OPERATION_CREDIT, "30")); err != nil {
						return err
					}
					moment = append(moment, account, records[i])
				}
				return s.ledger.Redis.HSet(ctx, key(d.accounts[0]), moment...).Err()
			},
		},
		{
			name: "an account deleted", want: []reconciler.Class{reconciler.AccountMissingInRedis}, fate: repaired, accounts: []string{victim(12)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				return s.ledger.Redis.HDel(ctx, key(victim(12)), victim(12)).Err()
			},
		},
		{
			name: "an account that nobody opened", want: []reconciler.Class{reconciler.AccountUnknownToLog}, fate: byHand, accounts: []string{"ghost"},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				return s.ledger.Redis.HSet(ctx, key("ghost"), "ghost", "500 0 1 0 EUR/2 active").Err()
			},
			mend: func(ctx context.Context, s *suite, _ *damage) error {
				return s.ledger.Redis.HDel(ctx, key("ghost"), "ghost").Err()
			},
		},
		{
			name: "an account in a shard that is not its own", want: []reconciler.Class{reconciler.AccountUnknownToLog}, fate: byHand, accounts: []string{victim(16)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				return s.ledger.Redis.HSet(ctx, elsewhere, victim(16), "500 0 1 0 EUR/2 active").Err()
			},
			mend: func(ctx context.Context, s *suite, _ *damage) error {
				return s.ledger.Redis.HDel(ctx, elsewhere, victim(16)).Err()
			},
		},
		{
			name: "a record garbled", want: []reconciler.Class{reconciler.AccountUnreadable}, fate: byHand, accounts: []string{victim(17)},
			do: func(ctx context.Context, s *suite, _ *damage) error {
				return s.ledger.Redis.HSet(ctx, key(victim(17)), victim(17), "12,50 0 three 0 EUR/2 active").Err()
			},
			// The next command meets it, and the ledger-writer rebuilds the shard from the log.
			mend: func(ctx context.Context, s *suite, _ *damage) error {
				_, err := s.client.Submit(ctx, s.command(victim(17), ledgerv1.Operation_OPERATION_DEBIT, "1"))
				return err
			},
		},
	}
}
