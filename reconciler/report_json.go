package reconciler

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// jsonReport is the form for programs. Amounts are minor units in decimal digits, as strings: they may exceed what a JSON reader's
// number holds. Fields are only ever added.
type jsonReport struct {
	RunID            string           `json:"run_id"`
	Verdict          Verdict          `json:"verdict"`
	Why              string           `json:"why,omitempty"`
	Headline         string           `json:"headline"`
	StartedAt        time.Time        `json:"started_at"`
	FinishedAt       time.Time        `json:"finished_at"`
	DryRun           bool             `json:"dry_run"`
	Shards           []jsonShard      `json:"shards"`
	Events           uint64           `json:"events"`
	AccountsCompared uint64           `json:"accounts_compared"`
	AccountsRedis    uint64           `json:"accounts_redis"`
	AccountsLog      uint64           `json:"accounts_log"`
	Totals           []jsonTotal      `json:"totals"`
	BreaksFound      uint64           `json:"breaks_found"`
	ByClass          map[Class]int    `json:"by_class"`
	Causes           []*cause         `json:"causes"`
	Breaks           []jsonBreak      `json:"breaks"`
	Held             string           `json:"held,omitempty"`
	SettledBefore    uint64           `json:"settled_before"`
	EventsRead       uint64           `json:"events_read"`
	Slices           int              `json:"slices"`
	PhasesMs         map[string]int64 `json:"phases_ms"`
	Mode             string           `json:"mode"`
	Policy           string           `json:"policy_version"`
	BusinessDate     string           `json:"business_date,omitempty"`
	Resumed          bool             `json:"resumed,omitempty"`
}

type jsonShard struct {
	Shard      int    `json:"shard"`
	Position   uint64 `json:"position"`
	Chain      string `json:"chain"`
	Generation string `json:"generation"`
}

type jsonTotal struct {
	Unit  string `json:"unit"`
	Redis string `json:"redis"`
	Log   string `json:"log"`
}

type jsonBreak struct {
	BreakID      string            `json:"break_id"`
	Cause        int               `json:"cause"`
	Class        Class             `json:"class"`
	Shard        int               `json:"shard"`
	Account      string            `json:"account,omitempty"`
	From         uint64            `json:"from,omitempty"`
	To           uint64            `json:"to,omitempty"`
	Redis        *jsonStanding     `json:"redis"`
	Log          *jsonStanding     `json:"log"`
	Detail       string            `json:"detail"`
	Action       Action            `json:"action"`
	Severity     Severity          `json:"severity"`
	Amount       string            `json:"amount,omitempty"`
	Unit         string            `json:"unit,omitempty"`
	FirstSeen    time.Time         `json:"first_seen"`
	Settled      string            `json:"settled,omitempty"`
	Compensation *jsonCompensation `json:"compensation"`
}

type jsonStanding struct {
	Sequence uint64 `json:"sequence"`
	Balance  string `json:"balance"`
	Held     string `json:"held"`
	Floor    string `json:"floor"`
	Ceiling  string `json:"ceiling,omitempty"`
	Unit     string `json:"unit"`
	Status   string `json:"status"`
}

type jsonCompensation struct {
	CommandID string `json:"command_id"`
	Operation string `json:"operation"`
	State     State  `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Position  uint64 `json:"position,omitempty"`
}

// WriteJSON prints the report for programs, one object.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r.json()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

func (r *Report) json() *jsonReport {
	j := &jsonReport{
		RunID: r.RunID, Verdict: r.Verdict, Why: r.Why, Headline: r.Headline(), StartedAt: r.Started, FinishedAt: r.Finished, DryRun: r.DryRun,
		Events: r.Events, AccountsCompared: r.AccountsCompared, AccountsRedis: r.AccountsRedis, AccountsLog: r.AccountsLog,
		BreaksFound: r.BreaksFound, ByClass: r.ByClass(), Held: r.Held,
		SettledBefore: r.SettledBefore, EventsRead: r.EventsRead, Slices: r.Slices, Mode: r.Mode, Policy: r.Policy, BusinessDate: r.BusinessDate, Resumed: r.Resumed,
		Shards: []jsonShard{}, Totals: []jsonTotal{}, Causes: causesOf(r.Breaks), Breaks: []jsonBreak{}, PhasesMs: map[string]int64{},
	}
	for phase, took := range r.Phases {
		j.PhasesMs[phase] = took.Milliseconds()
	}
	for _, s := range r.Shards {
		j.Shards = append(j.Shards, jsonShard(s))
	}
	for _, t := range r.Totals {
		j.Totals = append(j.Totals, jsonTotal{Unit: t.Unit, Redis: t.Redis.String(), Log: t.Log.String()})
	}
	for _, b := range r.Breaks {
		row := jsonBreak{
			BreakID: b.ID, Cause: b.cause, Class: b.Class, Shard: b.Shard, Account: b.Account, From: b.From, To: b.To, Redis: b.Redis.json(), Log: b.Log.json(), Detail: b.Detail, Action: b.Action,
			Severity: b.Severity, Amount: digitsOf(b.Amount), Unit: b.unit(), FirstSeen: b.FirstSeen, Settled: b.Settled,
		}
		if c := b.Compensation; c != nil {
			row.Compensation = &jsonCompensation{CommandID: c.CommandID, Operation: c.Operation, State: c.State, Reason: c.Reason, Position: c.Position}
		}
		j.Breaks = append(j.Breaks, row)
	}
	return j
}

func (s *Standing) json() *jsonStanding {
	if s == nil {
		return nil
	}
	return &jsonStanding{
		Sequence: s.Sequence, Balance: s.Balance.String(), Held: s.Held.String(), Floor: s.Floor(), Ceiling: s.Ceiling(), Unit: s.Unit, Status: s.Status,
	}
}
