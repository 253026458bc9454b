package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/hotledger/hotledger/e2e/data"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/topics"
)

// compare prints every account from both sides beside its known answer.
func (d *demo) compare(ctx context.Context) error {
	rows := table.NewWriter()
	rows.SetStyle(table.StyleLight)
	rows.Style().Options.SeparateColumns = false
	rows.Style().Options.DrawBorder = false
	rows.AppendHeader(table.Row{"account", "sequence", "redis", "clickhouse", "known answer", ""})
	rows.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}, {Number: 4, Align: text.AlignRight}, {Number: 5, Align: text.AlignRight}})
	wrong, err := d.disagreements(ctx, rows)
	if err != nil {
		return err
	}
	for line := range strings.Lines(rows.Render()) {
		d.say("  %s", line)
	}
	d.say("\n")
	if wrong > 0 {
		return fmt.Errorf("%w: %d accounts", ErrDisagreement, wrong)
	}
	return nil
}

// disagreements counts the accounts on which Redis, ClickHouse and the known answer are not one. It fills rows, if there are any.
func (d *demo) disagreements(ctx context.Context, rows table.Writer) (wrong int, err error) {
	answers, err := data.Answers()
	if err != nil {
		return 0, err
	}
	store := lua.New(d.ledger.Redis)
	for _, a := range answers {
		unit, err := money.ParseUnit(a.Currency)
		if err != nil {
			return 0, err
		}
		known, err := money.ParseMajor(a.Balance, unit)
		if err != nil {
			return 0, fmt.Errorf("known answer of %s: %w", a.Account, err)
		}
		redis, sequence := "missing", uint64(0)
		account, ok, err := store.Account(ctx, topics.ShardOf(a.Account, shards), a.Account)
		if err != nil {
			return 0, err
		}
		if ok {
			redis, sequence = money.FormatMajor(account.Balance, unit), account.Sequence
		}
		proven, err := d.proven(ctx, a.Account, unit)
		if err != nil {
			return 0, err
		}
		want, mark := money.FormatMajor(known, unit), "ok"
		if redis != want || proven != want {
			wrong++
			mark = "DIFFERS"
		}
		if rows != nil {
			rows.AppendRow(table.Row{a.Account, sequence, redis, proven, want + " " + a.Currency, mark})
		}
	}
	return wrong, nil
}

// proven is the balance as finance sees it.
func (d *demo) proven(ctx context.Context, account string, unit money.Unit) (string, error) {
	query := fmt.Sprintf("SELECT toInt64(balance_minor) FROM %s.balances WHERE account = ?", d.ledger.Projector.ClickHouse.FinanceDatabase)
	var minor int64
	if err := d.ledger.ClickHouse.QueryRow(ctx, query, account).Scan(&minor); err != nil {
		return "", fmt.Errorf("read balance of %s from ClickHouse: %w", account, err)
	}
	return money.FormatMajor(minor, unit), nil
}
