package lua

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const scriptLinesMax = 140

var scriptNames = []string{"apply", "inspect", "load", "recall", "replay", "swap"}

// header is what a script says about itself.
type header struct {
	purpose  string
	sections map[string][]string // title -> its lines
	includes []string
	body     string
}

// source is the body with all that it includes.
func (h header) source() string {
	source := h.body
	for _, include := range h.includes {
		source += read("include/" + include + ".lua")
	}
	return source
}

var titles = []string{"Steps", "KEYS", "ARGV", "Returns", "Holds"}

func parseHeader(t *testing.T, name string) header {
	t.Helper()
	h := header{sections: map[string][]string{}}
	lines := strings.Split(read(name+".lua"), "\n")
	if !strings.HasPrefix(lines[0], "#!lua") {
		t.Fatalf("%s begins with %q, not with #!lua", name, lines[0])
	}
	h.purpose = strings.TrimPrefix(lines[1], "-- ")
	var title string
	for i, line := range lines[2:] {
		text, comment := strings.CutPrefix(line, "--")
		switch {
		case !comment:
			h.body = strings.Join(lines[2+i:], "\n")
			if m := includeLine.FindStringSubmatch(h.body); m != nil {
				h.includes = strings.Fields(m[1])
			}
			h.body = includeLine.ReplaceAllString(h.body, "")
			return h
		case text == "":
		case !strings.HasPrefix(text, "  "):
			title = strings.TrimSpace(text)
		default:
			h.sections[title] = append(h.sections[title], strings.TrimSpace(text))
		}
	}
	t.Fatalf("%s has no body", name)
	return h
}

func forEachScript(t *testing.T, check func(t *testing.T, name string, h header)) {
	t.Helper()
	t.Parallel()
	for _, name := range scriptNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, name, parseHeader(t, name))
		})
	}
}

func TestEveryScriptHasAFullHeader(t *testing.T) {
	forEachScript(t, func(t *testing.T, name string, h header) {
		if !strings.HasPrefix(h.purpose, name+": ") || !strings.HasSuffix(h.purpose, ".") {
			t.Errorf("purpose %q is not \"%s: ... .\"", h.purpose, name)
		}
		for _, title := range titles {
			if len(h.sections[title]) == 0 {
				t.Errorf("no section %s", title)
			}
		}
		if len(h.sections) != len(titles) {
			t.Errorf("sections %v, expected %v", slices.Sorted(maps.Keys(h.sections)), titles)
		}
		for _, word := range regexp.MustCompile(`\{ ?'([A-Z_]+)'|stop\('([A-Z_]+)'|broken\('|invalid\('`).FindAllStringSubmatch(h.body, -1) {
			if said := word[1] + word[2]; said != "" && !strings.Contains(strings.Join(h.sections["Returns"], "\n"), `"`+said+`"`) {
				t.Errorf("answers %q, which Returns does not name", said)
			}
		}
	})
}

func TestStepsOfTheHeaderAreStepsOfTheBody(t *testing.T) {
	forEachScript(t, func(t *testing.T, _ string, h header) {
		step := regexp.MustCompile(`(?m)^-- (\d+)\. `)
		var inBody []string
		for _, m := range step.FindAllStringSubmatch(h.body, -1) {
			inBody = append(inBody, m[1])
		}
		for i, line := range h.sections["Steps"] {
			if !strings.HasPrefix(line, fmt.Sprintf("%d. ", i+1)) {
				t.Errorf("step %d reads %q", i+1, line)
			}
			if i >= len(inBody) || inBody[i] != strconv.Itoa(i+1) {
				t.Fatalf("the body's steps are %v", inBody)
			}
		}
		if len(inBody) != len(h.sections["Steps"]) {
			t.Errorf("the body's steps are %v, the header has %d", inBody, len(h.sections["Steps"]))
		}
	})
}

