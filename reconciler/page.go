package reconciler

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math/big"
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
	case b.Class == HoldDiffers:
		return fmt.Sprintf("ledger-writer rebuild --shard %d", b.Shard)
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
		found := upperFirst(plural(s.BreaksFound, "difference")) + " found"
		if n := s.causesFound(); n < s.BreaksFound {
			found += ", which look like " + plural(n, "cause")
		}
		if open == 0 {
			return found + ", and all of it is settled."
		}
		return fmt.Sprintf("%s; %s a person.", found, needs(open))
	case CouldNotTell:
	}
	return "This run could not tell."
}

// causesFound counts the causes of the breaks that were found: those of what was not listed, or not grouped, are as many as they are.
func (s *StoredReport) causesFound() uint64 {
	breaks, causes := uint64(0), uint64(0)
	for _, c := range s.causes() {
		if c.breaks[0].Settled == "" {
			breaks, causes = breaks+uint64(len(c.breaks)), causes+1
		}
	}
	return causes + s.BreaksFound - min(breaks, s.BreaksFound)
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
	var open, settled []*cause
	for _, c := range s.causes() {
		if c.Open() {
			open = append(open, c)
		} else {
			settled = append(settled, c)
		}
	}
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
	for _, c := range s.causes() {
		name := "`" + c.breaks[0].BreakID + "`"
		if n := len(c.breaks); n > 1 {
			name = fmt.Sprintf("%d times", n)
		}
		out.say("| %s | %s %s | %s | %s | %s | %s |\n", c.Severity, c.Class, name, escapeMarkdown(c.Where()), strings.Join(c.Money(), "; "), escapeMarkdown(c.Detail()), escapeMarkdown(c.Outcome()))
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
