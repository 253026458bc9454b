package reconciler

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Every alert has a runbook, every metric that it asks for exists, and every command of a runbook is one of ours.
func TestAlertsHaveRunbooksWhoseCommandsExist(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	m, err := newRunMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	m.observe(&Report{Verdict: Clean, Phases: nil})
	have := map[string]bool{}
	for series := range gathered(t, reg) {
		name, _, _ := strings.Cut(series, " ")
		have[name] = true
	}
	for _, metric := range regexp.MustCompile(`ledger_[a-z_]+`).FindAllString(string(rules), -1) {
		if !have[metric] {
			t.Errorf("alerts.yml asks for %s, which the reconciler does not show", metric)
		}
	}
	books := regexp.MustCompile(`runbook_url: (\S+)`).FindAllStringSubmatch(string(rules), -1)
	if alerts := strings.Count(string(rules), "- alert:"); len(books) != alerts || alerts == 0 {
		t.Errorf("%d alerts and %d runbooks", alerts, len(books))
	}
	for _, book := range books {
		text, err := os.ReadFile(filepath.Join("..", book[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		commands := regexp.MustCompile("(?m)(?:^    |`)(reconciler [^\n`]+)").FindAllStringSubmatch(string(text), -1)
		if len(commands) < 2 {
			t.Errorf("%s has %d commands", book[1], len(commands))
		}
		for _, command := range commands {
			args := strings.Fields(command[1])[1:]
			var out bytes.Buffer
			cmd := Command(nil)
			cmd.SetArgs(append(args, "--help")) // flags and sub-commands are parsed, nothing is run
			cmd.SetOut(&out)
			if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "Usage:") {
				t.Errorf("%s: %q: %v\n%s", book[1], command[1], err, out.String())
			}
		}
	}
}
