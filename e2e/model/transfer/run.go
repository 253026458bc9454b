package transfer

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hotledger/hotledger/e2e/model/explore"
)

// Options of a run by hand.
type Options struct {
	// Variant is the name of a wrong protocol, which brings its own plan and faults.
	Variant string
	// Plan is the name of what callers ask for; empty is each plan, one after the other.
	Plan   string
	Faults string
	// Sequences, if not 0, is how many commands the generated plans have that are explored instead; Reuse: two of them with the same id.
	Sequences int
	Reuse     bool
	StatesMax int // of each plan
	Liveness  bool
	Out       io.Writer
}

// Run explores, says how far it is, and prints the counterexample, if there is one.
func Run(ctx context.Context, o Options) error {
	switch {
	case o.Variant != "":
		v, found := VariantNamed(o.Variant)
		if !found {
			return fmt.Errorf("no variant is called %q; --list names them", o.Variant)
		}
		o.say("%s: %s\n", v.Name, v.What)
		return o.explore(ctx, v.Plan, v.Faults, v)
	case o.Sequences > 0:
		return o.sequences(ctx)
	case o.Plan != "":
		return o.explore(ctx, o.Plan, o.Faults, Variant{})
	}
	for _, p := range Plans {
		if err := o.explore(ctx, p.Name, o.Faults, Variant{}); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func (o Options) say(format string, args ...any) { _, _ = fmt.Fprintf(o.Out, format, args...) }

func (o Options) explore(ctx context.Context, plan, faults string, v Variant) error {
	m, err := New(plan, faults, v)
	if err != nil {
		return err
	}
	o.say("%s: %s; faults %s\n", m.plan.Name, m.plan.What, faults)
	return explore.Report(ctx, o.Out, m, explore.Options{StatesMax: o.StatesMax, Liveness: o.Liveness}, v.Rule != nothing)
}

func (o Options) sequences(ctx context.Context) error {
	start, said := time.Now(), time.Now()
	sum := Sum{}
	for p := range Sequences(o.Sequences, o.Reuse) {
		r, err := sum.add(ctx, p, o.Faults, explore.Options{StatesMax: o.StatesMax, Liveness: o.Liveness})
		switch {
		case err != nil:
			return err
		case r.Violation != "":
			for _, step := range r.Trace {
				o.say("%s\n", step)
			}
			o.say("VIOLATION: %s\n", r.Violation)
			return explore.ErrUnexpected
		case ctx.Err() != nil:
			return nil
		}
		if time.Since(said) > 2*time.Second {
			said = time.Now()
			o.say("%d plans, %d states\n", sum.Plans, sum.States)
		}
	}
	o.say("%d plans of %d commands, ids used twice: %v, faults %s: %d states, %d quiet, %d plans not visited wholly, %v: no violation\n",
		sum.Plans, o.Sequences, o.Reuse, o.Faults, sum.States, sum.Quiet, sum.Cut, time.Since(start).Round(time.Millisecond))
	return nil
}

// Sum of what the explorations of many plans found.
type Sum struct{ Plans, States, Quiet, Cut int }

func (s *Sum) add(ctx context.Context, p Plan, faults string, o explore.Options) (explore.Result, error) {
	budget, err := explore.ParseFaults(faults, faultNames[:])
	if err != nil {
		return explore.Result{}, err
	}
	r := explore.Explore(ctx, &Model{plan: p, faults: budget}, o)
	s.Plans, s.States, s.Quiet = s.Plans+1, s.States+r.States, s.Quiet+r.Quiet
	if r.Cut {
		s.Cut++
	}
	return r, nil
}
