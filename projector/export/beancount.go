package export

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
)

// beancount writes an input file for beancount (tried with 2.3.5). A balance there is one at the beginning of a day, so every account
// asserts, after each day on which something was booked on it, what the ledger stated at last. "~ 0": to the last digit.
type beancount struct {
	out    *bufio.Writer
	opened map[string]bool
	stands map[string]standing
}

// standing is what the ledger stated after an account's last entry.
type standing struct {
	day     time.Time
	balance int64
	unit    money.Unit
}

func newBeancount(out *bufio.Writer) file {
	b := &beancount{out, map[string]bool{}, map[string]standing{}}
	b.say("; The books of a Hotledger. A balance is what the ledger stated at the end of the day before.\noption \"title\" \"Hotledger\"\n\n")
	return b
}

func (b *beancount) open(e *entry) error {
	b.openOnce(e.account, " "+Commodity(e.unit))
	return nil
}

func (b *beancount) book(e *entry) error {
	b.openOnce(e.account, " "+Commodity(e.unit))
	for _, other := range e.others {
		b.openOnce(other.account, "") // the world has every currency
	}
	if stood, ok := b.stands[e.account]; ok && stood.day.Before(e.day) {
		b.assert(e.account, stood)
	}
	b.stands[e.account] = standing{e.day, e.after, e.unit}
	b.say("%s * %s %s\n  command: %s\n  position: %s\n", e.day.Format(time.DateOnly), beancountText(e.operation), beancountText(e.description), beancountText(e.commandID), beancountText(e.place()))
	if e.reference != "" {
		b.say("  reference: %s\n", beancountText(e.reference))
	}
	b.say("  %s  %s %s\n", AccountName(e.account), money.FormatMajor(e.delta, e.unit), Commodity(e.unit))
	for _, other := range e.others {
		b.say("  %s  %s %s\n", AccountName(other.account), money.FormatMajor(other.amount, e.unit), Commodity(e.unit))
	}
	b.say("\n")
	return nil
}

func (b *beancount) close() error {
	for _, account := range slices.Sorted(maps.Keys(b.stands)) {
		b.assert(account, b.stands[account])
	}
	return nil
}

func (b *beancount) assert(account string, s standing) {
	b.say("%s balance %s  %s ~ 0 %s\n", s.day.AddDate(0, 0, 1).Format(time.DateOnly), AccountName(account), money.FormatMajor(s.balance, s.unit), Commodity(s.unit))
}

// openOnce opens an account long before anything: two accounts need not come to a day in the order of the file.
func (b *beancount) openOnce(account, currency string) {
	if !b.opened[account] {
		b.opened[account] = true
		b.say("1970-01-01 open %s%s\n", AccountName(account), currency)
	}
}

// say writes; the writer keeps the first error for its Flush.
func (b *beancount) say(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format, args...) }

func beancountText(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(plain(text)) + `"`
}
