package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Options of a run by hand.
type Options struct {
	// Variant is the name of a wrong protocol, which brings its own bounds; empty is the right protocol in the bounds below.
	Variant                         string
	Commands, Writers, CallCommands int
	Faults                          string
	StatesMax                       int
	Liveness, Forgets               bool
	Out                             io.Writer
}

// ErrUnexpected is returned when the right protocol is violated, or a wrong one is not refuted.
var ErrUnexpected = errors.New("the model and what is known of the protocol disagree")

// Run explores, says how far it is, and prints the counterexample, if there is one.
func Run(ctx context.Context, o Options) error {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(o.Out, format, args...) }
	v := Variant{Commands: o.Commands, CallCommands: o.CallCommands, Faults: o.Faults, Forgets: o.Forgets}
	if o.Variant != "" {
		named, found := VariantNamed(o.Variant)
		if !found {
			return fmt.Errorf("no variant is called %q; --list names them", o.Variant)
		}
		v = named
		say("%s (rule %d): %s\n", v.Name, v.Number, v.What)
	}
	faults, err := ParseFaults(v.Faults)
	if err != nil {
		return err
	}
	m, err := New(v.Commands, o.Writers, v.CallCommands, faults, v.Forgets, v)
	if err != nil {
		return err
	}
	m.Liveness = o.Liveness
	say("%d command ids, %d writers, faults %s\n", m.Commands, m.Writers, v.Faults)
	start, said := time.Now(), time.Now()
	r := m.Explore(ctx, o.StatesMax, func(p Progress) {
		if time.Since(said) > 2*time.Second {
			said = time.Now()
			say("depth %d, %d states, %d to go on from, %.0f states/s\n", p.Depth, p.States, p.Frontier, float64(p.States)/time.Since(start).Seconds())
		}
	})
	for _, step := range r.Trace {
		say("%s\n", step)
	}
	verdict := "no violation"
	switch {
	case r.Violation != "":
		verdict = "VIOLATION: " + string(r.Violation)
	case r.Cut:
		verdict += " so far; not all states were visited"
	}
	say("%d states, %d transitions, depth %d, %d quiet states, %v: %s\n",
		r.States, r.Transitions, r.Depth, r.Quiet, time.Since(start).Round(time.Millisecond), verdict)
	if (r.Violation != "") != (o.Variant != "") {
		return ErrUnexpected
	}
	return nil
}
