package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

// withReconciler resolves the configuration and calls do with a reconciler.
func withReconciler(cmd *cobra.Command, cfg *Config, environ []string, do func(context.Context, *Reconciler) error) error {
	if err := config.Resolve(cmd, service, cfg, environ); err != nil {
		return err
	}
	logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	r, err := New(*cfg, logger, nil)
	if err != nil {
		return run.WithExitCode(err, ExitUsage)
	}
	defer func() { _ = r.Close() }() // connections of a process that ends
	err = do(cmd.Context(), r)
	if errors.Is(err, ErrDecision) {
		return run.WithExitCode(err, ExitUsage)
	}
	return err
}

// breaksCommand is `reconciler breaks`.
func breaksCommand(cfg *Config, environ []string) *cobra.Command {
	root := &cobra.Command{Use: "breaks", Short: "Look at the breaks of the last run, and decide about them", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	number := 0
	list := &cobra.Command{Use: "list", Short: "The breaks of the last run that could tell, the worst first; those of one cause in one line", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error { return r.list(ctx, cmd.OutOrStdout(), number) })
		}}
	list.Flags().IntVar(&number, "cause", 0, "each break of this cause, by its number in the list; 0 = all causes")
	root.AddCommand(list)
	root.AddCommand(&cobra.Command{Use: "show BREAK", Short: "One break, what was decided about it, and the trial balance before and after", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error { return r.show(ctx, cmd.OutOrStdout(), args[0]) })
		}})
	root.AddCommand(deciding("propose", "Propose to settle a break (its repair, reversal or adjustment)", cfg, environ, true, func(ctx context.Context, r *Reconciler, id string, d deciderFlags) error {
		p := Proposal{By: d.by, Note: d.note}
		if d.amount != "" {
			found, err := r.FindBreak(ctx, id)
			if err != nil {
				return err
			}
			unit, err := money.ParseUnit(found.Unit)
			if err != nil {
				return err
			}
			minor, err := money.ParseMajor(d.amount, unit)
			if err != nil {
				return fmt.Errorf("%w: --amount: %w", ErrDecision, err)
			}
			p.Amount = big.NewInt(minor)
		}
		return r.Propose(ctx, id, p)
	}))
	root.AddCommand(deciding("approve", "Approve what somebody else proposed; the next run issues it", cfg, environ, false, func(ctx context.Context, r *Reconciler, id string, d deciderFlags) error {
		return r.Approve(ctx, id, d.by, d.note)
	}))
	root.AddCommand(deciding("reject", "Reject a proposal", cfg, environ, false, func(ctx context.Context, r *Reconciler, id string, d deciderFlags) error {
		return r.Reject(ctx, id, d.by, d.note)
	}))
	root.AddCommand(deciding("accept", "Accept a break as it is, with a note, until a day", cfg, environ, false, func(ctx context.Context, r *Reconciler, id string, d deciderFlags) error {
		until, err := time.Parse(time.DateOnly, d.until)
		if err != nil {
			return fmt.Errorf("%w: --until: %w", ErrDecision, err)
		}
		return r.Accept(ctx, id, d.by, d.note, until)
	}))
	return root
}

type deciderFlags struct{ by, note, amount, until string }

func deciding(verb, short string, cfg *Config, environ []string, amount bool, do func(context.Context, *Reconciler, string, deciderFlags) error) *cobra.Command {
	var d deciderFlags
	cmd := &cobra.Command{Use: verb + " BREAK", Short: short, Args: usage(cobra.ExactArgs(1)), RunE: func(cmd *cobra.Command, args []string) error {
		if d.by == "" {
			return run.WithExitCode(errors.New("--by: who decides?"), ExitUsage)
		}
		return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error {
			if err := do(ctx, r, args[0], d); err != nil {
				return err
			}
			return r.show(ctx, cmd.OutOrStdout(), args[0])
		})
	}}
	cmd.Flags().StringVar(&d.by, "by", "", "your name; the proposer cannot approve")
	cmd.Flags().StringVar(&d.note, "note", "", "why")
	if amount {
		cmd.Flags().StringVar(&d.amount, "amount", "", "signed amount to book on the account, in major units; empty = what the break says")
	}
	if verb == "accept" {
		cmd.Flags().StringVar(&d.until, "until", "", "the day on which it counts as a break again, 2026-12-31")
	}
	return cmd
}

