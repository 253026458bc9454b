package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
)

// resultsAhead is how many rows may be sent before the results of the oldest are taken. The client's own limit on
// commands in flight comes first, unless OnResult is slow.
const resultsAhead = 4096

// Status is what became of a row.
type Status string

// The statuses. Every row has exactly one.
const (
	Applied      Status = "applied"       // by this import
	AlreadyKnown Status = "already known" // the ledger applied it before this import began, or earlier in the file
	Rejected     Status = "rejected"      // by the ledger, now or the first time
	Bad          Status = "bad"           // not sent, because the line is no valid command
	Unknown      Status = "unknown"       // sent, but the outcome did not come; importing again tells
)

// Result is what became of one row.
type Result struct {
	Row    Row
	Status Status
	// Outcome is set for Applied, AlreadyKnown and Rejected.
	Outcome *ledgerv1.Outcome
	// Text says for a person what is wrong. "" where nothing is.
	Text string
	// Differs: the row is applied, and the account's balance after it is not the one that the file claims.
	Differs bool
}

// Summary counts results.
type Summary struct {
	Applied, AlreadyKnown, Rejected, Bad, Unknown int
	// Agreed and Differed count the rows with a balance claimed by the file.
	Agreed, Differed int
}

// Commands is the number of rows that are done, bad lines left out.
func (s Summary) Commands() int {
	return s.Applied + s.AlreadyKnown + s.Rejected + s.Unknown
}

// Clean tells whether every line is in the ledger and every balance agrees.
func (s Summary) Clean() bool {
	return s.Rejected == 0 && s.Bad == 0 && s.Unknown == 0 && s.Differed == 0
}

func (s *Summary) count(r Result) {
	switch r.Status {
	case Applied:
		s.Applied++
	case AlreadyKnown:
		s.AlreadyKnown++
	case Rejected:
		s.Rejected++
	case Bad:
		s.Bad++
	case Unknown:
		s.Unknown++
	}
	switch {
	case r.Differs:
		s.Differed++
	case r.Row.Expect != "" && (r.Status == Applied || r.Status == AlreadyKnown):
		s.Agreed++
	}
}

// Run sends the rows in their order and gives each result to onResult (nil: nobody), in the same order, from one
// goroutine. It returns when all results are in.
//
// Already known is told from applied by position: the log's last position of every shard is read before the first
// command is sent, and an outcome that is not behind it was decided before. No clock is involved. An outcome that
// another import of the same file decides at the same time counts as applied in both.
//
// A file may be imported again after the ledger has forgotten its ids, so a command without requested_at says one that does
// not change: its effective time, if that is past. The ledger then looks the id up before it applies the command.
//
// The error is not nil when the import ended early: the file could not be read further, ctx ended, or an outcome is
// unknown (errors.Is ErrOutcomeUnknown). What was sent until then is in the summary. Running it again is always safe.
func Run(ctx context.Context, client *producer.Client, rows Rows, onResult func(Result)) (Summary, error) {
	positions, err := client.Positions(ctx)
	if err != nil {
		return Summary{}, err
	}
	sending, stop := context.WithCancelCause(ctx) // what is sent already is still waited for
	defer stop(nil)
	i := &importing{client: client, before: newPositions(positions), onResult: onResult, stop: stop}
	queue := make(chan sent, resultsAhead)
	collected := make(chan Summary)
	go func() { collected <- i.collect(ctx, queue) }() // ends when queue is closed
	err = i.send(sending, rows, queue)
	close(queue)
	summary := <-collected
	if i.unknown != nil {
		err = i.unknown
	}
	return summary, err
}

type importing struct {
	client   *producer.Client
	before   *positions
	onResult func(Result)
	stop     context.CancelCauseFunc
	unknown  error // first unknown outcome; written by collect, read after it ended
}

// sent is a row on its way: with a pending, or with its status already.
type sent struct {
	row     Row
	pending *producer.Pending
	result  Result
}

