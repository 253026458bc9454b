// Package export writes the books in formats that other programs read: hledger and beancount, which then judge them with their own
// arithmetic, and CSV, NDJSON and Parquet for everything else.
package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hotledger/hotledger/chassis/clickhouse"
)

// Format is a file format.
type Format string

// The formats. The first two hold whole books, with what the ledger said about each balance as assertions; the others hold postings, one
// per line, with the columns of finance.postings.
const (
	Hledger   Format = "hledger"
	Beancount Format = "beancount"
	CSV       Format = "csv"
	NDJSON    Format = "ndjson"
	Parquet   Format = "parquet"
)

// Formats are all formats.
var Formats = []Format{Hledger, Beancount, CSV, NDJSON, Parquet}

// Options of Run.
type Options struct {
	Format Format
	// From and To bound the business dates: From <= date < To. Zero means no bound. Not for books, which are whole.
	From, To time.Time
}

// Validate refuses a format that there is not, and a period where there can be none.
func (o Options) Validate() error {
	switch {
	case !slices.Contains(Formats, o.Format):
		return fmt.Errorf("format %q: want one of %v", o.Format, Formats)
	case o.books() && (!o.From.IsZero() || !o.To.IsZero()):
		return fmt.Errorf("format %s: holds whole books, whose balances begin at the beginning; leave the period out", o.Format)
	case !o.From.IsZero() && !o.To.IsZero() && !o.From.Before(o.To):
		return errors.New("period: ends before it begins")
	}
	return nil
}

func (o Options) books() bool { return o.Format == Hledger || o.Format == Beancount }

// patience bounds a whole export; the driver's own patience of a minute is about one silence, and ClickHouse is silent while it sorts.
const patience = 2 * time.Hour

// file is one of the formats. A file is written in the order of booking: an account's opening before what is booked on it.
type file interface {
	open(e *entry) error
	book(e *entry) error
	close() error
}

// Run writes what ClickHouse has into out. It refuses while an event is missing in ClickHouse, for then no balance would be right.
func Run(ctx context.Context, cfg clickhouse.Config, o Options, out io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := clickhouse.Open(cfg)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is in flight any more
	if err := whole(ctx, conn, cfg.FinanceDatabase); err != nil {
		return err
	}
	if o.Format == Parquet { // its writer is ClickHouse's own
		return clickhouse.Stream(ctx, cfg, parquetSQL(cfg.FinanceDatabase, o), out)
	}
	buffer := bufio.NewWriterSize(out, 1<<16)
	to := map[Format]func(*bufio.Writer) file{Hledger: newHledger, Beancount: newBeancount, CSV: newCSV, NDJSON: newNDJSON}[o.Format](buffer)
	for e, err := range entries(ctx, conn, o) {
		if err != nil {
			return err
		}
		write := to.book
		if e.operation == "open" {
			write = to.open
		}
		if err := write(e); err != nil {
			return fmt.Errorf("write export: %w", err)
		}
	}
	if err := errors.Join(to.close(), buffer.Flush()); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// whole tells whether no event is missing.
func whole(ctx context.Context, conn driver.Conn, finance string) error {
	var gaps []uint16
	if err := conn.QueryRow(ctx, "SELECT groupArray(shard) FROM "+finance+".freshness WHERE state = 'gap'").Scan(&gaps); err != nil {
		return fmt.Errorf("read freshness: %w", err)
	}
	if len(gaps) > 0 {
		return fmt.Errorf("events of shards %v are missing in ClickHouse, so the books would be wrong; %s.freshness says more", gaps, finance)
	}
	return nil
}

// dates is the period as a condition.
func (o Options) dates() string {
	var text strings.Builder
	if !o.From.IsZero() {
		text.WriteString(" AND business_date >= '" + o.From.Format(time.DateOnly) + "'")
	}
	if !o.To.IsZero() {
		text.WriteString(" AND business_date < '" + o.To.Format(time.DateOnly) + "'")
	}
	return text.String()
}

// parquetSQL selects what CSV has, with types that every reader of Parquet knows: 128-bit integers are none.
func parquetSQL(finance string, o Options) string {
	return `SELECT account, counter_account, side, toInt64(amount_minor) AS amount_minor, amount, currency, exponent, booked_at, effective_at,
	business_date, transaction_id, command_id, leg, operation, reference, description, shard, position
FROM ` + finance + `.postings WHERE true` + o.dates() + ` ORDER BY booked_at, shard, position, leg, startsWith(account, '@') FORMAT Parquet`
}
