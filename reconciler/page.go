package reconciler

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"major": majorText, "thousands": thousands, "when": func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 UTC") },
	"count": func(n any) string { return thousands(fmt.Sprint(n)) }, "words": func(c Class) string { return upperFirst(natureOf(c).words) },
	"difference": func(b jsonBreak) string { return majorText(b.Amount, b.Unit) },
	"short":      func(s string) string { return s[:min(len(s), 12)] },
}).Parse(pageText))

// majorText is minor digits as major units with the currency's code.
func majorText(digits, unit string) string {
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return digits
	}
	text := major(n, unit)
	whole, rest, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "\u2212", whole[1:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return sign + thousands(whole) + rest + "\u00a0" + code(unit)
}

// cluster is the breaks that look like one cause, shown as one: the same class, severity and outcome.
type cluster struct {
	Class    Class
	Severity Severity
	Outcome  string
	Next     string // what a person does about it; empty where nobody has to
	Breaks   []jsonBreak
	Amounts  []string
	open     bool

	shards []int
	sums   map[string]*big.Int
}

// Where says what the breaks have in common: a cause often sits in one shard.
func (c *cluster) Where() string {
	switch {
	case len(c.shards) > 1:
		return fmt.Sprintf("in %d shards", len(c.shards))
	case len(c.Breaks) > 1:
		return fmt.Sprintf("all in shard %d", c.shards[0])
	}
	return fmt.Sprintf("shard %d", c.shards[0])
}

// clusters are those that need a person, and the others.
func (s *StoredReport) clusters() (open, settled []*cluster) {
	index := map[string]*cluster{}
	for _, b := range s.Breaks {
		outcome := b.outcome()
		key := fmt.Sprint(b.Class, b.Severity, outcome)
		c := index[key]
		if c == nil {
			c = &cluster{Class: b.Class, Severity: b.Severity, Outcome: outcome, Next: b.next(), open: b.open(), sums: map[string]*big.Int{}}
			index[key] = c
			if c.open {
				open = append(open, c)
			} else {
				settled = append(settled, c)
			}
		}
		c.add(b)
	}
	for _, c := range index {
		for _, unit := range sortedKeys(c.sums) {
			c.Amounts = append(c.Amounts, majorText(c.sums[unit].String(), unit))
		}
	}
	return open, settled
}

func (c *cluster) add(b jsonBreak) {
	c.Breaks = append(c.Breaks, b)
	if !slices.Contains(c.shards, b.Shard) {
		c.shards = append(c.shards, b.Shard)
	}
	if n, ok := new(big.Int).SetString(b.Amount, 10); ok {
		if c.sums[b.Unit] == nil {
			c.sums[b.Unit] = new(big.Int)
		}
		c.sums[b.Unit].Add(c.sums[b.Unit], n.Abs(n))
	}
}

// open says that a person has to do something about a break.
func (b jsonBreak) open() bool {
	c := b.Compensation
	return b.Settled == "" && b.Action != Wait && (c == nil || c.State != Applied)
}

