package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/producer/cli"
	"github.com/hotledger/hotledger/producer/internal/answering"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

type result struct {
	stdout, stderr string
	code           int
	err            error
}

// call runs the command line against the desk's broker (nil: none).
func call(ctx context.Context, desk *answering.Desk, args ...string) result {
	environ := []string{"KAFKA_BROKERS=127.0.0.1:1", "LOG_LEVEL=error"}
	if desk != nil {
		environ = []string{
			"KAFKA_BROKERS=" + strings.Join(desk.Kafka.Addrs(), ","), fmt.Sprintf("LEDGER_SHARDS=%d", answering.Shards), "LOG_LEVEL=error",
		}
	}
	var stdout, stderr bytes.Buffer
	err := cli.Run(ctx, args, environ, &stdout, &stderr)
	return result{stdout.String(), stderr.String(), run.ExitCode(err), err}
}

func debit(more ...string) []string {
	return append([]string{"submit", "debit", "--account", "alice", "--amount", "12.50", "--currency", "USD"}, more...)
}

func TestSubmitPrintsTheOutcome(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	desk.Serve([]uint64{0, 0, 0}, func(cmd *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		outcome.Delta = "-" + cmd.GetAmount()
		outcome.After = &ledgerv1.AccountState{Balance: "999999999999999999", Held: "0", Floor: "0", Sequence: 7, Unit: "USD/2", Status: "active"}
		if cmd.GetReference() == "poor" {
			outcome.Status, outcome.Reason, outcome.Delta = ledgerv1.Status_STATUS_REJECTED, ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS, "0"
		}
	})
	got := call(t.Context(), desk, debit("--id", "d-1")...)
	if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "9999999999999999.99 USD") || !strings.Contains(got.stdout, "-12.50 USD") {
		t.Errorf("got %+v", got)
	}
	got = call(t.Context(), desk, debit("-o", "json")...)
	var out map[string]any
	if err := json.Unmarshal([]byte(got.stdout), &out); err != nil || got.code != 0 || out["status"] != "applied" || out["delta"] != "-1250" {
		t.Errorf("got %+v, %v", got, err)
	}
	if id, _ := out["command_id"].(string); id == "" || !strings.Contains(got.stderr, id) {
		t.Errorf("the id that was made is not told: %+v", got)
	}
	got = call(t.Context(), desk, debit("--reference", "poor", "-o", "json")...)
	if got.code != 4 || !strings.Contains(got.stdout, `"reason":"INSUFFICIENT_FUNDS"`) {
		t.Errorf("got %+v", got)
	}
}

func TestUnknownOutcomeExitsWithFive(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	got := call(t.Context(), desk, debit("--id", "d-1", "--producer-outcome-timeout", "1ms")...)
	if got.code != 5 || !strings.Contains(got.err.Error(), "d-1") || got.stdout != "" {
		t.Fatalf("got %+v", got)
	}
}

func TestWrongUseAndInvalidCommandsConnectToNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f.csv")
	if err := os.WriteFile(file, []byte("command_id,date,op,account,counter_account,amount,currency\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, calls := range map[int][][]string{
		2: {
			{"sumbit"}, {"--no-such-flag"}, {"submit"}, {"submit", "steal"}, {"submit", "debit", "x"}, debit("-o", "yaml"), debit("--floor", "0"),
			{"submit", "freeze", "--account", "a", "--direction", "up"}, {"submit", "debit", "--account", "a"}, debit("--leg", "@a"),
			{"submit", "release", "--account", "a", "--hold", "h", "--amount", "1"}, {"submit", "repair", "--account", "a"}, debit("--deadline", "soon"),
			debit("--producer-in-flight-max", "0"), {"import"}, {"import", "a", "b"}, {"import", file, "--overdraft", "x=-1"},
			{"import", file, "--open-accounts", "--overdraft", "x"}, {"import", file, "--unit", "x"}, {"import", t.TempDir()},
		},
		4: {debit("--amount", "nan"), debit("--amount", "1.005"), debit("--currency", "XYZ"), debit("--leg", "@a=1e3"),
			{"submit", "set-limits", "--account", "a"}, {"submit", "open", "--account", "a", "--currency", "USD", "--ceiling", "-1"},
			{"submit", "transfer", "--account", "a", "--to", "a", "--amount", "1", "--currency", "USD"}, debit("--id", "@credit/t"),
		},
		1: {{"import", file + ".none"}},
		0: {{"--help"}, {"submit", "--help"}, {"import", "--help"}, {}},
	} {
		for _, args := range calls {
			if got := call(t.Context(), nil, args...); got.code != want {
				t.Errorf("%q exits with %d, want %d: %v", args, got.code, want, got.err)
			}
		}
	}
}

func TestImportReportsBadLinesAndKnowsWhatItDidBefore(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	seen := map[string]uint64{}
	desk.Serve([]uint64{0, 0, 0}, func(cmd *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		if first, ok := seen[cmd.GetCommandId()]; ok {
			outcome.Position = first
		}
		seen[cmd.GetCommandId()] = outcome.GetPosition()
	})
	file := filepath.Join(t.TempDir(), "f.csv")
	text := "command_id,date,op,account,counter_account,amount,currency\n" +
		"a,2020-01-01,debit,alice,,1,USD\nb,2020-01-01,debit,alice,,nan,USD\na,2020-01-01,debit,alice,,1,USD\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call(t.Context(), desk, "import", "--open-accounts", "-o", "json", file)
	want := `{"applied":2,"already_known":1,"rejected":0,"bad":1,"unknown":0,"balances_agreed":0,"balances_differed":0}` + "\n"
	if got.code != 4 || got.stdout != want || !strings.Contains(got.stderr, "f.csv:3: INVALID_AMOUNT: ") {
		t.Errorf("got %+v", got)
	}
	got = call(t.Context(), desk, "import", "--dry-run", file)
	if got.code != 4 || got.stdout != "2 commands would be sent, 1 lines are bad\n" || !strings.Contains(got.stderr, "f.csv:3: ") {
		t.Errorf("got %+v", got)
	}
}

func TestReadmeShowsEveryKey(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := config.Table(&cli.Config{}); !strings.Contains(string(readme), table) {
		t.Errorf("README.md lacks this table:\n%s", table)
	}
}
