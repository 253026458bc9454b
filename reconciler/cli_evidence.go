package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

// write writes a stored report in a format.
func (s *StoredReport) write(w io.Writer, format string) error {
	switch format {
	case "html":
		return s.WriteHTML(w)
	case "markdown":
		return s.WriteMarkdown(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(s.jsonReport)
}

func reportCommand(cfg *Config, environ []string) *cobra.Command {
	var format string
	cmd := &cobra.Command{Use: "report [RUN]", Short: "The evidence of a run, by default of the last one", Args: usage(cobra.MaximumNArgs(1)), RunE: func(cmd *cobra.Command, args []string) error {
		id := ""
		if len(args) > 0 {
			id = args[0]
		}
		return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error {
			stored, err := r.ReadReport(ctx, id)
			if err != nil {
				return err
			}
			return stored.write(cmd.OutOrStdout(), format)
		})
	}}
	cmd.Flags().StringVarP(&format, "output", "o", "markdown", "markdown, html (one page, to forward) or json")
	return cmd
}

func explainCommand(cfg *Config, environ []string) *cobra.Command {
	most := 0
	cmd := &cobra.Command{Use: "explain ACCOUNT", Short: "An account's balance, folded from the log step by step", Args: usage(cobra.ExactArgs(1)), RunE: func(cmd *cobra.Command, args []string) error {
		return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error {
			return r.Explain(ctx, cmd.OutOrStdout(), args[0], most)
		})
	}}
	const shown = 50
	cmd.Flags().IntVar(&most, "most", shown, "the last events that are shown one by one")
	return cmd
}

func policyCommand(cfg *Config, environ []string) *cobra.Command {
	root := &cobra.Command{Use: "policy", Short: "What is settled automatically", Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	root.AddCommand(&cobra.Command{Use: "show", Short: "Print the built-in policy, to start a policy file from", Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := cmd.OutOrStdout().Write(builtInPolicy)
		return err
	}})
	root.AddCommand(&cobra.Command{Use: "check", Short: "Check the policy file", Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		if err := config.Resolve(cmd, service, cfg, environ); err != nil {
			return err
		}
		p, err := LoadPolicy(cfg.PolicyFile)
		if err != nil {
			return run.WithExitCode(err, ExitUsage)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "policy %s is well-formed, SHA-256 %s\n", p.Version, p.hash)
		return err
	}})
	last := 0
	backtest := &cobra.Command{Use: "backtest", Short: "What this policy would have done in the last runs", Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error {
			lines, err := r.Backtest(ctx, last)
			if err != nil {
				return err
			}
			t := plainTable()
			t.AppendHeader(table.Row{"run", "started", "policy then", "breaks", "would be repaired", "would wait for people", "circuit breaker"})
			for _, l := range lines {
				t.AppendRow(table.Row{l.RunID, l.Started.UTC().Format(time.DateTime), l.Policy, l.Breaks, l.Automatic, l.Waiting, l.Held})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), t.Render())
			return err
		})
	}}
	const runs = 30
	backtest.Flags().IntVar(&last, "last", runs, "runs to look back at")
	root.AddCommand(backtest)
	return root
}

// BacktestLine is what a policy would have done in one run.
type BacktestLine struct {
	RunID, Policy              string
	Started                    time.Time
	Breaks, Automatic, Waiting int
	Held                       string // which cap would have stopped everything; empty for none
}

// Backtest applies the policy in force to what the last runs found.
func (r *Reconciler) Backtest(ctx context.Context, last int) ([]BacktestLine, error) {
	rows, err := r.clickhouse.Query(ctx, `SELECT r.run_id, r.policy_version, r.started_at, arrayMap(x -> [x.1, x.2, x.3, x.4, x.5], groupArrayIf(
			(b.break_id, toString(b.class), b.amount, toString(b.unit), toString(b.action)), b.break_id != ''))
		FROM (SELECT * FROM reconciliation_runs FINAL WHERE verdict != 'could_not_tell' ORDER BY started_at DESC LIMIT @last) AS r
		LEFT JOIN (SELECT * FROM breaks FINAL WHERE settled = '') AS b ON b.run_id = r.run_id
		GROUP BY r.run_id, r.policy_version, r.started_at ORDER BY r.started_at DESC`, clickhouse.Named("last", last))
	if err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	var lines []BacktestLine
	err = scanAll(rows, func(scan func(...any) error) error {
		var line BacktestLine
		var found [][]string
		if err := scan(&line.RunID, &line.Policy, &line.Started, &found); err != nil {
			return err
		}
		var automatic []*Break
		for _, words := range found {
			b := &Break{ID: words[0], Class: Class(words[1]), Unit: words[3], Action: Action(words[4])}
			b.Amount, _ = new(big.Int).SetString(words[2], 10)
			if b.Action == Repair && r.policy.allowance(b) != nil {
				automatic = append(automatic, b)
			}
		}
		line.Breaks, line.Automatic = len(found), len(automatic)
		if line.Held = r.policy.over(automatic, nil); line.Held != "" {
			line.Automatic = 0
		}
		line.Waiting = line.Breaks - line.Automatic
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	return lines, nil
}
