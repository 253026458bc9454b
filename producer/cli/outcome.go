package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// outcomeJSON is an outcome for programs. Amounts are strings in minor units.
type outcomeJSON struct {
	CommandID       string        `json:"command_id"`
	Account         string        `json:"account"`
	Status          string        `json:"status"`
	Reason          string        `json:"reason,omitempty"`
	Detail          string        `json:"detail,omitempty"`
	NextStep        string        `json:"next_step,omitempty"`
	Shard           uint32        `json:"shard"`
	Position        uint64        `json:"position"`
	Delta           string        `json:"delta"`
	Legs            []legJSON     `json:"legs,omitempty"`
	Hold            *holdJSON     `json:"hold,omitempty"`
	Reversal        *reversalJSON `json:"reversal,omitempty"`
	TransferAccount string        `json:"transfer_account,omitempty"`
	After           *accountJSON  `json:"after,omitempty"`
	BusinessDate    string        `json:"business_date,omitempty"`
	DecidedAt       string        `json:"decided_at"`
}

type legJSON struct {
	CounterAccount string `json:"counter_account"`
	Amount         string `json:"amount"`
}

type holdJSON struct {
	ID             string `json:"hold_id"`
	Remaining      string `json:"remaining"`
	ExpiresAt      string `json:"expires_at,omitempty"`
	CounterAccount string `json:"counter_account,omitempty"`
}

type reversalJSON struct {
	CommandID string `json:"command_id"`
	Total     string `json:"total"`
}

type accountJSON struct {
	Balance   string `json:"balance"`
	Held      string `json:"held"`
	Available string `json:"available"`
	Floor     string `json:"floor"`
	Ceiling   string `json:"ceiling,omitempty"`
	Sequence  uint64 `json:"sequence"`
	Unit      string `json:"unit"`
	Status    string `json:"status"`
}

func printOutcome(w io.Writer, output string, outcome *ledgerv1.Outcome, detail string) error {
	if output == outputJSON {
		return json.NewEncoder(w).Encode(outcomeOf(outcome, detail))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	writeOutcome(outcome, detail, func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(table, "%s\t%s\n", name, value) // Flush reports the error
		}
	})
	return table.Flush()
}

func outcomeOf(outcome *ledgerv1.Outcome, detail string) *outcomeJSON {
	entry := reason.Of(outcome.GetReason())
	out := &outcomeJSON{
		CommandID: outcome.GetCommandId(), Account: outcome.GetAccount(), Status: statusOf(outcome), Reason: entry.Code, Detail: detail,
		Shard: outcome.GetShard(), Position: outcome.GetPosition(), Delta: outcome.GetDelta(), TransferAccount: outcome.GetTransferAccount(),
		BusinessDate: outcome.GetBusinessDate(), DecidedAt: at(outcome.GetDecidedAt()),
	}
	if entry.Code != "" {
		out.NextStep = entry.NextStep
	}
	for _, leg := range outcome.GetLegs() {
		out.Legs = append(out.Legs, legJSON{leg.GetCounterAccount(), leg.GetAmount()})
	}
	if hold := outcome.GetHold(); hold != nil {
		out.Hold = &holdJSON{hold.GetHoldId(), hold.GetRemaining(), at(hold.GetExpiresAt()), hold.GetCounterAccount()}
	}
	if reversal := outcome.GetReversal(); reversal != nil {
		out.Reversal = &reversalJSON{limits.CallersID(reversal.GetCommandId()), reversal.GetTotal()}
	}
	if after := outcome.GetAfter(); after != nil {
		out.After = &accountJSON{
			after.GetBalance(), after.GetHeld(), after.GetAvailable(), after.GetFloor(), after.GetCeiling(),
			after.GetSequence(), after.GetUnit(), after.GetStatus(),
		}
	}
	return out
}

// writeOutcome gives line what people want to know. An empty value is left out.
func writeOutcome(outcome *ledgerv1.Outcome, detail string, line func(name, value string)) {
	after := outcome.GetAfter()
	amount := func(minor string) string { return major(minor, after.GetUnit()) }
	line("command", outcome.GetCommandId())
	line("account", outcome.GetAccount())
	line("status", statusOf(outcome))
	line("reason", reason.Of(outcome.GetReason()).Code)
	line("detail", detail)
	if outcome.GetStatus() == ledgerv1.Status_STATUS_APPLIED {
		line("change", amount(outcome.GetDelta()))
	}
	for _, leg := range outcome.GetLegs() {
		line("other side", amount(leg.GetAmount())+" "+leg.GetCounterAccount())
	}
	line("transfer from", outcome.GetTransferAccount())
	if hold := outcome.GetHold(); hold != nil {
		text := amount(hold.GetRemaining()) + " left of " + hold.GetHoldId()
		if hold.GetExpiresAt() != nil {
			text += " until " + at(hold.GetExpiresAt())
		}
		line("hold", text)
	}
	if reversal := outcome.GetReversal(); reversal != nil {
		line("reversed", amount(reversal.GetTotal())+" in all of "+limits.CallersID(reversal.GetCommandId()))
	}
	if after != nil {
		line("balance", amount(after.GetBalance()))
		if after.GetHeld() != "0" {
			line("held", amount(after.GetHeld()))
		}
		line("available", amount(after.GetAvailable()))
		if after.GetFloor() != "0" {
			line("floor", amount(after.GetFloor()))
		}
		line("ceiling", amount(after.GetCeiling()))
		if after.GetStatus() != "active" {
			line("account is", after.GetStatus())
		}
		line("sequence", fmt.Sprint(after.GetSequence()))
	}
	line("position", fmt.Sprintf("%d in shard %d", outcome.GetPosition(), outcome.GetShard()))
	line("decided", at(outcome.GetDecidedAt()))
	line("business date", outcome.GetBusinessDate())
}

func statusOf(outcome *ledgerv1.Outcome) string {
	return strings.ToLower(strings.TrimPrefix(outcome.GetStatus().String(), "STATUS_"))
}

// at writes a time; "" where there is none.
func at(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339Nano)
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
