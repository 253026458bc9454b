package e2e

import (
	"context"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/e2e/books"
	"github.com/hotledger/hotledger/e2e/data"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/producer/importer"
	"github.com/hotledger/hotledger/projector/export"
	"github.com/hotledger/hotledger/reconciler"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/topics"
)

// awaitDecided waits until the writers' group has committed every command, those that the ledger asked of itself too, and everybody can read what
// came of it: Apache Kafka confirms a commit before its markers are written, and the offsets may show it before the events do.
func (w *whole) awaitDecided(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		left, err := w.auditor().Undecided(ctx, w.Writer.Group)
		if err != nil && ctx.Err() != nil {
			t.Fatalf("wait until everything is decided: %v", err)
		}
		if err == nil && left == 0 {
			return
		}
	}
}

func (w *whole) count(t *testing.T, topic string) int {
	t.Helper()
	client, err := kafka.NewClient(w.Writer.Kafka, zap.NewNop(), kgo.ConsumeTopics(topic), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left, n := map[int32]int64{}, 0 // partitions to be read, with their ends: the last record of each is a marker
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	for len(left) > 0 {
		client.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			end, unread := left[r.Partition]
			if unread && r.Offset < end && !r.Attrs.IsControl() {
				n++
			}
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return n
}

func TestACarelessWorkloadIsAudited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.serve(t)
	load := newWorkload(t, 4)
	load.open(t, w)
	poisoned := load.send(t, w.Writer.Kafka, 20_000)
	w.awaitDecided(t)
	verdict := w.audit(t)
	t.Logf("%d commands, %d events, %d accounts, %d poison records", verdict.Commands, verdict.Events, verdict.Accounts, poisoned)
	if got := w.count(t, topics.DeadLetters); got < poisoned || poisoned == 0 {
		t.Errorf("%d dead letters for %d poison records", got, poisoned)
	}
	w.reconcileClean(t)
}

// reconcileClean fails the test if the reconciler finds more than the poison.
func (w *whole) reconcileClean(t *testing.T) {
	t.Helper()
	report, err := w.Reconcile(t.Context())
	if err != nil || report.Verdict == reconciler.CouldNotTell {
		t.Fatalf("reconciler: %+v %v", report, err)
	}
	for _, b := range report.Breaks {
		if b.Class != reconciler.DeadLettersUnattended { // the poison lies there
			t.Errorf("reconciler: %s %s: %s", b.Class, b.Account, b.Detail)
		}
	}
}

func TestRealInputComesOutAsItsOwnersSay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.serve(t)
	imported := func() (total importer.Summary) {
		for _, rows := range []importer.Rows{data.Statements(), data.Household()} {
			s, err := importer.Run(t.Context(), w.client, rows, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Clean() {
				t.Fatalf("import: %+v", s)
			}
			total.Applied += s.Applied
			total.AlreadyKnown += s.AlreadyKnown
		}
		return total
	}
	first := imported()
	w.audit(t)
	events := w.count(t, topics.Events)
	second := imported()
	if second.Applied != 0 || second.AlreadyKnown != first.Applied {
		t.Errorf("second import: %+v, the first: %+v", second, first)
	}
	w.audit(t)
	if again := w.count(t, topics.Events); again != events {
		t.Errorf("the second import made %d events", again-events)
	}
	answers, err := data.Answers()
	if err != nil {
		t.Fatal(err)
	}
	totals, err := books.AddUp(t.Context(), w.Projector.ClickHouse, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		unit, err := money.ParseUnit(a.Currency)
		if err != nil {
			t.Fatal(err)
		}
		if got := totals[books.Key{Account: a.Account, Commodity: export.Commodity(unit)}]; !got.Equal(decimal.RequireFromString(a.Balance)) {
			t.Errorf("hledger says %s has %s %s, the answer is %s", a.Account, got, unit.Code, a.Balance)
		}
	}
}

func TestSubmitTellsTheCommittedOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.serve(t)
	submit := func(c *ledgerv1.Command) *ledgerv1.Outcome {
		o, err := w.client.Submit(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	open := &ledgerv1.Command{CommandId: "open", Operation: ledgerv1.Operation_OPERATION_OPEN, Account: "till", Currency: "POINTS/0"}
	credit := &ledgerv1.Command{CommandId: "credit", Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: "till", Currency: "POINTS/0", Amount: "100"}
	debit := &ledgerv1.Command{CommandId: "debit", Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: "till", Currency: "POINTS/0", Amount: "101"}
	submit(open)
	if o := submit(credit); o.GetAfter().GetBalance() != "100" || o.GetAfter().GetSequence() != 2 {
		t.Errorf("credit: %v", o)
	}
	rejected := submit(debit)
	if rejected.GetReason() != ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS {
		t.Errorf("debit: %v", rejected)
	}
	credit.CommandId = "credit again"
	submit(credit)
	if again := submit(debit); again.GetPosition() != rejected.GetPosition() || again.GetReason() != rejected.GetReason() {
		t.Errorf("the same id now: %v, before: %v", again, rejected)
	}
	debit.Amount = "1"
	if o := submit(debit); o.GetReason() != ledgerv1.Reason_REASON_COMMAND_ID_REUSED {
		t.Errorf("the same id with another payload: %v", o)
	}
	account, ok, err := lua.New(w.Redis).Account(t.Context(), topics.ShardOf("till", 4), "till")
	if err != nil || !ok || account.Balance != 200 {
		t.Errorf("till: %+v %t %v", account, ok, err)
	}
	w.audit(t)
}
