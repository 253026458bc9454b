package sabotage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/reconciler"
)

// fate is what is promised to happen to a damage.
type fate string

const (
	repaired  fate = "repaired"              // by the reconciler, by itself
	twoPeople fate = "settled by two people" // proposed, approved, booked
	byHand    fate = "escalated"             // reported, and mended here as a person would
	byWriter  fate = "healed by the writer"  // the ledger-writer recovered the shard before anybody asked
)

// damage is one way to break the ledger.
type damage struct {
	name  string
	do    func(context.Context, *suite, *damage) error
	want  []reconciler.Class // any of these names it
	fate  fate
	mend  func(context.Context, *suite, *damage) error // what a person or a service does once it is found
	check func(context.Context, *suite, *damage) error // byWriter: that it is healed

	one      bool              // its breaks must be shown as one cause
	accounts []string          // what it touched
	shard    int               // and where, if it is about positions
	position uint64            // 0 for none
	memory   map[string]string // what do leaves for check and mend
	found    bool
	settled  bool
}

// causes says that a break follows from the damage.
func (d *damage) causes(b *reconciler.Break) bool {
	if b.Account != "" {
		return slices.Contains(d.accounts, b.Account)
	}
	if d.position > 0 {
		return b.Shard == d.shard && b.From <= d.position && d.position <= b.To
	}
	return len(d.accounts) == 0 && slices.Contains(d.want, b.Class)
}

// runsMax is how many runs a damage may take to be found: one that lands while its shard is being recovered takes two.
const runsMax = 4

// judge lets the reconciler run until everything is found, mends what is for people, and wants the next run to be free of it.
func (s *suite) judge(ctx context.Context, damages []*damage) error {
	open := func(d *damage) bool { return !d.found && d.fate != byWriter }
	for run := 0; run < runsMax && slices.ContainsFunc(damages, open); run++ {
		report, err := s.reconcile(ctx)
		if err != nil {
			return err
		}
		s.attribute(report)
	}
	for _, d := range damages {
		if d.fate == byWriter {
			d.found = d.check(ctx, s, d) == nil // the writer found it: the shard is under another generation
		}
		if d.found && d.mend != nil {
			if err := d.mend(ctx, s, d); err != nil {
				return fmt.Errorf("mend %q: %w", d.name, err)
			}
		}
	}
	if slices.ContainsFunc(damages, func(d *damage) bool { return d.position > 0 }) {
		// A projector that met rows which are not whole stands still until it is started again.
		s.stopProjector()
		s.superviseProjector(ctx)
	}
	if err := s.settleLog(ctx); err != nil {
		return err
	}
	// What was approved is issued by a first run; the second must be free of it.
	if slices.ContainsFunc(damages, func(d *damage) bool { return d.fate == twoPeople }) {
		if _, err := s.reconcile(ctx); err != nil {
			return err
		}
	}
	report, err := s.reconcile(ctx)
	if err != nil {
		return err
	}
	s.attribute(report)
	for _, d := range damages {
		d.settled = d.found && !slices.ContainsFunc(report.Breaks, func(b *reconciler.Break) bool { return b.Settled == "" && d.causes(b) })
		for _, b := range report.Breaks {
			if d.found && b.Settled == "" && d.causes(b) {
				s.say("  still there: %s %s: %s %v\n", b.Class, b.Account, b.Detail, b.Compensation)
			}
		}
		if d.check != nil && d.settled {
			if err := d.check(ctx, s, d); err != nil {
				d.settled = false
				s.say("  %v\n", err)
			}
		}
		s.report(d)
	}
	return nil
}

// attribute marks what a report found, and remembers what nobody caused.
func (s *suite) attribute(report *reconciler.Report) {
	for _, d := range s.wave {
		if n := causesOf(report, d); d.one && n > 1 {
			s.strange[d.name] = true
			s.say("FALSE: %q is shown as %d causes\n", d.name, n)
		}
	}
	for _, b := range report.Breaks {
		caused := b.Settled != ""
		for _, d := range s.wave {
			if d.causes(b) {
				caused = true
				d.found = d.found || slices.Contains(d.want, b.Class)
			}
		}
		if !caused && !s.strange[b.ID] {
			s.strange[b.ID] = true
			s.say("FALSE: %s %s shard %d: %s\n", b.Class, b.Account, b.Shard, b.Detail)
		}
	}
}

// causesOf counts the causes that a report shows for the breaks of a damage.
func causesOf(report *reconciler.Report, d *damage) int {
	var text bytes.Buffer
	var shown struct {
		Breaks []struct {
			Account string
			Cause   int
		}
	}
	if err := errors.Join(report.WriteJSON(&text), json.Unmarshal(text.Bytes(), &shown)); err != nil {
		return 0 // before there is any text
	}
	causes := map[int]bool{}
	for _, b := range shown.Breaks {
		if slices.Contains(d.accounts, b.Account) {
			causes[b.Cause] = true
		}
	}
	return len(causes)
}

func (s *suite) report(d *damage) {
	word := "MISSED"
	switch {
	case d.found && d.settled:
		word = "ok"
	case d.found:
		word = "NOT SETTLED"
	}
	if d.found {
		s.result.Found++
	}
	if d.settled {
		s.result.Settled++
	}
	s.say("  %-12s %-58s %v, %s\n", word, d.name, d.want, d.fate)
}

// approve lets two people agree on a break's own proposal.
func approve(ctx context.Context, s *suite, d *damage) error {
	r, err := reconciler.New(s.ledger.Reconciler, zap.NewNop(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	found, err := r.ListBreaks(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		if !slices.Contains(d.accounts, f.Account) || f.Action != reconciler.Reversal && f.Action != reconciler.Adjustment {
			continue
		}
		if err := r.Propose(ctx, f.BreakID, reconciler.Proposal{By: "anna", Note: "sabotage"}); err != nil {
			return err
		}
		if err := r.Approve(ctx, f.BreakID, "anna", "myself"); !errors.Is(err, reconciler.ErrDecision) {
			return fmt.Errorf("the proposer could approve: %w", err)
		}
		if err := r.Approve(ctx, f.BreakID, "ben", "agreed"); err != nil {
			return err
		}
	}
	return nil
}

// accept lets a person live with a break that only its history shows.
func accept(ctx context.Context, s *suite, d *damage) error {
	r, err := reconciler.New(s.ledger.Reconciler, zap.NewNop(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	found, err := r.ListBreaks(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		if slices.Contains(d.accounts, f.Account) && f.Settled == "" {
			if err := r.Accept(ctx, f.BreakID, "anna", "known", time.Now().AddDate(0, 0, 1)); err != nil {
				return err
			}
		}
	}
	return nil
}
