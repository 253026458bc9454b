// Package importer reads files of commands and sends them. Reading and sending are apart: ReadCommands, ReadNDJSON and
// ReadStatements give rows, OpenAccounts puts the openings in front, Run sends what they give.
//
// Everything about a row follows from the file alone, its command id too, so importing a file again changes nothing.
package importer

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Row is one command and where it comes from.
type Row struct {
	// File is the name given with Options, Line its line from 1, the header included.
	File string
	Line int
	// Command is ready to be sent.
	Command *ledgerv1.Command
	// Expect is the balance that the file claims for the account after this command, in minor units; "" where it claims none.
	Expect string
}

// or is what a reader gives for a line: the row, or its place and what is wrong with it.
func (r Row) or(bad *problem) (Row, error) {
	if bad == nil {
		return r, nil
	}
	return Row{File: r.File, Line: r.Line}, bad.at(r.File, r.Line)
}

// Rows are what a reader gives. The error is nil or a *LineError; any other error is about the file as a whole, and is
// the last thing given.
type Rows = iter.Seq2[Row, error]

// LineError is a line that cannot become a command. The lines after it are not affected unless Text says so.
type LineError struct {
	File   string
	Line   int
	Reason ledgerv1.Reason // REASON_UNSPECIFIED where the line is not even readable as CSV
	Text   string
}

// Error is "file:line: REASON: text".
func (e *LineError) Error() string {
	if code := reason.Of(e.Reason).Code; code != "" {
		return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, code, e.Text)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// Options say how a file is read.
type Options struct {
	// File is the file's name in messages; for statements the one with the entries. "" is "input".
	File string
	// StatementsFile is the name of the file with the statements. "" is "statements".
	StatementsFile string
	// Units reads currencies that are neither in ISO 4217 nor written with their exponent: "DEM" -> "DEM/2".
	Units map[string]string
	// IDPrefix begins the command ids of statements. Files whose statements are numbered alike need different ones.
	// "" is "statement:".
	IDPrefix string
}

func (o Options) file() string { return or(o.File, "input") }

func (o Options) statementsFile() string { return or(o.StatementsFile, "statements") }

func (o Options) idPrefix() string { return or(o.IDPrefix, "statement:") }

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// unit reads a currency. With a unit of its own exponent it is written with it, so that the ledger understands it too.
func (o Options) unit(currency string) (money.Unit, string, error) {
	if other, ok := o.Units[currency]; ok {
		currency = other
	}
	unit, err := money.ParseUnit(currency)
	return unit, currency, err
}

// problem is what is wrong with a line, before anybody knows its number.
type problem struct {
	reason ledgerv1.Reason
	text   string
}

func problemf(why ledgerv1.Reason, format string, args ...any) *problem {
	return &problem{why, fmt.Sprintf(format, args...)}
}

func (p *problem) at(file string, line int) *LineError {
	return &LineError{File: file, Line: line, Reason: p.reason, Text: p.text}
}

// check is the client's own check, before anything is sent. What the reconciler issues has its approvals and is not imported.
func check(cmd *ledgerv1.Command) *problem {
	var invalid *producer.InvalidCommandError
	if errors.As(producer.Check(cmd), &invalid) {
		return problemf(invalid.Reason, "%s", invalid.Text)
	}
	if op := cmd.GetOperation(); op == ledgerv1.Operation_OPERATION_REPAIR || op == ledgerv1.Operation_OPERATION_ADJUST {
		return problemf(ledgerv1.Reason_REASON_INVALID_OPERATION, "operation: %s is the reconciler's", limits.OperationName(op))
	}
	return nil
}

// date reads a day of business. It stands for its first moment in UTC.
func date(s string) (*timestamppb.Timestamp, *problem) {
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return nil, problemf(ledgerv1.Reason_REASON_INVALID_TIME, "date %.40q: write a day as in \"2013-01-31\"", s)
	}
	return timestamppb.New(day), nil
}

// bankDate reads a day of a bank statement. Banks that count every month as 30 days write 29 or 30 February in any year;
// such a day is the last one of that February, and text gives the day as the bank wrote it ("" where nothing was changed).
func bankDate(s string) (day *timestamppb.Timestamp, text string, bad *problem) {
	month, isFebruary := strings.CutSuffix(s, "-02-30")
	if !isFebruary {
		month, isFebruary = strings.CutSuffix(s, "-02-29")
	}
	if day, bad = date(s); bad == nil || !isFebruary {
		return day, "", bad
	}
	march, err := time.Parse(time.DateOnly, month+"-03-01")
	if err != nil {
		return nil, "", bad
	}
	return timestamppb.New(march.AddDate(0, 0, -1)), s, nil
}
