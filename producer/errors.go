package producer

import (
	"errors"
	"fmt"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
)

var (
	// ErrOutcomeUnknown is what every *OutcomeUnknownError is, for errors.Is.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrClosed is the cause where the client was closed.
	ErrClosed = errors.New("the client is closed")
	// ErrOutcomeTimeout is the cause where no outcome came within Config.OutcomeTimeout.
	ErrOutcomeTimeout = errors.New("no outcome in time")
)

// OutcomeUnknownError says that the command may have been applied, or may yet be. It is neither a success nor a failure.
// To find out, send Command again: the ledger applies it once, and answers with the one outcome.
type OutcomeUnknownError struct {
	CommandID string
	// Command is what was sent, with the time of the first request in it. Do not change it.
	Command *ledgerv1.Command
	// Cause is why the wait ended: the context's cause, ErrOutcomeTimeout, ErrClosed, or Kafka's error.
	Cause error
}

// Error names the command and the cause.
func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("outcome of command %q is unknown: %v; send the same command again to learn it", e.CommandID, e.Cause)
}

// Unwrap gives ErrOutcomeUnknown and the cause.
func (e *OutcomeUnknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.Cause} }

// InvalidCommandError says that the command was certainly not sent, because the ledger would refuse it.
type InvalidCommandError struct {
	CommandID string
	// Reason is the one that the ledger would have rejected it with.
	Reason ledgerv1.Reason
	// Text names the field, what is wrong with it, and what to write instead.
	Text string
}

// Error gives the reason's code and the text.
func (e *InvalidCommandError) Error() string {
	return reason.Of(e.Reason).Code + ": " + e.Text
}

// NotSentError says that the command was certainly not sent, for a reason that has nothing to do with the command.
type NotSentError struct {
	CommandID string
	// Cause is the context's cause, or ErrClosed.
	Cause error
}

// Error names the command and the cause.
func (e *NotSentError) Error() string {
	return fmt.Sprintf("command %q was not sent: %v", e.CommandID, e.Cause)
}

// Unwrap gives the cause.
func (e *NotSentError) Unwrap() error { return e.Cause }