// send stops at the first error that is not about a line.
func (i *importing) send(ctx context.Context, rows Rows, queue chan<- sent) error {
	inOrder := newOrder()
	for row, err := range rows {
		var line *LineError
		switch {
		case errors.As(err, &line):
			queue <- sent{row: row, result: Result{Row: row, Status: Bad, Text: line.Error()}}
			continue
		case err != nil:
			return err
		}
		if row.Command.GetRequestedAt() == nil {
			row.Command.RequestedAt = timestamppb.New(firstRequested(row.Command, time.Now()))
		}
		if err := inOrder.wait(ctx, row.Command); err != nil {
			return err
		}
		pending, err := i.client.Send(ctx, row.Command)
		var invalid *producer.InvalidCommandError
		switch {
		case errors.As(err, &invalid):
			queue <- sent{row: row, result: refused(row, invalid)}
		case err != nil:
			return fmt.Errorf("%s:%d: %w", row.File, row.Line, err)
		default:
			inOrder.sent(row.Command, pending)
			queue <- sent{row: row, pending: pending}
		}
	}
	return nil
}

// refused is a row that the client did not send. A reused id is a rejection like the ledger's own, which it would have
// been a moment later.
func refused(row Row, invalid *producer.InvalidCommandError) Result {
	status := Bad
	if invalid.Reason == ledgerv1.Reason_REASON_COMMAND_ID_REUSED {
		status = Rejected
	}
	return Result{Row: row, Status: status, Text: fmt.Sprintf("%s:%d: %v", row.File, row.Line, invalid)}
}

// longAgo is before there was a ledger.
var longAgo = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// firstRequested is a time that the first import of a line came after, the same in every import.
func firstRequested(cmd *ledgerv1.Command, now time.Time) time.Time {
	if effective := cmd.GetEffectiveTime().AsTime(); effective.After(longAgo) && effective.Before(now) {
		return effective
	}
	return longAgo
}

// result waits for the outcome of a row that was sent, and says what it means.
func (i *importing) result(ctx context.Context, s sent) (Result, error) {
	row := s.row
	outcome, err := s.pending.Wait(ctx)
	if err != nil {
		return Result{Row: row, Status: Unknown, Text: fmt.Sprintf("%s:%d: %v", row.File, row.Line, err)}, err
	}
	again := outcome.GetReason() != ledgerv1.Reason_REASON_COMMAND_ID_REUSED && i.before.again(outcome.GetShard(), outcome.GetPosition())
	result := Result{Row: row, Status: Applied, Outcome: outcome}
	switch {
	case outcome.GetReason() == ledgerv1.Reason_REASON_ACCOUNT_EXISTS:
		result.Status = AlreadyKnown // opened by somebody else; what matters is that it is open
	case outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED:
		entry := reason.Of(outcome.GetReason())
		result.Status = Rejected
		result.Text = fmt.Sprintf("%s:%d: %s: %s", row.File, row.Line, entry.Code, or(s.pending.Detail(), entry.Text))
	case again:
		result.Status = AlreadyKnown
	}
	if result.Status != Rejected && row.Expect != "" && outcome.GetAfter().GetBalance() != row.Expect {
		result.Differs = true
		result.Text = fmt.Sprintf("%s:%d: %s stands at %s after %q, the file says %s (minor units)", row.File, row.Line,
			outcome.GetAccount(), outcome.GetAfter().GetBalance(), outcome.GetCommandId(), row.Expect)
	}
	return result, nil
}

// collect takes the results in order. After an unknown outcome nothing more is sent: later commands of the account
// could be decided before the one that is missing.
func (i *importing) collect(ctx context.Context, queue <-chan sent) Summary {
	var summary Summary
	for s := range queue {
		result := s.result
		if s.pending != nil {
			var err error
			if result, err = i.result(ctx, s); err != nil && i.unknown == nil {
				i.unknown = err
				i.stop(err)
			}
		}
		summary.count(result)
		if i.onResult != nil {
			i.onResult(result)
		}
	}
	return summary
}
