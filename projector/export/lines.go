package export

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
)

// line is one side of a posting, with the columns of finance.postings. Numbers are texts: a reader that takes 64 bits for a double
// would alter them.
type line struct {
	Account        string `json:"account"`
	CounterAccount string `json:"counter_account"`
	Side           string `json:"side"`
	AmountMinor    string `json:"amount_minor"`
	Amount         string `json:"amount"`
	Currency       string `json:"currency"`
	Exponent       string `json:"exponent"`
	BookedAt       string `json:"booked_at"`
	EffectiveAt    string `json:"effective_at"`
	BusinessDate   string `json:"business_date"`
	TransactionID  string `json:"transaction_id"`
	CommandID      string `json:"command_id"`
	Leg            string `json:"leg"`
	Operation      string `json:"operation"`
	Reference      string `json:"reference"`
	Description    string `json:"description"`
	Shard          string `json:"shard"`
	Position       string `json:"position"`
}

var lineColumns = []string{
	"account", "counter_account", "side", "amount_minor", "amount", "currency", "exponent", "booked_at", "effective_at", "business_date",
	"transaction_id", "command_id", "leg", "operation", "reference", "description", "shard", "position",
}

// timeLayout is RFC 3339 with the milliseconds that the log has, in UTC.
const timeLayout = "2006-01-02T15:04:05.000Z"

// lines are both sides of each leg, in the order of finance.postings.
func (e *entry) lines(each func(line) error) error {
	for i, other := range e.others {
		for _, side := range []struct {
			account, counter string
			amount           int64
		}{{e.account, other.account, -other.amount}, {other.account, e.account, other.amount}} {
			word := "credit"
			if side.amount < 0 {
				word = "debit"
			}
			err := each(line{
				side.account, side.counter, word, money.FormatMinor(side.amount), money.FormatMajor(side.amount, e.unit), e.unit.Code, strconv.Itoa(e.unit.Exponent),
				e.bookedAt.UTC().Format(timeLayout), e.effectiveAt.UTC().Format(timeLayout), e.businessDay.Format(time.DateOnly),
				e.transactionID, e.commandID, strconv.Itoa(i + 1), e.operation, e.reference, e.description, strconv.Itoa(int(e.shard)), strconv.FormatUint(e.position, 10),
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// csvFile writes RFC 4180: a header, CRLF. The columns say the unit: amount_minor is in minor units, amount in major ones.
type csvFile struct{ out *csv.Writer }

func newCSV(out *bufio.Writer) file {
	c := csvFile{csv.NewWriter(out)}
	c.out.UseCRLF = true
	_ = c.out.Write(lineColumns) // Flush tells
	return c
}

func (csvFile) open(*entry) error { return nil }

func (c csvFile) book(e *entry) error {
	return e.lines(func(l line) error {
		return c.out.Write([]string{
			cell(l.Account), cell(l.CounterAccount), l.Side, l.AmountMinor, l.Amount, l.Currency, l.Exponent, l.BookedAt, l.EffectiveAt, l.BusinessDate,
			cell(l.TransactionID), cell(l.CommandID), l.Leg, l.Operation, cell(l.Reference), cell(l.Description), l.Shard, l.Position,
		})
	})
}

func (c csvFile) close() error {
	c.out.Flush()
	return c.out.Error()
}

// cell puts an apostrophe before a text that a spreadsheet would run as a formula: one that begins with one of these, the wide forms
// among them, also after blanks (OWASP, "CSV Injection"). One that begins with an apostrophe gets another, so that the first one of a text is
// always to be taken off. Only texts go through here; numbers keep their minus.
func cell(text string) string {
	begins := strings.TrimLeft(text, " \t\r\n\u00a0\ufeff")
	if text != begins || strings.HasPrefix(text, "'") || strings.IndexFunc(begins, func(r rune) bool { return strings.ContainsRune("=+-@＝＋－＠", r) }) == 0 {
		return "'" + text
	}
	return text
}

// ndjson writes one JSON object per line.
type ndjson struct{ out *json.Encoder }

func newNDJSON(out *bufio.Writer) file {
	n := ndjson{json.NewEncoder(out)}
	n.out.SetEscapeHTML(false)
	return n
}

func (ndjson) open(*entry) error { return nil }

func (n ndjson) book(e *entry) error {
	return e.lines(func(l line) error { return n.out.Encode(l) })
}

func (ndjson) close() error { return nil }
