package model

import (
	"context"
	"fmt"
	"io"

	"github.com/hotledger/hotledger/e2e/model/explore"
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
	m, err := New(v.Commands, o.Writers, v.CallCommands, v.Faults, v.Forgets, v)
	if err != nil {
		return err
	}
	say("%d command ids, %d writers, faults %s\n", m.Commands, m.Writers, v.Faults)
	return explore.Report(ctx, o.Out, m, explore.Options{StatesMax: o.StatesMax, Liveness: o.Liveness}, o.Variant != "")
}
