package lua

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"

	"github.com/hotledger/hotledger/sandbox"
)

// busy is a shard with something in every key.
func busy(t testing.TB, b *bench) *bench {
	t.Helper()
	b.apply(b.open("a", "-5"), b.credit("a", "100"), b.debit("a", "500"))
	b.apply(b.open("b", ""), b.credit("b", "7"))
	return b
}

func (b *bench) refused(what string, call Call, is error) {
	b.Helper()
	b.untouched(what, func() {
		r := b.store.Apply(b.Context(), call)
		if !errors.Is(r.Err, is) || r.Decisions != nil || r.Entry != "" || r.Head != (Head{}) {
			b.Errorf("%s: %+v, expected %v", what, r, is)
		}
	})
}

func TestOutOfSyncChangesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for what, damage := range map[string]func(b *bench) error{
		"position behind":     func(b *bench) error { b.head.Position--; return nil },
		"position ahead":      func(b *bench) error { b.head.Position++; return nil },
		"other chain":         func(b *bench) error { b.head.Chain = strings.Repeat("ab", 20); return nil },
		"genesis":             func(b *bench) error { b.head = Genesis; return nil },
		"no accounts":         func(b *bench) error { return b.rdb.Del(ctx, AccountsKey(b.shard)).Err() },
		"no outcomes":         func(b *bench) error { return b.rdb.Del(ctx, OutcomesKey(b.shard)).Err() },
		"no holds":            func(b *bench) error { return b.rdb.Del(ctx, HoldsKey(b.shard)).Err() },
		"no old outcomes":     func(b *bench) error { return b.rdb.Del(ctx, OldOutcomesKey(b.shard)).Err() },
		"holds, no marker":    func(b *bench) error { return b.rdb.HDel(ctx, HoldsKey(b.shard), "").Err() },
		"holds of another":    func(b *bench) error { return b.rdb.HSet(ctx, HoldsKey(b.shard), "", Genesis.Chain).Err() },
		"old, no marker":      func(b *bench) error { return b.rdb.HDel(ctx, OldOutcomesKey(b.shard), "").Err() },
		"no outbox":           func(b *bench) error { return b.rdb.Del(ctx, OutboxKey(b.shard)).Err() },
		"no head":             func(b *bench) error { return b.rdb.Del(ctx, HeadKey(b.shard)).Err() },
		"nothing":             func(b *bench) error { return b.rdb.Del(ctx, LiveKeys(b.shard)...).Err() },
		"accounts of another": func(b *bench) error { return b.rdb.HSet(ctx, AccountsKey(b.shard), "", Genesis.Chain).Err() },
		"outcomes of another": func(b *bench) error { return b.rdb.HSet(ctx, OutcomesKey(b.shard), "", Genesis.Chain).Err() },
		"accounts, no marker": func(b *bench) error { return b.rdb.HDel(ctx, AccountsKey(b.shard), "").Err() },
		"outcomes, no marker": func(b *bench) error { return b.rdb.HDel(ctx, OutcomesKey(b.shard), "").Err() },
		"head, no chain":      func(b *bench) error { return b.rdb.HDel(ctx, HeadKey(b.shard), "chain").Err() },
		"outbox is ahead": func(b *bench) error {
			return b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: OutboxKey(b.shard), ID: "9999999999999-0", Values: []string{"k", "v"}}).Err()
		},
		"outbox is at the end": func(b *bench) error {
			return b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: OutboxKey(b.shard), ID: "18446744073709551615-18446744073709551615", Values: []string{"k", "v"}}).Err()
		},
		"accounts is no hash":    func(b *bench) error { return b.rdb.Set(ctx, AccountsKey(b.shard), "x", 0).Err() },
		"outcomes is no hash":    func(b *bench) error { return b.rdb.Set(ctx, OutcomesKey(b.shard), "x", 0).Err() },
		"outbox is no stream":    func(b *bench) error { return b.rdb.Set(ctx, OutboxKey(b.shard), "x", 0).Err() },
		"head is no hash":        func(b *bench) error { return b.rdb.Set(ctx, HeadKey(b.shard), "x", 0).Err() },
		"accounts is an outbox":  func(b *bench) error { return b.rdb.Copy(ctx, OutboxKey(b.shard), AccountsKey(b.shard), 0, true).Err() },
		"outbox is an empty set": func(b *bench) error { return b.rdb.Copy(ctx, HeadKey(b.shard), OutboxKey(b.shard), 0, true).Err() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			b.ok(damage(b))
			b.refused(what, b.call(b.credit("a", "1"), b.open("c", ""), b.debit("a", "1")), ErrOutOfSync)
		})
	}
}

