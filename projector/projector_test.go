package projector

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestEveryCommittedEventIsOneRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(20, 0, 1, 2)
	p := b.start()
	b.awaitRows(0, 1, 2)
	b.book(13, 1)
	b.book(1, 0)
	b.awaitRows(0, 1, 2)
	b.awaitMark(1)
	b.checkRows(0, 1, 2)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestRowSaysWhatTheEventSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(5, 1)
	b.start()
	b.awaitRows(1)
	type line struct {
		Account, Operation, Status, Reason, Unit, Counter, Reference, Source, AccountStatus string
		Sequence, Position, BatchTo, SequenceAfter                                          uint64
		Delta, Balance                                                                      int64
		Decided, Effective                                                                  time.Time
		Metadata                                                                            map[string]string
	}
	read := func(position int) (l line) {
		b.must(b.rows.QueryRow(b.ctx, `SELECT account, toString(operation), toString(status), reason, unit, counter_account, reference, source,
			sequence, position, batch_to, delta, balance_after, decided_at, effective_at, metadata,
			sequence_after, account_status FROM events WHERE position = ?`, position).
			Scan(&l.Account, &l.Operation, &l.Status, &l.Reason, &l.Unit, &l.Counter, &l.Reference, &l.Source,
				&l.Sequence, &l.Position, &l.BatchTo, &l.Delta, &l.Balance, &l.Decided, &l.Effective, &l.Metadata, &l.SequenceAfter, &l.AccountStatus))
		return l
	}
	opened, credited, refused := read(1), read(4), read(5)
	if opened.Operation != "open" || opened.Sequence != 1 || opened.Counter != "" || opened.Delta != 0 {
		t.Errorf("opening: %+v", opened)
	}
	if credited.Operation != "credit" || credited.Status != "applied" || credited.Sequence != 4 || credited.Delta != 10 || credited.Balance != 30 ||
		credited.Counter != "@world" || credited.Unit != "EUR/2" || credited.Metadata["n"] != "4" || credited.Reference != "ref 4" || credited.Source != "test" ||
		!credited.Decided.Equal(decidedAt) || !credited.Effective.Equal(decidedAt) || credited.BatchTo != 5 {
		t.Errorf("credit: %+v", credited)
	}
	if refused.Operation != "debit" || refused.Status != "rejected" || refused.Reason != "INSUFFICIENT_FUNDS" || refused.Sequence != 0 || refused.Balance != 30 {
		t.Errorf("refused debit: %+v", refused)
	}
	for l, want := range map[*line]uint64{&opened: 1, &credited: 4, &refused: 4} { // the account is known whatever became of the command
		if l.SequenceAfter != want || l.AccountStatus != "active" {
			t.Errorf("account is %q at %d, expected active at %d", l.AccountStatus, l.SequenceAfter, want)
		}
	}
}

func TestAbortedTransactionsAreInvisible(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(3, 0)
	// A writer that fails after the commit of position 3 produces 4 to 6, aborts, and decides 4 to 6 again.
	before := b.ledger.links[0]
	balance, sequence := b.ledger.balance[0], b.ledger.sequence[0]
	b.produce(kgo.TryAbort, b.ledger.records(t, 3, 0)...)
	b.ledger.links[0], b.ledger.balance[0], b.ledger.sequence[0] = before, balance, sequence
	b.start()
	b.book(4, 0)
	b.awaitRows(0)
	b.checkRows(0)
}

func TestDrainAcknowledgesWhatIsInserted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(10, 0)
	p := b.start(func(c *Config) { c.BatchWait = 300 * time.Millisecond })
	b.awaitRows(0)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if m := b.mark(0); m == nil || m.intended() || m.Done != 10 {
		t.Fatalf("mark after the drain: %+v", m)
	}
}

func TestMonthChangeCutsTheBatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.timestampType("CreateTime") // so that the test can be the broker's clock
	end := time.Date(2026, 1, 31, 23, 59, 59, 999e6, time.UTC)
	for i, record := range b.ledger.records(t, 6, 0) {
		record.Timestamp = end.Add(time.Duration(i-2) * time.Millisecond)
		b.produce(kgo.TryCommit, record)
	}
	b.timestampType("LogAppendTime")
	b.start(func(c *Config) { c.BatchRows, c.BatchWait = 1000, 200*time.Millisecond })
	b.awaitRows(0)
	b.checkRows(0)
	var ends []uint64
	b.must(b.rows.QueryRow(b.ctx, "SELECT groupArray(DISTINCT batch_to) FROM (SELECT batch_to FROM events ORDER BY position)").Scan(&ends))
	if len(ends) != 2 || ends[0] != 3 || ends[1] != 6 {
		t.Fatalf("batches end at %v, want [3 6]: the month ends after position 3", ends)
	}
}

func TestOperationThatThisLedgerDoesNotKnow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(2, 0)
	event := b.ledger.event(0, func(c *ledgerv1.Command) { c.Operation = 99 })
	b.produce(kgo.TryCommit, recordOf(t, 0, event))
	b.book(2, 0)
	b.start()
	b.awaitRows(0)
	b.checkRows(0)
}

func TestMetricsTellHowFarAShardIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(10, 0)
	r := b.start()
	b.awaitMark(0)
	b.must(b.client.BeginTransaction())
	b.must(b.client.ProduceSync(b.ctx, b.ledger.records(t, 4, 0)...).FirstErr()) // hangs open
	r.setLag(b.ctx, b.admin)
	if got := testutil.ToFloat64(r.metrics.lag.WithLabelValues("0")); got != 5 { // the marker of the first, and 4
		t.Errorf("lag %v", got)
	}
	if got := testutil.ToFloat64(r.metrics.positions.WithLabelValues("0")); got != 10 {
		t.Errorf("position %v", got)
	}
	if got := testutil.ToFloat64(r.metrics.rows.WithLabelValues("0")); got != 10 {
		t.Errorf("rows %v", got)
	}
	if got := testutil.ToFloat64(r.metrics.through.WithLabelValues("0")); got < float64(time.Now().Add(-time.Hour).Unix()) {
		t.Errorf("complete through %v", got)
	}
	b.must(b.client.EndTransaction(b.ctx, kgo.TryCommit))
	b.awaitRows(0)
}

