package importer

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// StatementsColumns and EntriesColumns are the headers of the two files of bank statements.
var (
	StatementsColumns = []string{"statement", "account", "currency", "opening_balance", "closing_balance", "entries"}
	EntriesColumns    = []string{"statement", "line", "date", "direction", "amount"}
)

// The other sides of what a statement says about the time before it.
const (
	openingCounter = "@opening-balance"
	gapCounter     = "@statement-gap"
)

// metadataDate holds the day as a bank wrote it, where the calendar has no such day.
const metadataDate = "statement_date"

// statementLinesMax bounds the memory of one import of statements, which is read as a whole: an entry is only as good as
// the statement it stands in.
const statementLinesMax = 2_000_000

type statement struct {
	number, account, currency string
	unit                      money.Unit
	opening, closing          int64
	entriesClaimed            int
	line                      int
	entries                   []entry
	damaged                   bool // a line of it is bad
}

type entry struct {
	line      int    // of the file
	number    string // within the statement
	effective *timestamppb.Timestamp
	// dateWritten is the day as the bank wrote it, where the calendar has no such day.
	dateWritten string
	delta       int64
}

// ReadStatements reads bank statements (statement, account, currency, opening_balance, closing_balance, entries) and
// their entries (statement, line, date, direction, amount), all amounts in major units. Both are read as a whole first.
//
//   - An account of the ledger has one currency, so a bank account becomes "<account>:<currency>".
//   - Statements are taken in the order of their file. What an account's first one opens with is credited (debited, where
//     it is negative) against @opening-balance under the id "opening:<account>:<currency>": once, however many files.
//   - A later statement that does not open where the one before it closed gets the difference against @statement-gap
//     (id "<prefix><statement>:opening"): a missing statement, or one that was issued again.
//   - Entries are debits and credits against @world, ids "<prefix><statement>:<line>", and the last one of each statement
//     expects its closing balance. The 30 February of banks that count 30 days in every month is the last of February.
//   - A statement goes in as a whole or not at all: with a bad line in it, or if it does not add up, it is reported, and
//     so are the later ones of the same account, whose opening could only be a guess.
func ReadStatements(statements, entries io.Reader, options Options) Rows {
	return func(yield func(Row, error) bool) {
		b := &book{options: options, byNumber: map[string]*statement{}}
		err := b.readStatements(statements)
		if err == nil {
			err = b.readEntries(entries)
		}
		for _, bad := range b.bad {
			if !yield(Row{File: bad.File, Line: bad.Line}, bad) {
				return
			}
		}
		if err != nil {
			yield(Row{}, err)
			return
		}
		b.rows(yield)
	}
}

type book struct {
	options  Options
	order    []*statement
	byNumber map[string]*statement
	bad      []*LineError
}

func (b *book) readStatements(r io.Reader) error {
	file := b.options.statementsFile()
	return b.each(r, file, StatementsColumns, func(r record, line int) *problem {
		s, bad := readStatement(r, b.options)
		s.line = line
		if _, twice := b.byNumber[s.number]; twice {
			return problemf(0, "statement %.40q is in the file already", s.number)
		}
		s.damaged = bad != nil
		b.byNumber[s.number] = s
		b.order = append(b.order, s)
		return bad
	})
}

func readStatement(r record, options Options) (*statement, *problem) {
	s := &statement{number: r["statement"]}
	unit, currency, err := options.unit(r["currency"])
	// The account is named even where the statement is bad: later statements of it must not be booked.
	s.account = r["account"] + ":" + or(unit.Code, r["currency"])
	if err != nil {
		return s, problemf(ledgerv1.Reason_REASON_INVALID_CURRENCY, "currency: %v", err)
	}
	s.unit, s.currency = unit, currency
	if s.opening, err = money.ParseMajor(r["opening_balance"], unit); err != nil {
		return s, problemf(ledgerv1.Reason_REASON_INVALID_AMOUNT, "opening balance: %v", err)
	}
	if s.closing, err = money.ParseMajor(r["closing_balance"], unit); err != nil {
		return s, problemf(ledgerv1.Reason_REASON_INVALID_AMOUNT, "closing balance: %v", err)
	}
	if s.entriesClaimed, err = strconv.Atoi(r["entries"]); err != nil || s.entriesClaimed < 0 {
		return s, problemf(0, "entries %.40q: want their number", r["entries"])
	}
	return s, nil
}

func (b *book) readEntries(r io.Reader) error {
	file := b.options.file()
	return b.each(r, file, EntriesColumns, func(r record, line int) *problem {
		s := b.byNumber[r["statement"]]
		if s == nil {
			return problemf(0, "statement %.40q is not in %s", r["statement"], b.options.statementsFile())
		}
		if s.unit.Code == "" {
			s.damaged = true
			return nil // reported with the statement
		}
		e, bad := readEntry(r, s.unit)
		if bad != nil {
			s.damaged = true
			return bad
		}
		e.line = line
		s.entries = append(s.entries, e)
		return nil
	})
}

