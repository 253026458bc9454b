package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// A machine that others share is fast and slow by turns, for seconds or minutes. So what is compared is measured in turns, too: each figure right behind
// the one that it is compared with, several times over. The ratio is the median of those of the turns.

// contender is what takes turns with others.
type contender struct {
	name string
	turn func(context.Context) (Load, error)
}

// takeTurns lets every contender take so many turns, one after the other. It returns what they took, by name.
func takeTurns(ctx context.Context, turns int, contenders ...contender) (map[string][]Load, error) {
	took := map[string][]Load{}
	for range turns {
		for _, c := range contenders {
			load, err := c.turn(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			took[c.name] = append(took[c.name], load)
		}
	}
	return took, nil
}

// perSecond makes a turn of a measurement that has no unit costs.
func perSecond(measure func(ctx context.Context, lasting time.Duration) (float64, error), lasting time.Duration) func(context.Context) (Load, error) {
	return func(ctx context.Context) (Load, error) {
		value, err := measure(ctx, lasting)
		return Load{PerSecond: value}, err
	}
}

// sorted lists one number of each turn, least first. It needs a turn.
func sorted(loads []Load, number func(turn int) float64) []float64 {
	numbers := make([]float64, len(loads))
	for i := range loads {
		numbers[i] = number(i)
	}
	slices.SortFunc(numbers, cmp.Compare)
	return numbers
}

func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
