package reconciler

import (
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Verdict is what a run says of the ledger.
type Verdict string

// The verdicts.
const (
	// Clean: every account was compared, and no invariant of the log is broken.
	Clean Verdict = "clean"
	// Breaks: everything was compared, and there are differences, repaired or not.
	Breaks Verdict = "breaks"
	// CouldNotTell: the run did not come to its end. Never a clean result.
	CouldNotTell Verdict = "could_not_tell"
)

// Report is what a run found and did.
type Report struct {
	RunID             string
	Verdict           Verdict
	Why               string // why it could not tell; empty otherwise
	Started, Finished time.Time
	DryRun            bool
	Shards            []ShardReport // in order; those that were read, where it could not tell
	Events            uint64        // positions of the log that were checked
	AccountsCompared  uint64        // in Redis and in the log
	AccountsRedis     uint64
	AccountsLog       uint64
	Totals            []Total // by unit
	BreaksFound       uint64
	Breaks            []*Break // at most RECONCILER_BREAKS_MAX
	SettledBefore     uint64   // listed breaks that need nobody: accepted, or their adjustment is booked
	EventsRead        uint64   // events whose chain and content were recomputed
	Slices            int
	// Phases say where the time went: read (Redis and the barrier), log (Kafka, and ClickHouse against it), compare (what was not compared while
	// the log was read), invariants, settle, write.
	Phases       map[string]time.Duration
	Mode, Policy string // full or incremental; the policy's version
	BusinessDate string // 2026-11-30; empty for none
	Resumed      bool   // an earlier life of the run was stopped
	Held         string // why repairs were held back altogether; empty otherwise
}

// ShardReport says where a shard was compared.
type ShardReport struct {
	Shard      int
	Position   uint64
	Chain      string // the hash over everything up to there
	Generation string
}

// Repairs counts the compensations that were sent.
func (r *Report) Repairs() int {
	n := 0
	for _, b := range r.Breaks {
		if c := b.Compensation; c != nil && c.State != WouldIssue && c.State != NotSent {
			n++
		}
	}
	return n
}

// ByClass counts the listed breaks.
func (r *Report) ByClass() map[Class]int {
	counts := map[Class]int{}
	for _, b := range r.Breaks {
		counts[b.Class]++
	}
	return counts
}

// Headline is the verdict in one line of plain words.
func (r *Report) Headline() string {
	switch r.Verdict {
	case Clean:
		return fmt.Sprintf("CLEAN: Redis and the log agree on %s, each at the same sequence; %s checked, no gap, no duplicate.",
			plural(r.AccountsCompared, "account"), plural(r.Events, "event"))
	case Breaks:
		return fmt.Sprintf("%s FOUND: %s.", strings.ToUpper(plural(r.BreaksFound, "break")), r.handled())
	case CouldNotTell:
	}
	return fmt.Sprintf("COULD NOT TELL: %s. This is not a clean result.", r.Why)
}

// handled says what became of the breaks.
func (r *Report) handled() string {
	counts := map[State]int{}
	for _, b := range r.Breaks {
		if b.Compensation != nil {
			counts[b.Compensation.State]++
		}
	}
	var parts []string
	for _, p := range []struct {
		state State
		words string
	}{
		{Applied, "repaired"}, {WouldIssue, "would be repaired (dry run, nothing was issued)"}, {Rejected, "whose repair was rejected"},
		{Unknown, "whose repair has no known outcome"}, {NotSent, "whose repair was not sent"}, {Issued, "whose repair is on its way"},
	} {
		if n := counts[p.state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p.words))
		}
	}
	rest := r.BreaksFound
	for _, n := range counts {
		rest -= uint64(n)
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d for a person to look at", rest))
	}
	if r.Held != "" {
		parts = append(parts, r.Held)
	}
	return strings.Join(parts, ", ")
}