func readEntry(r record, unit money.Unit) (entry, *problem) {
	e := entry{number: r["line"]}
	var bad *problem
	if e.effective, e.dateWritten, bad = bankDate(r["date"]); bad != nil {
		return e, bad
	}
	minor, err := money.ParseMajor(r["amount"], unit)
	switch {
	case errors.Is(err, money.ErrTooLarge):
		return e, problemf(ledgerv1.Reason_REASON_LIMIT_EXCEEDED, "%v", err)
	case err != nil:
		return e, problemf(ledgerv1.Reason_REASON_INVALID_AMOUNT, "%v", err)
	case minor <= 0:
		return e, problemf(ledgerv1.Reason_REASON_INVALID_AMOUNT, "amount %q: want more than zero; the direction says which way", r["amount"])
	}
	switch r["direction"] {
	case "credit":
		e.delta = minor
	case "debit":
		e.delta = -minor
	default:
		return e, problemf(ledgerv1.Reason_REASON_INVALID_OPERATION, "direction %.40q: want debit or credit", r["direction"])
	}
	return e, nil
}

// each calls take for every readable line, and keeps what is wrong with the others.
func (b *book) each(r io.Reader, file string, columns []string, take func(record, int) *problem) error {
	t, err := newTable(r, columns, nil)
	for err == nil {
		var fields []string
		var bad *problem
		fields, bad, err = t.next()
		if err != nil {
			break
		}
		if t.line > statementLinesMax {
			err = fmt.Errorf("more than %d lines; split it by account", statementLinesMax)
			break
		}
		if bad == nil {
			bad = take(t.record(fields), t.line)
		}
		if bad != nil {
			b.bad = append(b.bad, bad.at(file, t.line))
		}
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}

// rows books the statements in their order.
func (b *book) rows(yield func(Row, error) bool) {
	file := b.options.statementsFile()
	standing := map[string]int64{} // balance after the last statement, by account
	broken := map[string]string{}  // number of the first statement left out, by account
	for _, s := range b.order {
		reject := func(why string) bool {
			return yield(Row{File: file, Line: s.line}, &LineError{File: file, Line: s.line, Text: "statement " + s.number + ": " + why})
		}
		before, known := standing[s.account]
		rows, why := b.book(s, before, known)
		switch {
		case broken[s.account] != "":
			why = fmt.Sprintf("comes after statement %s of the same account, which was left out", broken[s.account])
		case why != "":
			broken[s.account] = s.number
		}
		if why != "" {
			if !reject(why) {
				return
			}
			continue
		}
		standing[s.account] = s.closing
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// book makes the rows of one statement, or says why there are none. before is where the account stands, if known.
func (b *book) book(s *statement, before int64, known bool) ([]Row, string) {
	if s.damaged {
		return nil, "left out, because a line of it is bad"
	}
	if len(s.entries) != s.entriesClaimed {
		return nil, fmt.Sprintf("left out, because it claims %d entries and has %d", s.entriesClaimed, len(s.entries))
	}
	balance := s.opening
	for _, e := range s.entries {
		if balance += e.delta; balance > money.Max || balance < -money.Max {
			return nil, "left out, because a balance in it has more than 18 digits"
		}
	}
	if balance != s.closing {
		return nil, fmt.Sprintf("left out, because opening balance and entries give %s, not the closing balance %s",
			money.FormatMajor(balance, s.unit), money.FormatMajor(s.closing, s.unit))
	}
	rows := b.opening(s, before, known)
	for _, e := range s.entries {
		cmd := s.move(b.options.idPrefix()+s.number+":"+e.number, e.delta, "", e.effective)
		if e.dateWritten != "" {
			cmd.Metadata = map[string]string{metadataDate: e.dateWritten}
		}
		rows = append(rows, Row{File: b.options.file(), Line: e.line, Command: cmd})
	}
	if len(rows) > 0 {
		rows[len(rows)-1].Expect = money.FormatMinor(s.closing)
	}
	for _, row := range rows {
		if bad := check(row.Command); bad != nil {
			return nil, fmt.Sprintf("left out, because of %s:%d: %s", row.File, row.Line, bad.text)
		}
	}
	return rows, ""
}

// opening is the row that brings the account to the opening balance, where it does not stand there.
func (b *book) opening(s *statement, before int64, known bool) []Row {
	id, counter := "opening:"+s.account, openingCounter
	if known {
		id, counter = b.options.idPrefix()+s.number+":opening", gapCounter
	}
	if s.opening == before {
		return nil
	}
	var effective *timestamppb.Timestamp
	if len(s.entries) > 0 {
		effective = s.entries[0].effective
	}
	return []Row{{
		File: b.options.statementsFile(), Line: s.line,
		Command: s.move(id, s.opening-before, counter, effective),
	}}
}

// move is a credit of delta, or a debit where it is negative.
func (s *statement) move(id string, delta int64, counter string, effective *timestamppb.Timestamp) *ledgerv1.Command {
	operation := ledgerv1.Operation_OPERATION_CREDIT
	if delta < 0 {
		operation, delta = ledgerv1.Operation_OPERATION_DEBIT, -delta
	}
	return &ledgerv1.Command{
		CommandId: id, Operation: operation, Account: s.account, CounterAccount: counter, Amount: money.FormatMinor(delta),
		Currency: s.currency, EffectiveTime: effective, Reference: "statement " + s.number,
	}
}