// documented are the numbers of a section's lines: "1 name   text", "1-4 text", "1 a, 2 b, 3 c", and "1 a   2 b   3 c".
func documented(line string) []int {
	var numbers []int
	for _, m := range regexp.MustCompile(`(?:^|, |   )(\d+)(?:-(\d+))? [a-z]`).FindAllStringSubmatch(line, -1) {
		from, _ := strconv.Atoi(m[1])
		to := from
		if m[2] != "" {
			to, _ = strconv.Atoi(m[2])
		}
		for n := from; n <= to; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func used(body, array string) []int {
	set := map[int]bool{}
	for _, m := range regexp.MustCompile(array+`\[(\d+)\]`).FindAllStringSubmatch(body, -1) {
		n, _ := strconv.Atoi(m[1])
		set[n] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

func TestEveryKeyAndArgumentIsDocumentedAndUsed(t *testing.T) {
	forEachScript(t, func(t *testing.T, _ string, h header) {
		var keys []int
		for _, line := range h.sections["KEYS"] {
			keys = append(keys, documented(line)...)
		}
		if !slices.Equal(keys, upTo(len(keys))) || !slices.Equal(keys, used(h.body, "KEYS")) {
			t.Errorf("KEYS documented %v, used %v", keys, used(h.body, "KEYS"))
		}
		if m := regexp.MustCompile(`(KEYS|ARGV)\[[^\d\]]*[a-hj-z]`).FindString(h.body); m != "" {
			t.Errorf("%s: only numbers, and ARGV[i] of a row", m)
		}
		fixed, row, width := arguments(h.sections["ARGV"])
		if !slices.Equal(fixed, upTo(len(fixed))) || !slices.Equal(fixed, used(h.body, "ARGV")) {
			t.Errorf("ARGV documented %v, used %v", fixed, used(h.body, "ARGV"))
		}
		if !slices.Equal(row, upTo(width)) {
			t.Errorf("a row has %d arguments, documented are %v", width, row)
		}
		if width > 0 && !strings.Contains(h.body, fmt.Sprintf("local FIRST, WIDTH = %d, %d\n", len(fixed)+1, width)) {
			t.Errorf("FIRST and WIDTH of the body are not %d and %d", len(fixed)+1, width)
		}
		offsets := map[int]bool{}
		for _, m := range regexp.MustCompile(`ARGV\[i(?: \+ (\d+))?\]`).FindAllStringSubmatch(h.source(), -1) {
			n, _ := strconv.Atoi(m[1])
			offsets[n+1] = true
		}
		if got := slices.Sorted(maps.Keys(offsets)); !slices.Equal(got, upTo(width)) {
			t.Errorf("of a row of %d the script uses %v", width, got)
		}
	})
}

// arguments splits a section ARGV into the numbers before and after its line "then <width> per ...".
func arguments(lines []string) (fixed, row []int, width int) {
	for _, line := range lines {
		if m := regexp.MustCompile(`^then (\d+) per `).FindStringSubmatch(line); m != nil {
			width, _ = strconv.Atoi(m[1])
		} else if width == 0 {
			fixed = append(fixed, documented(line)...)
		} else {
			row = append(row, documented(line)...)
		}
	}
	return fixed, row, width
}

func TestGoMarshalsWhatTheHeadersDocument(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for commands, call := range []Call{b.call(), b.call(b.open("a", "")), b.call(b.open("a", ""), b.debit("a", "1"))} {
		fixed, _, width := arguments(parseHeader(t, "apply").sections["ARGV"])
		accounts, asks := min(commands, 1), commands
		if got, want := len(call.args(0)), len(fixed)+width*accounts+asks; got != want {
			t.Errorf("apply: %d arguments for %d commands, not %d", got, commands, want)
		}
	}
	if limit := fmt.Sprintf("at most %d commands", CommandsMax); !strings.Contains(read("apply.lua"), limit) {
		t.Errorf("apply.lua does not say %q", limit)
	}
	if limit := fmt.Sprintf("at most %d events", EventsMax); !strings.Contains(read("replay.lua"), limit) {
		t.Errorf("replay.lua does not say %q", limit)
	}
	if limit := fmt.Sprintf("at most %d rows", LoadMax); !strings.Contains(read("load.lua"), limit) {
		t.Errorf("load.lua does not say %q", limit)
	}
	if keys := LiveKeys(1); len(keys) != 6 {
		t.Errorf("live keys %v", keys)
	}
}

// Every command of a script goes to a local that the script's first lines take from KEYS, or to an unpacked list that begins with one.
func TestScriptsTouchNoKeyThatIsNotDeclared(t *testing.T) {
	forEachScript(t, func(t *testing.T, _ string, h header) {
		declared := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^local ([A-Z_, ]+) = ((?:KEYS\[\d+\](?:, )?)+)$`).FindAllStringSubmatch(h.body, -1) {
			for _, name := range strings.Split(m[1], ", ") {
				declared[name] = true
			}
		}
		if len(declared) != len(used(h.body, "KEYS")) {
			t.Errorf("the body names %v", slices.Sorted(maps.Keys(declared)))
		}
		source := h.source()
		for _, m := range regexp.MustCompile(`for _, (\w+) in ipairs\(\{ ([A-Z, ]+) \}\) do`).FindAllStringSubmatch(source, -1) {
			declared[m[1]] = !slices.ContainsFunc(strings.Split(m[2], ", "), func(key string) bool { return !declared[key] })
		}
		for _, m := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)', ('STREAM', )?([^)]*)`).FindAllStringSubmatch(source, -1) {
			list := strings.Split(m[3], ", ")
			if unpacked, ok := strings.CutPrefix(list[0], "unpack("); ok {
				begin := regexp.MustCompile(`\b` + unpacked + `\b(?:, \w+)* = (?:\{\}, |\(\{ accounts = )?\{ (\w+),`).FindStringSubmatch(source)
				if begin == nil || !declared[begin[1]] {
					t.Errorf("%s writes to what %s begins with: %v", m[1], unpacked, begin)
				}
				continue
			}
			words := list[:1]
			if m[1] == "EXISTS" || m[1] == "UNLINK" || m[1] == "DEL" || m[1] == "RENAME" {
				words = list
			}
			for _, word := range words {
				if !declared[word] {
					t.Errorf("%s touches %s, which is not one of KEYS", m[1], word)
				}
			}
		}
		if calls, found := strings.Count(source, "redis.call")+strings.Count(source, "redis.pcall"), strings.Count(source, "call('"); calls != found {
			t.Errorf("%d of %d calls have a computed command", calls-found, calls)
		}
	})
}

func TestScriptsAndIncludesAreShortCommentedAndUsed(t *testing.T) {
	t.Parallel()
	included := map[string]bool{}
	for _, name := range scriptNames {
		for _, include := range parseHeader(t, name).includes {
			included["include/"+include+".lua"] = true
		}
	}
	err := fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		source := read(strings.TrimPrefix(path, "./"))
		if lines := strings.Count(source, "\n"); lines > scriptLinesMax {
			t.Errorf("%s has %d lines, more than %d", path, lines, scriptLinesMax)
		}
		name, isInclude := strings.CutPrefix(path, "include/")
		switch {
		case isInclude && !included[path]:
			t.Errorf("no script includes %s", path)
		case isInclude && !strings.HasPrefix(source, "-- "):
			t.Errorf("%s does not begin with a comment", path)
		case !isInclude && !slices.Contains(scriptNames, strings.TrimSuffix(name, ".lua")):
			t.Errorf("script %s is not tested here", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
