package reconciler

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// What a person may decide about a break.
const (
	proposed = "proposed"
	approved = "approved"
	rejected = "rejected"
	accepted = "accepted"
)

// decision is one word of one person about a break. A break is named by its evidence: other evidence is another break.
type decision struct {
	BreakID, Decision, By, Note string
	Action                      Action
	Account, Amount, Unit       string
	ExpiresAt, At               time.Time
}

// ErrDecision says that a decision is not to be had: the wrong person, the wrong order, or nothing to decide about.
var ErrDecision = errors.New("not decided")

// decisions are all decisions about a break, or about every break, in order.
func (r *Reconciler) decisions(ctx context.Context, breakID string) ([]decision, error) {
	rows, err := r.clickhouse.Query(ctx, `SELECT break_id, toString(decision), decided_by, note, toString(action), account, amount, toString(unit), expires_at, at
		FROM break_decisions WHERE @id = '' OR break_id = @id ORDER BY at`, clickhouse.Named("id", breakID))
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	var all []decision
	err = scanAll(rows, func(scan func(...any) error) error {
		var d decision
		var action string
		if err := scan(&d.BreakID, &d.Decision, &d.By, &d.Note, &action, &d.Account, &d.Amount, &d.Unit, &d.ExpiresAt, &d.At); err != nil {
			return err
		}
		d.Action = Action(action)
		all = append(all, d)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	return all, nil
}

// loadDecisions finds what is approved and what is accepted now: the last word about a break counts, until it expires.
func (r *reconciliation) loadDecisions(ctx context.Context) error {
	all, err := r.decisions(ctx, "")
	if err != nil {
		return err
	}
	r.approved, r.accepted = map[string]decision{}, map[string]decision{}
	for _, d := range all {
		delete(r.approved, d.BreakID)
		delete(r.accepted, d.BreakID)
		if !d.ExpiresAt.After(r.began) {
			continue
		}
		switch d.Decision {
		case approved:
			r.approved[d.BreakID] = d
		case accepted:
			r.accepted[d.BreakID] = d
		}
	}
	return nil
}

// writeDecision adds a word about a break, after all others about it: the last one counts, whatever the clock says.
func (r *Reconciler) writeDecision(ctx context.Context, d decision) error {
	var last time.Time
	if err := r.clickhouse.QueryRow(ctx, "SELECT max(at) FROM break_decisions WHERE break_id = @id", clickhouse.Named("id", d.BreakID)).Scan(&last); err != nil {
		return fmt.Errorf("write decision: %w", err)
	}
	batch, err := r.clickhouse.PrepareBatch(ctx, "INSERT INTO break_decisions (break_id, decision, decided_by, note, action, account, amount, unit, expires_at, at)")
	if err != nil {
		return fmt.Errorf("write decision: %w", err)
	}
	defer func() { _ = batch.Close() }() // after Send there is nothing left to close
	if err := appendAndSend(batch, d.BreakID, d.Decision, d.By, d.Note, string(d.Action), d.Account, d.Amount, d.Unit, d.ExpiresAt, laterThan(last.Add(time.Millisecond))); err != nil {
		return fmt.Errorf("write decision: %w", err)
	}
	return nil
}

func appendAndSend(batch driver.Batch, values ...any) error {
	if err := batch.Append(values...); err != nil {
		return err
	}
	return batch.Send()
}

// Proposal is what a person proposes to do about a break.
type Proposal struct {
	By, Note string
	// Amount is signed minor units to book on the break's account; nil takes what the break says.
	Amount *big.Int
}

// Propose proposes the break's own action: a repair above the policy's caps, a reversal, or an adjustment.
func (r *Reconciler) Propose(ctx context.Context, breakID string, p Proposal) error {
	found, err := r.FindBreak(ctx, breakID)
	if err != nil {
		return err
	}
	d := decision{BreakID: breakID, Decision: proposed, By: p.By, Note: p.Note, Action: found.Action, Account: found.Account, Unit: found.Unit}
	d.ExpiresAt = time.Now().UTC().Add(r.policy.ApprovalExpiry)
	switch found.Action {
	case Repair, Release:
	case Reversal, Adjustment:
		amount := found.Amount
		if p.Amount != nil {
			amount = p.Amount
		}
		if amount == nil || amount.Sign() == 0 || !amount.IsInt64() {
			return fmt.Errorf("%w: an adjustment needs an amount other than 0", ErrDecision)
		}
		d.Amount = amount.String()
	case Wait, Stop:
		return fmt.Errorf("%w: a %s is not settled by a command (its action is %s); find the cause, or accept it with a note", ErrDecision, found.Class, found.Action)
	}
	return r.writeDecision(ctx, d)
}

// Approve lets a second person agree to a proposal. The next run issues it, if the break is still the same.
func (r *Reconciler) Approve(ctx context.Context, breakID, by, note string) error {
	d, err := r.openProposal(ctx, breakID)
	if err != nil {
		return err
	}
	if strings.EqualFold(strings.TrimSpace(d.By), strings.TrimSpace(by)) {
		return fmt.Errorf("%w: %s proposed it, and another person has to approve", ErrDecision, by)
	}
	// The evidence is what was proposed on: another evidence is another break.
	if _, err := r.FindBreak(ctx, breakID); err != nil {
		return err
	}
	d.Decision, d.By, d.Note, d.ExpiresAt = approved, by, note, time.Now().UTC().Add(r.policy.ApprovalExpiry)
	return r.writeDecision(ctx, d)
}

// Reject ends a proposal.
func (r *Reconciler) Reject(ctx context.Context, breakID, by, note string) error {
	d, err := r.openProposal(ctx, breakID)
	if err != nil {
		return err
	}
	d.Decision, d.By, d.Note = rejected, by, note
	return r.writeDecision(ctx, d)
}

// Accept says that a break may stay as it is, until it expires. It is listed in every report, and does not count.
func (r *Reconciler) Accept(ctx context.Context, breakID, by, note string, until time.Time) error {
	if strings.TrimSpace(note) == "" {
		return fmt.Errorf("%w: accepting a break needs a note that says why", ErrDecision)
	}
	if !until.After(time.Now()) {
		return fmt.Errorf("%w: %s is over already", ErrDecision, until.Format(time.DateOnly))
	}
	found, err := r.FindBreak(ctx, breakID)
	if err != nil {
		return err
	}
	return r.writeDecision(ctx, decision{BreakID: breakID, Decision: accepted, By: by, Note: note, Action: found.Action, Account: found.Account, Unit: found.Unit, ExpiresAt: until.UTC()})
}

func (r *Reconciler) openProposal(ctx context.Context, breakID string) (decision, error) {
	all, err := r.decisions(ctx, breakID)
	if err != nil {
		return decision{}, err
	}
	if len(all) == 0 || all[len(all)-1].Decision != proposed {
		return decision{}, fmt.Errorf("%w: break %s has no open proposal", ErrDecision, breakID)
	}
	last := all[len(all)-1]
	if !last.ExpiresAt.After(time.Now()) {
		return decision{}, fmt.Errorf("%w: the proposal expired at %s", ErrDecision, last.ExpiresAt.UTC().Format(time.DateTime))
	}
	return last, nil
}
