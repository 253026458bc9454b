package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// refuted walks the way to a state once more, and tells it.
func refuted[S comparable](space Space[S], result Result, v Violation, nodes []node, last uint32) Result {
	result.Violation = v
	var way []uint16
	for at := last; at != 0; at = nodes[at].parent {
		way = append(way, nodes[at].move)
	}
	slices.Reverse(way)
	x := Moves[S]{}
	state := space.Initial()
	for i, at := range way {
		x.of(space, &state)
		taken := x.moves[at]
		result.Trace = append(result.Trace, fmt.Sprintf("%3d. %-8s  %s%s", i+1, taken.actor, taken.label, changes(space, &state, &taken.next)))
		state = taken.next
	}
	return result
}

// changes names the parts of the world that a step changed, as they are now.
func changes[S comparable](space Space[S], before, after *S) string {
	was, is := space.Parts(before), space.Parts(after)
	text := ""
	for i := range is {
		if was[i] != is[i] {
			text += "\n                 " + is[i]
		}
	}
	return text
}

// ErrUnexpected is returned when the right protocol is violated, or a wrong one is not refuted.
var ErrUnexpected = errors.New("the model and what is known of the protocol disagree")

// Report explores, says how far it is, and prints the counterexample, if there is one. wrong: there has to be one.
func Report[S comparable](ctx context.Context, out io.Writer, space Space[S], o Options, wrong bool) error {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	start, said := time.Now(), time.Now()
	o.Progress = func(p Progress) {
		if time.Since(said) > 2*time.Second {
			said = time.Now()
			say("depth %d, %d states, %d to go on from, %.0f states/s\n", p.Depth, p.States, p.Frontier, float64(p.States)/time.Since(start).Seconds())
		}
	}
	r := Explore(ctx, space, o)
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
	if (r.Violation != "") != wrong {
		return ErrUnexpected
	}
	return nil
}