// list prints the causes of the last run that could tell, or each break of one of them.
func (r *Reconciler) list(ctx context.Context, w io.Writer, number int) error {
	found, err := r.ListBreaks(ctx)
	if err != nil {
		return err
	}
	text := "The last run that could tell found no break.\n"
	if len(found) > 0 {
		report, err := r.ReadReport(ctx, found[0].RunID)
		if err != nil {
			return err
		}
		causes := report.causes()
		if number < 0 || number > len(causes) {
			return fmt.Errorf("%w: the last run found no cause %d", ErrDecision, number)
		}
		text = foundTable(found, causes, number) + "\n"
	}
	_, err = io.WriteString(w, text)
	return err
}

// foundTable has a row for each cause, or for each break of the cause with a number.
func foundTable(found []Found, causes []*cause, number int) string {
	byID := map[string]Found{}
	for _, f := range found {
		byID[f.BreakID] = f
	}
	t := plainTable()
	t.AppendHeader(table.Row{"cause", "break", "severity", "class", "account", "amount", "since", "action", "state"})
	for _, c := range causes {
		switch {
		case number != 0 && c.Number != number:
		case number != 0 || len(c.breaks) == 1:
			for _, b := range c.breaks {
				f := byID[b.BreakID]
				where := f.Account
				if where == "" {
					where = fmt.Sprintf("shard %d", f.Shard)
				}
				t.AppendRow(table.Row{c.Number, f.BreakID, f.Severity, f.Class, where, f.amount(), f.FirstSeen.UTC().Format(time.DateTime), f.Action, f.State})
			}
		default:
			first := slices.MinFunc(c.breaks, func(a, b jsonBreak) int { return a.FirstSeen.Compare(b.FirstSeen) })
			t.AppendRow(table.Row{c.Number, plural(uint64(len(c.breaks)), "break"), c.Severity, c.Class, c.Where() + "\n" + c.Names(), strings.Join(c.Money(), "\n"),
				first.FirstSeen.UTC().Format(time.DateTime), first.Action, c.tally(func(b jsonBreak) string { return byID[b.BreakID].State })})
		}
	}
	return t.Render()
}

func (f Found) amount() string {
	if f.Amount == nil {
		return ""
	}
	return major(f.Amount, f.Unit) + " " + code(f.Unit)
}

// show prints a break, the decisions about it, and what its adjustment would do to the trial balance.
func (r *Reconciler) show(ctx context.Context, w io.Writer, id string) error {
	f, err := r.FindBreak(ctx, id)
	if err != nil {
		return err
	}
	decisions, err := r.decisions(ctx, id)
	if err != nil {
		return err
	}
	out := &errWriter{w: w}
	out.say("%s  %s  %s, %s\n%s\n%s\naction: %s, state: %s, found by run %s, first at %s\n", f.BreakID, f.Class, f.Severity, natureOf(f.Class).words, f.Detail,
		f.amount(), f.Action, f.State, f.RunID, f.FirstSeen.UTC().Format(time.DateTime))
	amount := f.Amount
	for _, d := range decisions {
		out.say("%s %s by %s until %s: %s\n", d.At.UTC().Format(time.DateTime), d.Decision, d.By, d.ExpiresAt.UTC().Format(time.DateTime), d.Note)
		if n, ok := new(big.Int).SetString(d.Amount, 10); ok {
			amount = n
		}
	}
	if amount == nil || f.Action != Adjustment && f.Action != Reversal {
		return out.err
	}
	lines, err := r.Preview(ctx, f.Class, f.Unit, amount)
	if err != nil {
		return err
	}
	t := plainTable()
	t.AppendHeader(table.Row{"trial balance in " + code(f.Unit), "now", "after booking " + major(amount, f.Unit)})
	for _, line := range lines {
		t.AppendRow(table.Row{line.Account, major(line.Before, f.Unit), major(line.After, f.Unit)})
	}
	out.say("%s\n", t.Render())
	return out.err
}

// errWriter keeps the first error, so that printing reads as printing.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) say(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}
