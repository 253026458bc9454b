package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
)

// outcomeJSON is an outcome for programs. Amounts are strings in minor units.
type outcomeJSON struct {
	CommandID string       `json:"command_id"`
	Account   string       `json:"account"`
	Status    string       `json:"status"`
	Reason    string       `json:"reason,omitempty"`
	Detail    string       `json:"detail,omitempty"`
	NextStep  string       `json:"next_step,omitempty"`
	Shard     uint32       `json:"shard"`
	Position  uint64       `json:"position"`
	Delta     string       `json:"delta"`
	After     *accountJSON `json:"after,omitempty"`
	DecidedAt string       `json:"decided_at"`
}

type accountJSON struct {
	Balance  string `json:"balance"`
	Held     string `json:"held"`
	Floor    string `json:"floor"`
	Sequence uint64 `json:"sequence"`
	Unit     string `json:"unit"`
	Status   string `json:"status"`
}

func printOutcome(w io.Writer, output string, outcome *ledgerv1.Outcome, detail string) error {
	entry := reason.Of(outcome.GetReason())
	status := strings.ToLower(strings.TrimPrefix(outcome.GetStatus().String(), "STATUS_"))
	decidedAt := outcome.GetDecidedAt().AsTime().Format(time.RFC3339Nano)
	after := outcome.GetAfter()
	if output == outputJSON {
		out := outcomeJSON{
			CommandID: outcome.GetCommandId(), Account: outcome.GetAccount(), Status: status, Reason: entry.Code, Detail: detail,
			Shard: outcome.GetShard(), Position: outcome.GetPosition(), Delta: outcome.GetDelta(), DecidedAt: decidedAt,
		}
		if entry.Code != "" {
			out.NextStep = entry.NextStep
		}
		if after != nil {
			out.After = &accountJSON{after.GetBalance(), after.GetHeld(), after.GetFloor(), after.GetSequence(), after.GetUnit(), after.GetStatus()}
		}
		return json.NewEncoder(w).Encode(out)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) { _, _ = fmt.Fprintf(table, "%s\t%s\n", name, value) } // Flush reports the error
	line("command", outcome.GetCommandId())
	line("account", outcome.GetAccount())
	line("status", status)
	if entry.Code != "" {
		line("reason", entry.Code)
	}
	if detail != "" {
		line("detail", detail)
	}
	if after != nil {
		line("change", major(outcome.GetDelta(), after.GetUnit()))
		line("balance", major(after.GetBalance(), after.GetUnit()))
		line("sequence", fmt.Sprint(after.GetSequence()))
	}
	line("position", fmt.Sprintf("%d in shard %d", outcome.GetPosition(), outcome.GetShard()))
	line("decided", decidedAt)
	return table.Flush()
}

// major writes minor units for people: "12.50 USD". What it cannot read it shows as it is.
func major(minor, unit string) string {
	v, err := money.ParseMinor(minor)
	if err != nil {
		return minor
	}
	u, err := money.ParseUnit(unit)
	if err != nil {
		return minor
	}
	return money.FormatMajor(v, u) + " " + u.Code
}
