package books

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/e2e/auditor"
	"github.com/hotledger/hotledger/e2e/data"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/e2e/workload"
	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/producer/importer"
)

// Options of Run.
type Options struct {
	Seed     uint64 // of the random workload
	Commands int    // of the random workload
	Dir      string // where the exports go
	Logger   *zap.Logger
	Out      io.Writer
}

const shards = 4

// Run starts a ledger, fills it with real and random input, and lets hledger and beancount judge it.
func Run(ctx context.Context, o Options) (err error) {
	start := time.Now()
	dir, err := os.MkdirTemp("", "hotledger-books-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	say(o.Out, "== Starting Kafka, Redis and ClickHouse, and the services, in one process\n")
	engines, err := stack.Start(ctx, stack.Options{Shards: shards, Kafka: true, Redis: true, ClickHouse: true, ClickHouseInProcess: true, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	ledger, err := stack.Connect(engines, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if err := serve(ctx, ledger); err != nil {
		return err
	}
	if err := Fill(ctx, ledger, o); err != nil {
		return err
	}
	if err := summarize(ctx, ledger, o.Out); err != nil {
		return err
	}
	say(o.Out, "\n== Exporting, and asking hledger and bean-check\n")
	verdict, err := JudgeOf(ledger).Check(ctx, o.Dir)
	if err != nil {
		return err
	}
	say(o.Out, "   hledger check --strict   every entry balances, %d stated balances are right\n", verdict.Entries)
	say(o.Out, "   bean-check               the same, by days\n")
	say(o.Out, "   hledger balance          %d balances in %d currencies = trial balance; %d accounts = Redis = ClickHouse\n\n", verdict.Balances, verdict.Currencies, verdict.Accounts)
	say(o.Out, "books agree (%.0f s)\n", time.Since(start).Seconds())
	return nil
}

func serve(ctx context.Context, ledger *stack.Ledger) error {
	if err := ledger.EnsureTopics(ctx); err != nil {
		return err
	}
	if _, err := ledger.StartWriter(); err != nil {
		return err
	}
	_, err := ledger.StartProjector()
	return err
}

// JudgeOf is the judge of a ledger.
func JudgeOf(l *stack.Ledger) Judge {
	return Judge{Config: l.Projector.ClickHouse, ClickHouse: l.ClickHouse, Redis: l.Redis, Shards: l.Writer.Kafka.Shards}
}

// Fill imports the real input, plays the script, sends the random workload, and returns when the ledger is quiet.
func Fill(ctx context.Context, ledger *stack.Ledger, o Options) error {
	client, err := ledger.Producer(ctx, "books")
	if err != nil {
		return err
	}
	defer client.Close()
	say(o.Out, "== Importing 53 bank statements, and three years of a household's cash with its transfers\n")
	for _, rows := range []importer.Rows{data.Statements(), data.Household()} {
		summary, err := importer.Run(ctx, client, rows, nil)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		if !summary.Clean() {
			return disagree("import: %+v", summary)
		}
	}
	say(o.Out, "== A hold that expires, groups, transfers that are refused, reversals, hostile names\n")
	if err := play(ctx, client); err != nil {
		return err
	}
	say(o.Out, "== %d random commands, seed %d\n", o.Commands, o.Seed)
	random := workload.New(o.Seed, ledger.Writer.Kafka.Shards)
	if err := random.SendOpening(ctx, ledger.Writer.Kafka); err != nil {
		return err
	}
	if _, err := random.Send(ctx, ledger.Writer.Kafka, o.Commands); err != nil {
		return err
	}
	return awaitQuiet(ctx, ledger, client)
}

const (
	quietMax  = 2 * time.Minute
	quietLook = 100 * time.Millisecond
)

// awaitQuiet waits until every command is decided, no hold is about to expire, and every event is in ClickHouse.
func awaitQuiet(ctx context.Context, ledger *stack.Ledger, client *producer.Client) error {
	ctx, cancel := context.WithTimeout(ctx, quietMax)
	defer cancel()
	audit := auditor.Ledger{Kafka: ledger.Writer.Kafka}
	for {
		left, err := audit.Undecided(ctx, ledger.Writer.Group)
		if err != nil {
			return err
		}
		positions, err := client.Positions(ctx)
		if err != nil {
			return err
		}
		if err := ledger.AwaitProjected(ctx, positions); err != nil {
			return err
		}
		var expiring uint64
		err = ledger.ClickHouse.QueryRow(ctx, fmt.Sprintf("SELECT countIf(expires_at < now64(3) + INTERVAL 1 MINUTE) FROM %s.open_holds", ledger.Projector.ClickHouse.FinanceDatabase)).Scan(&expiring)
		if err != nil {
			return fmt.Errorf("read open holds: %w", err)
		}
		if left == 0 && expiring == 0 {
			return nil
		}
		select {
		case <-time.After(quietLook):
		case <-ctx.Done():
			return fmt.Errorf("not quiet within %s: %d commands undecided, %d holds to expire: %w", quietMax, left, expiring, context.Cause(ctx))
		}
	}
}

// summarize says what became of each kind of command.
func summarize(ctx context.Context, ledger *stack.Ledger, out io.Writer) error {
	rows, err := ledger.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT multiIf(startsWith(command_id, '@expire/'), 'release, by expiry', startsWith(command_id, '@credit/'), 'credit, by transfer', operation) AS what,
		countIf(status = 'applied'), countIf(status = 'rejected') FROM %s.journal GROUP BY what ORDER BY what`, ledger.Projector.ClickHouse.FinanceDatabase))
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	say(out, "\n   %-22s%8s%10s\n", "COMMAND", "APPLIED", "REJECTED")
	for rows.Next() {
		var what string
		var applied, rejected uint64
		if err := rows.Scan(&what, &applied, &rejected); err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		say(out, "   %-22s%8d%10d\n", what, applied, rejected)
	}
	return rows.Err()
}

func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
