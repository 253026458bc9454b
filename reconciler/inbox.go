package reconciler

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Found is a break as the last run that could tell wrote it down.
type Found struct {
	RunID, BreakID, Account, Unit, Detail, Settled string
	Class                                          Class
	Severity                                       Severity
	Action                                         Action
	Shard                                          uint16
	Amount                                         *big.Int // nil where it is not about an amount
	FirstSeen                                      time.Time
	State                                          string // open, or the last decision, or what became of its compensation
}

const inboxQuery = `SELECT b.run_id, b.break_id, toString(b.class), toString(b.severity), toString(b.action), b.shard, b.account, b.amount, toString(b.unit),
		b.detail, b.settled, b.first_seen,
		multiIf(b.settled != '', 'settled', c.state != '', concat(c.operation, ' ', c.state), d.decision != '', d.decision, 'open')
	FROM (SELECT * FROM breaks FINAL WHERE run_id = @run) AS b
	LEFT JOIN (SELECT break_id, toString(argMax(state, at)) AS state, toString(argMax(operation, at)) AS operation FROM compensations
		WHERE run_id = @run GROUP BY break_id) AS c ON c.break_id = b.break_id
	LEFT JOIN (SELECT break_id, toString(argMax(decision, at)) AS decision FROM break_decisions GROUP BY break_id) AS d ON d.break_id = b.break_id
	WHERE @id = '' OR b.break_id = @id
	ORDER BY b.settled != '', indexOf(['critical', 'high', 'medium', 'info'], toString(b.severity)), b.first_seen, b.break_id`

// ListBreaks are the breaks of the last run that could tell, the worst first.
func (r *Reconciler) ListBreaks(ctx context.Context) ([]Found, error) { return r.inbox(ctx, "") }

// FindBreak finds a break of the last run that could tell. One that only an earlier run saw is gone, or its evidence changed and it has
// another id: ErrDecision.
func (r *Reconciler) FindBreak(ctx context.Context, breakID string) (*Found, error) {
	found, err := r.inbox(ctx, breakID)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: the last run did not find break %q; it is gone, or what was seen changed and it has another id (reconciler breaks list)", ErrDecision, breakID)
	}
	return &found[0], nil
}

func (r *Reconciler) inbox(ctx context.Context, breakID string) ([]Found, error) {
	var run string
	err := r.clickhouse.QueryRow(ctx, "SELECT argMax(run_id, started_at) FROM reconciliation_runs FINAL WHERE verdict != 'could_not_tell'").Scan(&run)
	if err != nil {
		return nil, fmt.Errorf("find the last run: %w", err)
	}
	rows, err := r.clickhouse.Query(ctx, inboxQuery, clickhouse.Named("run", run), clickhouse.Named("id", breakID))
	if err != nil {
		return nil, fmt.Errorf("read breaks: %w", err)
	}
	var all []Found
	err = scanAll(rows, func(scan func(...any) error) error {
		var f Found
		var class, severity, action, amount string
		if err := scan(&f.RunID, &f.BreakID, &class, &severity, &action, &f.Shard, &f.Account, &amount, &f.Unit, &f.Detail, &f.Settled, &f.FirstSeen, &f.State); err != nil {
			return err
		}
		f.Class, f.Severity, f.Action = Class(class), Severity(severity), Action(action)
		f.Amount, _ = new(big.Int).SetString(amount, 10)
		all = append(all, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read breaks: %w", err)
	}
	return all, nil
}

// BalanceLine is one line of a trial balance, minor units.
type BalanceLine struct {
	Account, Unit string // "controlled accounts", or an external account
	Before, After *big.Int
}

// Preview is the trial balance before and after an adjustment of amount on an account: all controlled accounts together, and each
// external one. Both columns add up to zero.
func (r *Reconciler) Preview(ctx context.Context, class Class, unit string, amount *big.Int) ([]BalanceLine, error) {
	rows, err := r.clickhouse.Query(ctx, `SELECT if(startsWith(account, '@'), account, 'controlled accounts') AS side, toString(sum(amount_minor))
		FROM `+r.cfg.ClickHouse.FinanceDatabase+`.postings WHERE currency = @currency GROUP BY side ORDER BY startsWith(side, '@'), side`,
		clickhouse.Named("currency", code(unit)))
	if err != nil {
		return nil, fmt.Errorf("read the trial balance: %w", err)
	}
	lines := []BalanceLine{}
	external := false
	err = scanAll(rows, func(scan func(...any) error) error {
		line := BalanceLine{Unit: unit, Before: new(big.Int)}
		var total string
		if err := scan(&line.Account, &total); err != nil {
			return err
		}
		line.Before.SetString(total, 10)
		line.After = new(big.Int).Set(line.Before)
		switch line.Account {
		case class.otherSide():
			line.After.Sub(line.After, amount)
			external = true
		case "controlled accounts":
			line.After.Add(line.After, amount)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the trial balance: %w", err)
	}
	if !external {
		lines = append(lines, BalanceLine{Account: class.otherSide(), Unit: unit, Before: new(big.Int), After: new(big.Int).Neg(amount)})
	}
	return lines, nil
}
