package books

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/projector/export"
	"github.com/hotledger/hotledger/schemas/money"
)

// compareControlled holds Redis, finance.balances and hledger's totals against each other, account by account.
func (j Judge) compareControlled(ctx context.Context, totals Totals) (int, error) {
	redis, err := j.accounts(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := j.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT account, toString(balance), toString(held), toString(floor), toString(ceiling), status, sequence, concat(currency, '/', toString(exponent)), is_proven
		FROM %s.balances ORDER BY account`, j.Config.FinanceDatabase))
	if err != nil {
		return 0, fmt.Errorf("read balances: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	n := 0
	for ; rows.Next(); n++ {
		var account, balance, held, floor, status, unitText string
		var ceiling *string
		var sequence uint64
		var proven bool
		if err := rows.Scan(&account, &balance, &held, &floor, &ceiling, &status, &sequence, &unitText, &proven); err != nil {
			return n, fmt.Errorf("read balances: %w", err)
		}
		unit, err := money.ParseUnit(unitText)
		if err != nil {
			return n, err
		}
		a, ok := redis[account]
		switch said := totals[Key{account, export.Commodity(unit)}]; {
		case !ok:
			return n, disagree("%s: ClickHouse has %s %s, Redis has no such account", account, balance, unitText)
		case !proven:
			return n, disagree("%s: its changes in ClickHouse do not add up to what the ledger stated", account)
		case !same(balance, a.Balance, unit) || !same(said.String(), a.Balance, unit):
			return n, disagree("%s: Redis has %s, ClickHouse %s, hledger %s %s", account, money.FormatMajor(a.Balance, unit), balance, said, unitText)
		case !same(held, a.Held, unit) || !same(floor, a.Floor, unit) || a.Sequence != sequence || a.Status != status || a.Unit != unit.String() || !sameCeiling(ceiling, a.Ceiling, unit):
			return n, disagree("%s: Redis has %+v, ClickHouse held %s, floor %s, ceiling %v, sequence %d, %s, %s", account, a, held, floor, ceiling, sequence, unitText, status)
		}
		delete(redis, account)
	}
	for account := range redis {
		return n, disagree("%s: Redis has the account, ClickHouse does not", account)
	}
	return n, rows.Err()
}

// accounts reads Redis.
func (j Judge) accounts(ctx context.Context) (map[string]lua.Account, error) {
	store, all := lua.New(j.Redis), map[string]lua.Account{}
	for shard := range j.Shards {
		for cursor, begin := uint64(0), true; begin || cursor != 0; begin = false {
			page, corrupt, next, err := store.Accounts(ctx, shard, cursor, 1000)
			if err != nil {
				return nil, err
			}
			for account, record := range corrupt {
				return nil, disagree("%s: Redis has %q", account, record)
			}
			for _, a := range page {
				all[a.ID] = a
			}
			cursor = next
		}
	}
	return all, nil
}

func same(text string, minor int64, unit money.Unit) bool {
	value, err := decimal.NewFromString(text)
	return err == nil && value.Equal(decimal.New(minor, -int32(unit.Exponent)))
}

func sameCeiling(text *string, minor string, unit money.Unit) bool {
	if text == nil || minor == "" {
		return text == nil && minor == ""
	}
	v, err := money.ParseMinor(minor)
	return err == nil && same(*text, v, unit)
}

// compareTrialBalance holds hledger's totals of all accounts against the trial balance, which has to balance, with nothing left in transit.
func (j Judge) compareTrialBalance(ctx context.Context, totals Totals) (balances, currencies int, err error) {
	rows, err := j.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT account, concat(currency, '/', toString(exponent)) AS unit, toString(balance), is_balanced
		FROM %s.trial_balance(as_of = '2200-01-01') ORDER BY unit, account`, j.Config.FinanceDatabase))
	if err != nil {
		return 0, 0, fmt.Errorf("read trial balance: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	units := map[string]bool{}
	for ; rows.Next(); balances++ {
		var account, unitText, text string
		var balanced bool
		if err := rows.Scan(&account, &unitText, &text, &balanced); err != nil {
			return balances, 0, fmt.Errorf("read trial balance: %w", err)
		}
		unit, errUnit := money.ParseUnit(unitText)
		balance, errBalance := decimal.NewFromString(text)
		if err := cmp.Or(errUnit, errBalance); err != nil {
			return balances, 0, err
		}
		units[unitText] = true
		at := Key{account, export.Commodity(unit)}
		said, known := totals[at]
		switch {
		case !balanced:
			return balances, 0, disagree("the trial balance in %s does not add up to 0", unitText)
		case !said.Equal(balance) || (!known && !balance.IsZero()):
			return balances, 0, disagree("%s: the trial balance has %s, hledger %s %s", account, balance, said, unitText)
		case account == "@transit" && !balance.IsZero():
			return balances, 0, disagree("%s %s stand on @transit, though all is quiet", balance, unitText)
		}
		delete(totals, at)
	}
	left := []string{}
	for at, total := range totals {
		left = append(left, fmt.Sprintf("%s: hledger has %s %s, the trial balance nothing", at.Account, total, at.Commodity))
	}
	if len(left) > 0 {
		return balances, 0, disagree("%s", slices.Min(left))
	}
	return balances, len(units), rows.Err()
}

// compareHolds holds the open holds against what their accounts have set aside.
func (j Judge) compareHolds(ctx context.Context) error {
	var account, holds, held string
	rows, err := j.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT b.account, toString(sum(h.remaining)), toString(any(b.held))
		FROM %[1]s.balances AS b LEFT JOIN %[1]s.open_holds AS h ON h.account = b.account GROUP BY b.account HAVING sum(h.remaining_minor) != any(b.held_minor) ORDER BY b.account LIMIT 1`, j.Config.FinanceDatabase))
	if err != nil {
		return fmt.Errorf("read open holds: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	if rows.Next() {
		if err := rows.Scan(&account, &holds, &held); err != nil {
			return fmt.Errorf("read open holds: %w", err)
		}
		return disagree("%s: its open holds add up to %s, it has %s held", account, holds, held)
	}
	return rows.Err()
}
