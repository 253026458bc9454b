package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

const (
	// zipfExponent: the first of a million accounts gets 6.6 % of the debits, the first hundred 33 %.
	zipfExponent = 1.01
	overdraft    = 1_000_000_000 // of each account, so that nobody has to fund it
)

func manyName(i int) string { return fmt.Sprintf("account-%07d", i) }

// opening number i opens an account that may be overdrawn.
func opening(i int) *ledgerv1.Command {
	c := command("open-"+strconv.Itoa(i), ledgerv1.Operation_OPERATION_OPEN, "")
	c.Account, c.Open = manyName(i), &ledgerv1.OpenTerms{Floor: strconv.Itoa(-overdraft)}
	return c
}

// zipf picks accounts as people do: few are busy, most are not. The same ones in every run.
func zipf(accounts int) func() string {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), zipfExponent, 1, uint64(accounts-1)) //nolint:gosec // repeatable on purpose
	return func() string { return manyName(int(z.Uint64())) }
}

// uniform picks every account alike, which no cache likes.
func uniform(accounts int) func() string {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // see above
	return func() string { return manyName(r.IntN(accounts)) }
}

// zipfPath is the whole path over many accounts that were opened before, by Zipf, on all shards that environ names.
type zipfPath struct {
	*path
	*spread
	rdb             *redis.Client
	accounts, count int // debits of a round
	done            int
	pick            func() string
}

// startZipf starts the writers and opens the accounts. End it with verify and close, or close alone.
func startZipf(ctx context.Context, environ []string, rdb *redis.Client, writers, accounts, count int) (*zipfPath, error) {
	p, err := startPath(ctx, environ, writers, max(accounts, count))
	if err != nil {
		return nil, err
	}
	z := &zipfPath{path: p, spread: p.spread(), rdb: rdb, accounts: accounts, count: count, pick: zipf(accounts)}
	openings, err := z.records(accounts, opening)
	if err == nil {
		err = z.push(ctx, openings)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return z, nil
}

// round measures as a hotPath's does.
func (z *zipfPath) round(ctx context.Context) (Load, error) {
	debits, err := z.records(z.count, func(i int) *ledgerv1.Command { return debit(z.done+i, z.pick()) })
	if err != nil {
		return Load{}, err
	}
	z.done += z.count
	return measure(ctx, z.rdb, z.count, func() error { return z.push(ctx, debits) })
}

// verify reads every event of every shard back, and adds up the accounts.
func (z *zipfPath) verify(ctx context.Context) error {
	books, err := z.readBack(ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, b := range books {
		total += b.balance
	}
	if len(books) != z.accounts || total != -int64(z.done) {
		return fmt.Errorf("%d accounts, %d in all, after %d debits", len(books), total, z.done)
	}
	return nil
}

// Grown measures apply.lua on a shard that has so many accounts and remembers as many ids, or more: debits from all of them alike, then by Zipf.
// It needs an empty Redis.
func Grown(ctx context.Context, rdb *redis.Client, accounts int, lasting time.Duration) (alike, byZipf float64, err error) {
	a, err := newApplier(ctx, lua.New(rdb), depth)
	if err != nil {
		return 0, 0, err
	}
	if err := a.fill(ctx, accounts, opening); err != nil {
		return 0, 0, err
	}
	if alike, err = a.debits(ctx, lasting, uniform(accounts)); err != nil {
		return 0, 0, err
	}
	if byZipf, err = a.debits(ctx, lasting, zipf(accounts)); err != nil {
		return 0, 0, err
	}
	return alike, byZipf, a.verifyAll(ctx, rdb, accounts)
}

// verifyAll adds up all accounts: every debit is on one of them, once.
func (a *applier) verifyAll(ctx context.Context, rdb *redis.Client, accounts int) error {
	const page = 5000
	found := map[string]lua.Account{} // HSCAN may give a field twice
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var pairs []string
		var err error
		if pairs, cursor, err = rdb.HScan(ctx, lua.AccountsKey(0), cursor, "", page).Result(); err != nil {
			return err
		}
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == "" {
				continue // the chain
			}
			if found[pairs[i]], err = lua.ParseAccount(pairs[i], pairs[i+1]); err != nil {
				return err
			}
		}
	}
	total, changes := int64(0), uint64(0)
	for _, account := range found {
		total, changes = total+account.Balance, changes+account.Sequence
	}
	if len(found) != accounts || total != -int64(a.done) || changes != uint64(accounts+a.done) {
		return fmt.Errorf("%d accounts, %d in all, %d changes, after %d debits", len(found), total, changes, a.done)
	}
	return nil
}
