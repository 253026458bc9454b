package reconciler

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// cause is what breaks have in common that one fault may have made: their class, their shard, and their place in its log. A shard has one writer at
// a time, so a place names the writer too. Each break keeps its own id, evidence and settlement; a cause is how they are shown.
type cause struct {
	Number   int      `json:"cause"` // from 1, in the order of the report
	Class    Class    `json:"class"`
	Severity Severity `json:"severity"` // of the worst break
	Shard    int      `json:"shard"`
	// From and To are positions of the shard's log, as of a Break; both 0 where the class has no place.
	From     uint64        `json:"from,omitempty"`
	To       uint64        `json:"to,omitempty"`
	Accounts int           `json:"accounts"`                    // how many are touched
	AtLeast  bool          `json:"accounts_at_least,omitempty"` // there are more than were counted
	Named    []string      `json:"accounts_named,omitempty"`    // accountsNamedMax of them at most, those of the worst breaks
	Amounts  []causeAmount `json:"amounts,omitempty"`           // by unit

	breaks []jsonBreak // for printing: filled by jsonReport.causes
	// While it is made, by causesOf.
	accounts map[string]bool
	sums     map[string]*misstated
}

// causeAmount is what a cause is about in one unit, minor units in decimal digits: all differences added up, whatever their signs, and with their signs.
type causeAmount struct {
	Unit  string `json:"unit"`
	Gross string `json:"gross"`
	Net   string `json:"net"`
}

// misstated is what something says too much (Net, signed) and how much of it is wrong (Gross), minor units.
type misstated struct{ Gross, Net *big.Int }

func addMisstated(sums map[string]*misstated, unit string, gross, net *big.Int) {
	if gross.Sign() == 0 {
		return
	}
	if sums[unit] == nil {
		sums[unit] = &misstated{new(big.Int), new(big.Int)}
	}
	sums[unit].Gross.Add(sums[unit].Gross, gross)
	sums[unit].Net.Add(sums[unit].Net, net)
}

// causesOf groups the breaks of a report, and numbers them.
func causesOf(breaks []*Break) []*cause {
	type kind struct {
		class   Class
		shard   int
		settled bool
	}
	kinds := map[kind][]*Break{}
	for _, b := range breaks {
		k := kind{b.Class, b.Shard, b.Settled != ""}
		kinds[k] = append(kinds[k], b)
	}
	of := map[*Break]*cause{}
	for _, alike := range kinds {
		slices.SortStableFunc(alike, func(a, b *Break) int {
			if a.Class.standsInLog() {
				return cmp.Compare(a.From, b.From)
			}
			return cmp.Compare(a.To, b.To)
		})
		var c *cause
		for _, b := range alike {
			if c == nil || !c.reaches(b) {
				c = &cause{Class: b.Class, Severity: b.Severity, Shard: b.Shard, From: b.From, To: b.To, accounts: map[string]bool{}, sums: map[string]*misstated{}}
			}
			of[b] = c
			c.From, c.To = c.with(b)
		}
	}
	var causes []*cause
	for _, b := range breaks {
		c := of[b]
		if c.Number == 0 {
			causes = append(causes, c)
			c.Number = len(causes)
		}
		b.cause = c.Number
		c.add(b)
	}
	for _, c := range causes {
		for _, unit := range sortedKeys(c.sums) {
			c.Amounts = append(c.Amounts, causeAmount{Unit: unit, Gross: c.sums[unit].Gross.String(), Net: c.sums[unit].Net.String()})
		}
	}
	return causes
}

// standsInLog says that From and To of a class are wrong positions themselves. Of the others they are what it went wrong between.
func (c Class) standsInLog() bool {
	return c.inProjection() || slices.Contains([]Class{ChainBroken, EventUnreadable, EventContradictsCommand, DuplicateEffect, FloorBroken}, c)
}

// reaches says whether a break may be of the cause; they come in order. Wrong positions are of one cause where less than a stretch lies between
// them; what went wrong between two positions is where one place in the log would explain all of it.
func (c *cause) reaches(b *Break) bool {
	if c.Class.standsInLog() {
		return b.From <= c.To+stretchPositions
	}
	return b.To == 0 || b.From < c.To
}

// with is the place of the cause once it has a break.
func (c *cause) with(b *Break) (from, to uint64) {
	if c.Class.standsInLog() {
		return c.From, max(c.To, b.To)
	}
	return max(c.From, b.From), c.To
}