// next is what a person does about an open break.
func (b jsonBreak) next() string {
	switch {
	case !b.open():
		return ""
	case b.Class == DeadLettersUnattended:
		return "reconciler deadletters list"
	case b.Action == Reversal || b.Action == Adjustment || b.Action == Release || b.Action == Repair && b.Compensation == nil:
		return "reconciler breaks propose " + b.BreakID + " --by NAME"
	case b.Account != "":
		return "reconciler explain " + shellWord(b.Account)
	}
	return "reconciler breaks show " + b.BreakID
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/@", r)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// outcome is what became of a break, in plain words.
func (b jsonBreak) outcome() string {
	c := b.Compensation
	switch {
	case b.Settled != "":
		return b.Settled
	case c == nil && b.Action == Wait:
		return "passes by itself"
	case c == nil && (b.Action == Reversal || b.Action == Adjustment || b.Action == Release):
		return "waits for two people"
	case c == nil:
		return "for a person"
	}
	word := map[string]string{"repair": "repaired", "reproject": "written again from Kafka", "adjust": "adjustment booked", "reverse": "reversal booked", "release": "released"}[c.Operation]
	switch c.State {
	case Applied:
		return word
	case WouldIssue:
		return "would be " + word
	case Rejected, Unknown, NotSent, Issued:
	}
	return strings.ReplaceAll(string(c.State), "_", " ") + " (" + c.Reason + ")"
}

// Sentence is the verdict for somebody who reads nothing else.
func (s *StoredReport) Sentence() string {
	switch s.Verdict {
	case Clean:
		return "Every account agrees."
	case Breaks:
		open := 0
		for _, b := range s.Breaks {
			if b.open() {
				open++
			}
		}
		if open == 0 {
			return fmt.Sprintf("%s found, and all of it is settled.", upperFirst(plural(s.BreaksFound, "difference")))
		}
		return fmt.Sprintf("%s found; %s a person.", upperFirst(plural(s.BreaksFound, "difference")), needs(open))
	case CouldNotTell:
	}
	return "This run could not tell."
}

func needs(n int) string {
	if n == 1 {
		return "1 needs"
	}
	return thousands(fmt.Sprint(n)) + " need"
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// WriteHTML writes one self-contained page: no script, nothing loaded from elsewhere.
func (s *StoredReport) WriteHTML(w io.Writer) error {
	tone := map[Verdict]string{Clean: "clean", Breaks: "breaks", CouldNotTell: "unknown"}[s.Verdict]
	if s.Verdict == Breaks && strings.HasSuffix(s.Sentence(), "settled.") {
		tone = "settled"
	}
	open, settled := s.clusters()
	err := pageTemplate.Execute(w, map[string]any{
		"R": s, "Tone": tone, "Open": open, "Settled": settled, "Months": calendarDays / 30, "Map": heatMap(s.days), "Streak": streak(s.days), "Took": s.FinishedAt.Sub(s.StartedAt).Round(time.Millisecond),
		"Totals": s.totals(),
	})
	if err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// totalLine is a control total with its difference.
type totalLine struct{ Unit, Redis, Log, Difference string }

func (s *StoredReport) totals() []totalLine {
	var lines []totalLine
	for _, t := range s.Totals {
		redis, _ := new(big.Int).SetString(t.Redis, 10)
		log, ok := new(big.Int).SetString(t.Log, 10)
		if redis == nil || !ok {
			continue // we wrote it
		}
		lines = append(lines, totalLine{t.Unit, t.Redis, t.Log, redis.Sub(redis, log).String()})
	}
	return lines
}

// WriteMarkdown writes the report for tickets and mails.
func (s *StoredReport) WriteMarkdown(w io.Writer) error {
	out := &errWriter{w: w}
	out.say("# %s\n\n%s\n\n", s.Sentence(), escapeMarkdown(s.Headline))
	out.say("Run `%s`, %s, %s, policy `%s`, %d clean days in a row.\n\n", s.RunID, s.StartedAt.UTC().Format(time.RFC3339), s.Mode, s.Policy, streak(s.days))
	out.say("| currency | Redis | log | difference |\n|---|---:|---:|---:|\n")
	for _, t := range s.totals() {
		out.say("| %s | %s | %s | %s |\n", t.Unit, majorText(t.Redis, t.Unit), majorText(t.Log, t.Unit), majorText(t.Difference, t.Unit))
	}
	if len(s.Breaks) > 0 {
		out.say("\n| severity | break | where | at stake | cause | outcome |\n|---|---|---|---:|---|---|\n")
	}
	for _, b := range s.Breaks {
		where, amount := b.Account, ""
		if where == "" {
			where = fmt.Sprintf("shard %d", b.Shard)
		}
		if b.Amount != "" {
			amount = majorText(b.Amount, b.Unit)
		}
		out.say("| %s | %s `%s` | %s | %s | %s | %s |\n", b.Severity, b.Class, b.BreakID, escapeMarkdown(where), amount, escapeMarkdown(b.Detail), escapeMarkdown(b.outcome()))
	}
	out.say("\n| shard | position | chain |\n|---:|---:|---|\n")
	for _, shard := range s.Shards {
		out.say("| %d | %d | `%s` |\n", shard.Shard, shard.Position, shard.Chain)
	}
	if out.err != nil {
		return fmt.Errorf("print report: %w", out.err)
	}
	return nil
}

// escapeMarkdown keeps the words of accounts and references from being markup.
func escapeMarkdown(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "\n", " ").Replace(s)
}
