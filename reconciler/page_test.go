package reconciler

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/topics"
)

// HOTLEDGER_PAGE names a file that the page is left in, to be looked at in a browser.
func TestReportOfADamagedNightIsOnePageThatSaysTheVerdictFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	// The months before: clean, but for a few nights.
	w.must(w.rows.Exec(w.ctx, `INSERT INTO reconciliation_runs (run_id, started_at, finished_at, verdict, breaks, repairs, version, business_date)
		SELECT concat('old', toString(number)), now64(3) - INTERVAL number DAY, now64(3) - INTERVAL number DAY,
			multiIf(number = 9, 'could_not_tell', number IN (17, 44, 61), 'breaks', 'clean'), multiIf(number = 17, 3, number IN (44, 61), 2, 0),
			multiIf(number = 17, 1, number IN (44, 61), 2, 0), 1, toDate(now('UTC') - INTERVAL number DAY)
		FROM numbers(1, 120)`))
	w.tamper("a3", func(a *lua.Account) { a.Balance += 125_000 })
	w.forget("a4")
	w.setRecord("<script>ghost", "500 1 USD/2")
	cents, shards := 0, map[int]bool{topics.ShardOf("a3", testShards): true} // of the wrong balances
	for i := 10; i < 15; i++ {
		shards[topics.ShardOf(fmt.Sprintf("a%d", i), testShards)] = true
		if topics.ShardOf(fmt.Sprintf("a%d", i), testShards) == topics.ShardOf("a3", testShards) {
			cents++
		}
		w.tamper(fmt.Sprintf("a%d", i), func(a *lua.Account) { a.Balance-- })
	}
	w.alter("ALTER TABLE events DELETE WHERE account = 'a8' AND sequence = 2")
	report := w.mustRun(func(c *Config) { c.BusinessDate = "2026-11-29" })
	r, err := New(w.cfg, nil, nil)
	w.must(err)
	defer func() { _ = r.Close() }()
	stored, err := r.ReadReport(w.ctx, report.RunID)
	w.must(err)
	causes := len(shards) + 3 // an account that is missing, one that nobody opened, and a row
	var page, text strings.Builder
	w.must(stored.WriteHTML(&page))
	w.must(stored.WriteMarkdown(&text))
	if file := os.Getenv("HOTLEDGER_PAGE"); file != "" {
		w.must(os.WriteFile(file, []byte(page.String()), 0o600))
	}
	for _, want := range []string{fmt.Sprintf("<h1>9 differences found, which look like %d causes; 1 needs a person.</h1>", causes), fmt.Sprintf("1,250.0%d", cents), "&lt;script&gt;ghost", "<svg", "written again from Kafka", "Redis lost an account", "What needs a person", `<span class="breaks"><i></i>a person was needed`, "reconciler explain &#39;&lt;script"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<script", "http://", "https://", "src="} {
		if strings.Contains(page.String(), never) {
			t.Errorf("the page is not self-contained or not safe: it has %q", never)
		}
	}
	if !strings.HasPrefix(text.String(), fmt.Sprintf("# 9 differences found, which look like %d causes; 1 needs a person.", causes)) || !strings.Contains(text.String(), "&lt;script>ghost") {
		t.Errorf("markdown:\n%s", text.String())
	}
}