func TestWatermarkIsReadFromTheProjection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book(10, 0, 1)
	b.start()
	b.awaitRows(0, 1)
	plan, err := b.rows.Query(b.ctx, "EXPLAIN projections = 1 "+watermarkSQL, uint16(0))
	b.must(err)
	defer plan.Close()
	var text strings.Builder
	for plan.Next() {
		var line string
		b.must(plan.Scan(&line))
		text.WriteString(line + "\n")
	}
	b.must(plan.Err())
	if !strings.Contains(text.String(), "watermark") {
		t.Fatalf("the projection is not used:\n%s", text.String())
	}
}

// Every column that an outcome alone fills, in and out of ClickHouse.
func TestRowSaysWhatTheOutcomeSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	expires := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for i, e := range []struct {
		outcome *ledgerv1.Outcome
		command *ledgerv1.Command
		want    string
	}{
		{
			&ledgerv1.Outcome{Delta: "-30", Legs: []*ledgerv1.Leg{{CounterAccount: "@fees", Amount: "10"}, {CounterAccount: "@shop", Amount: "20"}}, BusinessDate: "2026-11-30"},
			&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: "30"},
			"debit,,[('@fees',10),('@shop',20)],7,,0,\\N,,,0,,,0,2026-11-30",
		},
		{
			&ledgerv1.Outcome{Delta: "-30", Legs: []*ledgerv1.Leg{{CounterAccount: "@transit", Amount: "30"}}},
			&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_TRANSFER, Amount: "30", CounterAccount: "bob"},
			"transfer,@transit,[('@transit',30)],7,,0,\\N,,,0,,bob,0,2026-03-04",
		},
		{
			&ledgerv1.Outcome{Delta: "0", Hold: &ledgerv1.HoldState{HoldId: "h1", Remaining: "25", ExpiresAt: timestamppb.New(expires), CounterAccount: "@shop"}},
			&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_HOLD, Amount: "25", CounterAccount: "@shop"},
			"hold,,[],7,h1,25,2026-12-01 00:00:00.000,@shop,,0,,,0,2026-03-04",
		},
		{
			&ledgerv1.Outcome{Delta: "-5", Reversal: &ledgerv1.Reversal{CommandId: "@credit/t1", Total: "9"}, TransferAccount: "alice", Legs: []*ledgerv1.Leg{{CounterAccount: "@transit", Amount: "5"}}},
			&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_REVERSE, Reverse: &ledgerv1.ReverseTerms{CommandId: "t1"}},
			"reverse,@transit,[('@transit',5)],7,,0,\\N,,@credit/t1,9,alice,,0,2026-03-04",
		},
		{
			&ledgerv1.Outcome{Status: ledgerv1.Status_STATUS_REJECTED, Reason: ledgerv1.Reason_REASON_LIMIT_EXCEEDED, Delta: "0"},
			&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_TRANSFER, Amount: "31", CounterAccount: "bob"},
			"transfer,bob,[],7,,0,\\N,,,0,,,31,2026-03-04",
		},
		{
			&ledgerv1.Outcome{Status: ledgerv1.Status_STATUS_REJECTED, Reason: ledgerv1.Reason_REASON_INVALID_AMOUNT, Delta: "0"},
			&ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_RETURN, Amount: "1e3"},
			"return,,[],7,,0,\\N,,,0,,,0,2026-03-04",
		},
		{
			&ledgerv1.Outcome{Delta: "-1"}, &ledgerv1.Command{Operation: 99}, "unknown,@world,[],7,,0,\\N,,,0,,,0,2026-03-04",
		},
	} {
		o := e.outcome
		if o.Account, o.Position, o.DecidedAt = "a", uint64(i)+1, timestamppb.New(decidedAt); o.GetStatus() == 0 {
			o.Status = ledgerv1.Status_STATUS_APPLIED
		}
		if o.GetBusinessDate() == "" {
			o.BusinessDate = "2026-03-04"
		}
		o.After = &ledgerv1.AccountState{Balance: "1", Held: "2", Floor: "-3", Ceiling: "7", Sequence: 4, Unit: "EUR/2", Status: "frozen_debit"}
		var r row
		b.must(new(decoder).read(&r, &kgo.Record{Timestamp: decidedAt}, &ledgerv1.Event{Outcome: o, Command: e.command, Chain: make([]byte, chainBytes), Fingerprint: make([]byte, fingerprintBytes)}))
		block := newRows()
		block.append(0, &r)
		block.close(1)
		batch, err := b.rows.PrepareBatch(b.ctx, insertSQL)
		b.must(err)
		b.must(block.fill(batch))
		b.must(batch.Send())
		var got string
		b.must(b.rows.QueryRow(b.ctx, `SELECT formatRow('CSV', toString(operation), counter_account, toString(legs), ceiling_after, hold_id, hold_remaining, hold_expires_at,
			hold_counter_account, reversed_command_id, reversed_total, transfer_account, transfer_to, asked_amount, business_date) FROM events WHERE position = ?`, i+1).Scan(&got))
		if got = strings.ReplaceAll(strings.TrimSpace(got), `"`, ""); got != e.want {
			t.Errorf("%v\n got %s\nwant %s", e.outcome, got, e.want)
		}
	}
}