// add counts a break in.
func (c *cause) add(b *Break) {
	c.Severity = worse(c.Severity, b.Severity)
	names := sortedKeys(b.Accounts)
	if b.Account != "" {
		names = []string{b.Account}
	}
	for _, name := range names {
		if !c.accounts[name] && len(c.Named) < accountsNamedMax {
			c.Named = append(c.Named, name)
		}
		c.accounts[name] = true
	}
	c.Accounts, c.AtLeast = len(c.accounts), c.AtLeast || len(b.Accounts) == accountsCountedMax
	if b.Amount != nil {
		addMisstated(c.sums, b.unit(), new(big.Int).Abs(b.Amount), b.Amount)
	}
	for unit, m := range b.Misstated {
		addMisstated(c.sums, unit, m.Gross, m.Net)
	}
}

// causes are the causes of a report with their breaks. A report that was written before there were any has one for each break.
func (j *jsonReport) causes() []*cause {
	var all []*cause
	byNumber := map[int]*cause{}
	for _, c := range j.Causes {
		c.breaks = nil
		byNumber[c.Number] = c
		all = append(all, c)
	}
	for _, b := range j.Breaks {
		c := byNumber[b.Cause]
		if c == nil {
			c = &cause{Class: b.Class, Severity: b.Severity, Shard: b.Shard}
			if b.Amount != "" {
				c.Amounts = []causeAmount{{b.Unit, strings.TrimPrefix(b.Amount, "-"), b.Amount}}
			}
			all = append(all, c)
		}
		c.breaks = append(c.breaks, b)
	}
	return all
}

// Breaks are the breaks of the cause, in the order of the report.
func (c *cause) Breaks() []jsonBreak { return c.breaks }

// Where names the one account, or counts them, with the place in the log.
func (c *cause) Where() string {
	where := fmt.Sprintf("shard %d", c.Shard)
	if len(c.breaks) == 1 && c.breaks[0].Account != "" {
		return c.breaks[0].Account
	}
	if c.Accounts > 0 {
		where = plural(uint64(c.Accounts), "account") + " of " + where
	}
	if c.AtLeast {
		where = "more than " + where
	}
	if place := c.Place(); place != "" {
		where += ", " + place
	}
	return where
}

// Place is where in the shard's log the cause lies.
func (c *cause) Place() string {
	from, to := thousands(fmt.Sprint(c.From)), thousands(fmt.Sprint(c.To))
	switch {
	case c.To == 0:
		return ""
	case !c.Class.standsInLog():
		return "between positions " + from + " and " + to
	case c.From == c.To:
		return "position " + from
	}
	return "positions " + from + " to " + to
}

// Names are the first accounts, and how many more there are.
func (c *cause) Names() string {
	names := strings.Join(c.Named, ", ")
	if more := c.Accounts - len(c.Named); more > 0 {
		names += " and " + thousands(fmt.Sprint(more)) + " more"
	}
	return names
}

// Money says each unit's amount in major units: with its sign where all differences have the same.
func (c *cause) Money() []string {
	var lines []string
	for _, a := range c.Amounts {
		line := majorText(a.Net, a.Unit)
		if strings.TrimPrefix(a.Net, "-") != a.Gross {
			line = majorText(a.Gross, a.Unit) + " (net " + line + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// Open says that a person has to do something about it.
func (c *cause) Open() bool { return slices.ContainsFunc(c.breaks, jsonBreak.open) }

// Outcome is what became of its breaks.
func (c *cause) Outcome() string { return c.tally(jsonBreak.outcome) }

// tally joins what is said of each break, with how often it is said where not all say the same.
func (c *cause) tally(word func(jsonBreak) string) string {
	var words []string
	times := map[string]int{}
	for _, b := range c.breaks {
		w := word(b)
		if times[w]++; times[w] == 1 {
			words = append(words, w)
		}
	}
	if len(words) == 1 {
		return words[0]
	}
	for i, w := range words {
		words[i] = strings.TrimSpace(fmt.Sprintf("%d %s", times[w], w))
	}
	return strings.Join(words, ", ")
}

// Next is what a person does about it; empty where nobody has to.
func (c *cause) Next() string {
	i := slices.IndexFunc(c.breaks, jsonBreak.open)
	switch {
	case i < 0:
		return ""
	case len(c.breaks) == 1 || c.Class == HoldDiffers || c.Class == DeadLettersUnattended:
		return c.breaks[i].next()
	}
	return fmt.Sprintf("reconciler breaks list --cause %d", c.Number)
}

// Detail is what the one break says, or the cause in plain words with whom it touches.
func (c *cause) Detail() string {
	if len(c.breaks) == 1 {
		return c.breaks[0].Detail
	}
	detail := c.Words()
	if len(c.Named) > 0 {
		detail += ": " + c.Names()
	}
	return detail
}

// Words are the cause in plain words.
func (c *cause) Words() string { return upperFirst(natureOf(c.Class).words) }
