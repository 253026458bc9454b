// Package books lets programs that are not the ledger's judge its books: hledger and beancount read the export, check every balance that
// the ledger stated, and add everything up again.
package books

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	goredis "github.com/redis/go-redis/v9"
	"github.com/shopspring/decimal"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/projector/export"
)

// ErrDisagree says that two of those who should agree do not. The text of the error is the first difference.
var ErrDisagree = errors.New("books do not agree")

func disagree(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDisagree, fmt.Sprintf(format, args...))
}

// Judge holds a quiet ledger against itself and against hledger and beancount.
type Judge struct {
	Config     clickhouse.Config // where the export reads
	ClickHouse driver.Conn
	Redis      goredis.UniversalClient
	Shards     int
}

// Verdict says what was compared.
type Verdict struct {
	Accounts   int // controlled ones, as Redis has them
	Balances   int // of all accounts, external ones too, per currency
	Entries    uint64
	Currencies int
}

// Key names a balance: one account in one commodity, as the exports spell it.
type Key struct{ Account, Commodity string }

// Totals are the balances that hledger adds up from an export, in major units.
type Totals map[Key]decimal.Decimal

// Check exports the books into dir, and returns an ErrDisagree unless all agree:
//
//	hledger check --strict    every entry balances, every balance that the ledger stated after one is right
//	bean-check                the same once more, by days
//	hledger balance           = Redis = finance.balances, for each controlled account
//	                          = finance.trial_balance, for each account and currency
func (j Judge) Check(ctx context.Context, dir string) (v Verdict, err error) {
	journal, beancount := filepath.Join(dir, "books.journal"), filepath.Join(dir, "books.beancount")
	for format, file := range map[export.Format]string{export.Hledger: journal, export.Beancount: beancount} {
		if err := exportTo(ctx, j.Config, format, file); err != nil {
			return v, err
		}
	}
	if err := judged(ctx, "hledger", "-f", journal, "check", "--strict"); err != nil {
		return v, err
	}
	if err := judged(ctx, "bean-check", "--no-cache", beancount); err != nil {
		return v, err
	}
	totals, err := hledgerBalances(ctx, journal)
	if err != nil {
		return v, err
	}
	if v.Accounts, err = j.compareControlled(ctx, totals); err != nil {
		return v, err
	}
	if v.Balances, v.Currencies, err = j.compareTrialBalance(ctx, totals); err != nil {
		return v, err
	}
	if err := j.compareHolds(ctx); err != nil {
		return v, err
	}
	err = j.ClickHouse.QueryRow(ctx, fmt.Sprintf("SELECT count() FROM %s.journal WHERE status = 'applied' AND amount_minor != 0", j.Config.FinanceDatabase)).Scan(&v.Entries)
	return v, err
}

func exportTo(ctx context.Context, cfg clickhouse.Config, format export.Format, name string) error {
	file, err := os.Create(name) //nolint:gosec // the caller's own directory
	if err != nil {
		return err
	}
	return errors.Join(export.Run(ctx, cfg, export.Options{Format: format}, file), file.Close())
}

// judged runs a program that says nothing and exits with 0 where it agrees.
func judged(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput() //nolint:gosec // one of two programs
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: scripts/install-engines.sh hledger bean-check:beancount installs it", err)
	}
	if text := strings.TrimSpace(string(out)); err != nil || text != "" {
		const textMax = 2000
		return disagree("%s: %v\n%.*s", program, err, textMax, text)
	}
	return nil
}

// AddUp exports the books into dir and lets hledger add them up.
func AddUp(ctx context.Context, cfg clickhouse.Config, dir string) (Totals, error) {
	journal := filepath.Join(dir, "books.journal")
	if err := exportTo(ctx, cfg, export.Hledger, journal); err != nil {
		return nil, err
	}
	return hledgerBalances(ctx, journal)
}

func hledgerBalances(ctx context.Context, journal string) (Totals, error) {
	out, err := exec.CommandContext(ctx, "hledger", "-f", journal, "balance", "--flat", "--empty", "--no-total", "--layout", "bare", "-O", "csv").Output() //nolint:gosec // see judged
	if err != nil {
		return nil, fmt.Errorf("hledger balance: %w", err)
	}
	lines, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("hledger balance: %w", err)
	}
	totals := Totals{}
	for _, line := range lines[1:] {
		account, err := export.ParseAccountName(line[0])
		if err != nil {
			return nil, fmt.Errorf("hledger balance: %w", err)
		}
		if line[2] == "0" && line[1] == "" {
			continue // an account that is declared and not used
		}
		if totals[Key{account, line[1]}], err = decimal.NewFromString(line[2]); err != nil {
			return nil, fmt.Errorf("hledger balance of %s: %w", account, err)
		}
	}
	return totals, nil
}
