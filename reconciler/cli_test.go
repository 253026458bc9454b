package reconciler

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/lua"
)

// environ is the world as a process would be told of it.
func (w *world) environ() []string {
	return []string{
		"KAFKA_BROKERS=" + strings.Join(w.cfg.Kafka.Brokers, ","), "LEDGER_SHARDS=" + strconv.Itoa(testShards),
		"REDIS_ADDRS=" + strings.Join(w.cfg.Redis.Addrs, ","), "CLICKHOUSE_ADDRS=" + strings.Join(w.cfg.ClickHouse.Addrs, ","),
		"CLICKHOUSE_DATABASE=" + w.cfg.ClickHouse.Database, "CLICKHOUSE_FINANCE_DATABASE=" + w.cfg.ClickHouse.FinanceDatabase, "LOG_LEVEL=error",
	}
}

func TestCommandLineExitsWithTheVerdict(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	outcome := func(args ...string) (string, int) {
		var out bytes.Buffer
		cmd := Command(w.environ())
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := cmd.ExecuteContext(w.ctx)
		return out.String(), run.ExitCode(err)
	}
	out, code := outcome("run")
	if code != 0 || !strings.HasPrefix(out, "CLEAN: Redis and the log agree on 20 accounts") {
		t.Errorf("exit %d:\n%s", code, out)
	}

	w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
	out, code = outcome("run", "--dry-run")
	if code != ExitBreaks || !strings.HasPrefix(out, "1 BREAK FOUND: 1 would be repaired") || !strings.Contains(out, "95.03 USD") || !strings.Contains(out, "90.03 USD") {
		t.Errorf("exit %d:\n%s", code, out)
	}

	out, code = outcome("run", "-o", "json")
	var report struct {
		Verdict string
		Breaks  []struct {
			Class        string
			Redis, Log   struct{ Balance string }
			Compensation struct{ State string }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != ExitBreaks {
		t.Fatalf("exit %d, %v:\n%s", code, err, out)
	}
	if report.Verdict != "breaks" || report.Breaks[0].Redis.Balance != "9503" || report.Breaks[0].Log.Balance != "9003" || report.Breaks[0].Compensation.State != "applied" {
		t.Errorf("report %+v", report)
	}

	for _, args := range [][]string{{"run", "--output", "xml"}, {"run", "--nonsense"}, {"run", "now"}, {"walk"}, {"run", "--reconciler-page-size", "0"}} {
		if out, code := outcome(args...); code != ExitUsage {
			t.Errorf("%v: exit %d:\n%s", args, code, out)
		}
	}
	if out, code := outcome("run", "--redis-addrs", "127.0.0.1:1"); code != ExitCouldNotTell || !strings.HasPrefix(out, "COULD NOT TELL: ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestReadmeListsTheConfiguration(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := config.Table(&Config{}); !strings.Contains(string(readme), table) {
		t.Errorf("README.md lacks this table:\n%s", table)
	}
}

func TestConfigReportsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	var cfg Config
	err := config.Load("reconciler", &cfg, nil, []string{"RECONCILER_SCANS_MAX=0", "RECONCILER_BARRIER_TIMEOUT=-1s", "RECONCILER_SNAPSHOT_DAYS=31", "RECONCILER_TYPO=1"})
	for _, key := range []string{"RECONCILER_SCANS_MAX", "RECONCILER_BARRIER_TIMEOUT", "RECONCILER_SNAPSHOT_DAYS", "RECONCILER_TYPO"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("want %s among the problems, got %v", key, err)
		}
	}
}