func TestACorruptRecordChangesNothing(t *testing.T) {
	t.Parallel()
	for _, record := range []string{
		"", "x", "100", "1 2", "1 2 USD/2 more", "1 2 nonsense", "1 2 USD", "1 2 USD/", "1 2 /2", "1 2 usd/2", "1 2 USD/2/2", "1 0 2 0 USD/2 active", "1 2 USD/2 0 active", "1:0 2 USD/2", "1: 2 USD/2", "nan 2 USD/2", "1e3 2 USD/2", "0x10 2 USD/2",
		"1 2.5 USD/2", "01 2 USD/2", "-0 2 USD/2", "1 02 USD/2", "+1 2 USD/2",
		" 1 2 USD/2", "1000000000000000000 2 USD/2", "1 2 USD/2 -1000000000000000000 active",
		"1:1000000000000000000 2 USD/2", "1 1000000000000000 USD/2", "99999999999999999999999999999999999 2 USD/2",
	} {
		t.Run(record, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			b.ok(b.rdb.HSet(t.Context(), AccountsKey(b.shard), "a", record).Err())
			b.refused(record, b.call(b.credit("b", "1"), b.credit("a", "1")), ErrCorrupt)
			if _, _, err := b.store.Account(t.Context(), b.shard, "a"); err == nil {
				t.Errorf("Go read the record %q", record)
			}
			page, corrupt, next, err := b.store.Accounts(t.Context(), b.shard, 0, 100)
			if err != nil || next != 0 || len(page) != 1 || page[0].ID != "b" || len(corrupt) != 1 || corrupt["a"] != record {
				t.Errorf("page %v, corrupt %v, next %d: %v", page, corrupt, next, err)
			}
			b.expect(list(b.credit("b", "1")), "applied 1 8@3") // the others of the shard keep going
		})
	}
}

func TestARedeliveredCommandChangesNothing(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	rejected, accepted := b.debit("a", "900"), b.credit("a", "900")
	b.apply(rejected, accepted)
	b.untouched("redelivery", func() {
		b.expect(list(rejected, accepted, rejected), "remembered INSUFFICIENT_FUNDS 0 100@2", "remembered applied 900 1000@3", "remembered INSUFFICIENT_FUNDS 0 100@2")
	})
}

func TestARejectionLeavesTheAccountsAsTheyWere(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	accounts := func() map[string]string {
		fields, err := b.rdb.HGetAll(t.Context(), AccountsKey(b.shard)).Result()
		b.ok(err)
		delete(fields, "") // the marker follows the head
		return fields
	}
	before := accounts()
	b.expect(list(b.debit("a", "900"), b.open("a", ""), b.credit("nobody", "1"), b.credit("a", most),
		changed(b.credit("a", "1"), func(c *ledgerv1.Command) { c.Currency = "JPY" }), b.repair("a", "", "1 2 USD/2", "g1")),
		"INSUFFICIENT_FUNDS 0 100@2", "ACCOUNT_EXISTS 0 100@2", "ACCOUNT_UNKNOWN 0 -", "LIMIT_EXCEEDED 0 100@2", "CURRENCY_MISMATCH 0 100@2", "SEQUENCE_MISMATCH 0 100@2")
	if after := accounts(); !maps.Equal(before, after) {
		t.Errorf("accounts %v became %v", before, after)
	}
}

func TestAFullRedisChangesNothingAndIsNoOutcome(t *testing.T) {
	t.Parallel()
	server, err := sandbox.StartRedis(t.Context(), sandbox.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	b := busy(t, setupOn(t, client(t, 3, server.Addr())))
	call := b.call(b.credit("a", "1"), b.open("c", ""))
	b.ok(b.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	b.untouched("full", func() {
		if r := b.store.Apply(t.Context(), call); r.Err == nil || !strings.Contains(r.Err.Error(), "OOM") || errors.Is(r.Err, ErrOutOfSync) {
			t.Errorf("a full Redis: %+v", r)
		}
		if _, err := b.store.Replay(t.Context(), b.shard, b.point(), nil, "g2"); err == nil {
			t.Error("a full Redis took a replay")
		}
	})
	b.whole() // reading goes on
	b.ok(b.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	b.said(b.run(call), "applied 1 101@3", "applied 0 0@1")
}
