package export

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
)

// hledger writes a journal for hledger (tried with 1.25): every entry asserts the balance that the ledger stated after it.
type hledger struct {
	out      *bufio.Writer
	declared map[string]bool
}

func newHledger(out *bufio.Writer) file {
	h := &hledger{out, map[string]bool{}}
	h.say("; The books of a Hotledger. Each entry asserts (=) the balance that the ledger stated after it.\ndecimal-mark .\n\n")
	return h
}

func (h *hledger) open(e *entry) error {
	h.declareUnit(e.unit)
	return h.declare(e.account)
}

func (h *hledger) book(e *entry) error {
	h.declareUnit(e.unit)
	if err := h.declare(e.account); err != nil {
		return err
	}
	for _, other := range e.others {
		if err := h.declare(other.account); err != nil {
			return err
		}
	}
	words := strings.TrimSpace(strings.Join([]string{e.operation, hledgerText(e.reference), hledgerText(e.description)}, " "))
	h.say("%s * (%s) %s\n", e.day.Format(time.DateOnly), hledgerText(e.commandID), words)
	h.say("    %s   %s = %s\n", AccountName(e.account), hledgerAmount(e.delta, e.unit), hledgerAmount(e.after, e.unit))
	for _, other := range e.others {
		h.say("    %s   %s\n", AccountName(other.account), hledgerAmount(other.amount, e.unit))
	}
	h.say("\n")
	return nil
}

func (h *hledger) close() error { return nil }

func (h *hledger) declare(account string) error {
	if h.declared[account] {
		return nil
	}
	h.declared[account] = true
	h.say("account %s\n", AccountName(account))
	return nil
}

func (h *hledger) declareUnit(u money.Unit) {
	if name := u.String(); !h.declared[name] {
		h.declared[name] = true
		sample := money.FormatMajor(0, u)
		if u.Exponent == 0 {
			sample += "." // says where decimals would begin
		}
		h.say("commodity %s %s\n", sample, hledgerCommodity(u))
	}
}

// say writes; the writer keeps the first error for its Flush.
func (h *hledger) say(format string, args ...any) { _, _ = fmt.Fprintf(h.out, format, args...) }

func hledgerAmount(v int64, u money.Unit) string {
	return money.FormatMajor(v, u) + " " + hledgerCommodity(u)
}

// hledgerCommodity is quoted where it is more than letters.
func hledgerCommodity(u money.Unit) string {
	name := Commodity(u)
	if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return name
	}
	return `"` + name + `"`
}

// hledgerText keeps a text from ending a code, or from beginning a comment.
func hledgerText(text string) string {
	return strings.NewReplacer("%", "%25", ")", "%29", ";", "%3B", "|", "%7C").Replace(plain(text))
}
