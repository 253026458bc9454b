package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hotledger/hotledger/e2e/auditor"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/producer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// whole is one private ledger: engines, services and a client. Its engines are the sandbox's, or those that the environment names.
type whole struct {
	*stack.Ledger
	engines *stack.Engines
	client  *producer.Client
}

// patience bounds every wait of a test; it is far above what a loaded machine needs.
const patience = 2 * time.Minute

// setup starts engines and connects; it starts no service.
func setup(t *testing.T) *whole {
	t.Helper()
	return setupOn(t, stack.Options{})
}

// setupOn does so with the engines' kinds that choice names. environ adds to the services' configuration.
// LEDGER_TEST_KAFKA=apache gives every test the real Apache Kafka.
func setupOn(t *testing.T, choice stack.Options, environ ...string) *whole {
	t.Helper()
	choice.Apache = choice.Apache || os.Getenv("LEDGER_TEST_KAFKA") == "apache"
	choice.Shards, choice.Kafka, choice.Redis, choice.ClickHouse, choice.Dir = 4, true, true, true, t.TempDir()
	engines, err := stack.Start(t.Context(), choice)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engines.Close(); err != nil {
			t.Error(err)
		}
	})
	level := zap.ErrorLevel
	if os.Getenv("LEDGER_TEST_LOG") != "" {
		level = zap.InfoLevel
	}
	l, err := stack.Connect(engines, zaptest.NewLogger(t, zaptest.Level(level)), append(environ, "LEDGER_WRITER_INSTANCE_ID="+t.Name())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := l.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &whole{Ledger: l, engines: engines}
	if w.client, err = l.Producer(t.Context(), "e2e"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	return w
}

func (w *whole) serve(t *testing.T) {
	t.Helper()
	if _, err := w.StartWriter(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.StartProjector(); err != nil {
		t.Fatal(err)
	}
}

// settle waits until everything decided is projected.
func (w *whole) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	positions, err := w.client.Positions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AwaitProjected(ctx, positions); err != nil {
		t.Fatal(err)
	}
}

func (w *whole) auditor() auditor.Ledger {
	return auditor.Ledger{
		Kafka: w.Writer.Kafka, Redis: w.Redis, ClickHouse: w.ClickHouse, Window: w.Writer.DedupeWindow,
		Database: w.Projector.ClickHouse.Database, FinanceDatabase: w.Projector.ClickHouse.FinanceDatabase,
	}
}

// audit fails the test unless the auditor agrees with the ledger, having settled it.
func (w *whole) audit(t *testing.T) *auditor.Verdict {
	t.Helper()
	w.settle(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	verdict, err := w.auditor().Audit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := verdict.Err(); err != nil {
		t.Fatalf("the auditor disagrees:\n%v", err)
	}
	return verdict
}
