// Package demo does Hotledger's main job on real input, in front of a reader: import, project, compare with known answers, break things on
// purpose, reconcile, repair.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/e2e/data"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/producer/importer"
	"github.com/hotledger/hotledger/reconciler"
)

// Options of Run.
type Options struct {
	// Keep leaves the engines running at the end, on the usual ports, until ctx ends.
	Keep bool
	// Logger of the services.
	Logger *zap.Logger
	Out    io.Writer
}

// ErrDisagreement says that the demo did not come out as it must.
var ErrDisagreement = errors.New("the ledger does not agree with the known answers")

const shards = 4

// demo is one run; out is what a reader sees.
type demo struct {
	out    io.Writer
	ledger *stack.Ledger
	client *producer.Client
	start  time.Time
}

// Run runs the demo. nil only if everything agreed at the end, the known answers included.
func Run(ctx context.Context, o Options) (err error) {
	d := &demo{out: o.Out, start: time.Now()}
	dir, err := os.MkdirTemp("", "hotledger-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engine := stack.Options{Shards: shards, Kafka: true, Redis: true, ClickHouse: true, ClickHouseInProcess: true, Dir: dir}
	if o.Keep {
		engine.Ports = [3]int{9092, 6379, 8123}
	}
	d.step("Starting Kafka, Redis and ClickHouse, and the four services, in one process")
	engines, err := stack.Start(ctx, engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	if d.ledger, err = stack.Connect(engines, o.Logger); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.ledger.Close()) }()
	if err := d.scenes(ctx); err != nil {
		return err
	}
	if o.Keep {
		d.keep(engines)
		<-ctx.Done()
	}
	return nil
}

// scenes are the demo in its order.
func (d *demo) scenes(ctx context.Context) error {
	if err := d.ledger.EnsureTopics(ctx); err != nil {
		return err
	}
	if _, err := d.ledger.StartWriter(); err != nil {
		return err
	}
	if _, err := d.ledger.StartProjector(); err != nil {
		return err
	}
	var err error
	if d.client, err = d.ledger.Producer(ctx, "demo"); err != nil {
		return err
	}
	defer d.client.Close()

	d.step("Importing 53 bank statements of 34 accounts, and three years of a household's cash")
	if err := d.importAll(ctx); err != nil {
		return err
	}
	d.step("Waiting until ClickHouse has every event")
	if err := d.awaitProjected(ctx); err != nil {
		return err
	}
	d.step("Balances: what Redis decided, what ClickHouse proves, and what the banks and hledger say")
	if err := d.compare(ctx); err != nil {
		return err
	}
	d.step("Breaking things on purpose, in Redis and behind the ledger's back")
	if err := d.breakThings(ctx); err != nil {
		return err
	}
	d.step("Reconciling: both sides at the same sequence; what differs is repaired by a command")
	if err := d.reconcile(ctx, reconciler.Breaks); err != nil {
		return err
	}
	d.step("Reconciling again")
	if err := d.reconcile(ctx, reconciler.Clean); err != nil {
		return err
	}
	if err := d.awaitProjected(ctx); err != nil {
		return err
	}
	wrong, err := d.disagreements(ctx, nil)
	if err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%w: %d accounts", ErrDisagreement, wrong)
	}
	answers, err := data.Answers()
	if err != nil {
		return err
	}
	d.say("\nEverything agrees: %d accounts, Redis = ClickHouse = the known answers (%.0f s).\n", len(answers), time.Since(d.start).Seconds())
	return nil
}

func (d *demo) importAll(ctx context.Context) error {
	for _, file := range []struct {
		name string
		rows importer.Rows
	}{{"statements.csv, entries.csv", data.Statements()}, {"household.csv", data.Household()}} {
		bar := newBar(file.name)
		start := time.Now()
		summary, err := importer.Run(ctx, d.client, file.rows, bar.result)
		bar.done()
		if err != nil {
			return fmt.Errorf("import %s: %w", file.name, err)
		}
		took := time.Since(start)
		d.say("  %-27s %5d commands: %d applied, %d rejected, %d bad lines (%s)\n", file.name, summary.Commands(), summary.Applied, summary.Rejected, summary.Bad, took.Round(time.Millisecond))
		if !summary.Clean() {
			return fmt.Errorf("import %s: %+v", file.name, summary)
		}
	}
	return nil
}

func (d *demo) awaitProjected(ctx context.Context) error {
	positions, err := d.client.Positions(ctx)
	if err != nil {
		return err
	}
	if err := d.ledger.AwaitProjected(ctx, positions); err != nil {
		return err
	}
	events := uint64(0)
	for _, p := range positions {
		events += p
	}
	d.say("  %d events on %d shards\n", events, len(positions))
	return nil
}

func (d *demo) reconcile(ctx context.Context, want reconciler.Verdict) error {
	report, err := d.ledger.Reconcile(ctx)
	if tableErr := report.WriteTable(d.out); tableErr != nil {
		return tableErr
	}
	if err != nil {
		return err
	}
	if report.Verdict != want {
		return fmt.Errorf("%w: the reconciler says %q, expected %q", ErrDisagreement, report.Verdict, want)
	}
	return nil
}

func (d *demo) step(text string) { d.say("\n== %s\n", text) }

func (d *demo) say(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }

func (d *demo) keep(e *stack.Engines) {
	redis := "6379"
	d.say(`
The engines keep running until you press Ctrl-C. Ask them, from another terminal:

  curl 'http://%[1]s/' --data-binary 'SELECT account, currency, balance, available FROM finance.balances ORDER BY account FORMAT PrettyCompact'
  curl 'http://%[1]s/' --data-binary 'SELECT * FROM finance.freshness FORMAT PrettyCompact'
  curl 'http://%[1]s/' --data-binary "SELECT * FROM finance.account_statement(account='bank-01:EUR', from='2000-01-01', to='2100-01-01') FORMAT PrettyCompact"
  redis-cli -p %[2]s hgetall 'ledger:{0}:accounts'
  cd producer && go run ./cmd/producer submit debit --account bank-01:EUR --amount 1.00 --currency EUR
  cd reconciler && go run ./cmd/reconciler run
`, e.ClickHouseAddr, redis)
}