// WriteTable prints the report for people: the verdict first, then the breaks, then the control totals.
func (r *Report) WriteTable(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintln(&out, r.Headline())
	if len(r.Breaks) > 0 {
		causes := r.json().causes()
		fmt.Fprintf(&out, "\n%s\n", causesTable(causes))
		if more := r.BreaksFound + r.SettledBefore - uint64(len(r.Breaks)); more > 0 {
			fmt.Fprintf(&out, "and %d more\n", more)
		}
		for _, c := range causes {
			fmt.Fprintf(&out, "  %s %s: %s\n", c.Class, printable(c.Where()), c.Detail())
		}
	}
	if len(r.Totals) > 0 {
		fmt.Fprintf(&out, "\n%s\n", r.totalsTable())
	}
	fmt.Fprintf(&out, "\nrun %s, %s accounts in Redis, %s in the log, took %s\n", r.RunID,
		thousands(fmt.Sprint(r.AccountsRedis)), thousands(fmt.Sprint(r.AccountsLog)), r.Finished.Sub(r.Started))
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// causesTable has a row for each cause: the break itself where it is the only one, else how many there are.
func causesTable(causes []*cause) string {
	t := plainTable()
	t.AppendHeader(table.Row{"break", "account", "Redis", "at seq", "log", "at seq", "action", "outcome"})
	for _, c := range causes {
		b := c.breaks[0]
		row := table.Row{b.Class, printable(c.Where()), strings.Join(c.Money(), "\n"), "", "", "", b.Action, c.tally(jsonBreak.state)}
		if len(c.breaks) == 1 {
			row[2], row[3] = b.Redis.shown()
			row[4], row[5] = b.Log.shown()
		}
		t.AppendRow(row)
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 3, Align: text.AlignRight}, {Number: 4, Align: text.AlignRight},
		{Number: 5, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight},
	})
	return t.Render()
}

func (r *Report) totalsTable() string {
	t := plainTable()
	t.AppendHeader(table.Row{"sum of balances, as read", "Redis", "log", "difference"})
	for _, total := range r.Totals {
		t.AppendRow(table.Row{total.Unit, major(total.Redis, total.Unit), major(total.Log, total.Unit),
			major(new(big.Int).Sub(total.Redis, total.Log), total.Unit)})
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}, {Number: 4, Align: text.AlignRight},
	})
	return t.Render()
}

func plainTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	return t
}

// printable is an account, quoted where it holds what a terminal should not print raw.
func printable(account string) string {
	if quoted := fmt.Sprintf("%q", account); len(quoted) != len(account)+2 {
		return quoted
	}
	return account
}

// state is how far the settlement of a break came, in the words that programs know.
func (b jsonBreak) state() string {
	c := b.Compensation
	switch {
	case c == nil:
		return b.Settled
	case c.Reason != "":
		return string(c.State) + " (" + c.Reason + ")"
	}
	return strings.ReplaceAll(string(c.State), "_", " ")
}

// shown is the balance with its currency, and the sequence.
func (s *jsonStanding) shown() (balance, sequence string) {
	if s == nil {
		return "-", "-"
	}
	balance = s.Balance
	if n, ok := new(big.Int).SetString(s.Balance, 10); ok {
		balance = major(n, s.Unit)
	}
	if unit, err := money.ParseUnit(s.Unit); err == nil {
		balance += " " + unit.Code
	}
	return balance, fmt.Sprint(s.Sequence)
}

// major writes an amount of any size in major units. An unknown unit has no decimals to put a point before, so its minor units are shown.
func major(v *big.Int, unitText string) string {
	unit, err := money.ParseUnit(unitText)
	if err != nil {
		return v.String() + " minor units"
	}
	if v.IsInt64() {
		return money.FormatMajor(v.Int64(), unit)
	}
	digits, sign := new(big.Int).Abs(v).String(), ""
	if v.Sign() < 0 {
		sign = "-"
	}
	if unit.Exponent == 0 {
		return sign + digits
	}
	point := len(digits) - unit.Exponent // beyond 64 bits there are 19 digits or more, and an exponent is 18 at most
	return sign + digits[:point] + "." + digits[point:]
}

func sortedTotals(sums map[string]*Total) []Total {
	totals := make([]Total, 0, len(sums))
	for _, unit := range slices.Sorted(maps.Keys(sums)) {
		totals = append(totals, *sums[unit])
	}
	return totals
}

func plural(n uint64, word string) string {
	if n != 1 {
		word += "s"
	}
	return thousands(fmt.Sprint(n)) + " " + word
}

// thousands puts a comma before every third digit from the end.
func thousands(digits string) string {
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
