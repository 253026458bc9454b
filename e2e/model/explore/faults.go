package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is a kind of thing that goes wrong a bounded number of times. Each model names its own, from 0 on.
type Fault uint8

const kindsMax = 16

// Faults is a budget: how often each kind may happen, and how many may happen in all.
type Faults struct {
	Kinds [kindsMax]uint8
	Total uint8
}

// unlimited kinds are bounded by the total alone.
const unlimited = 255

// ParseFaults reads a budget: "2" is any two faults; "crash=1,rollback=2" names each kind; "2:crash=1,fork=1,late=1" is any two of those.
func ParseFaults(text string, names []string) (Faults, error) {
	f := Faults{}
	if total, err := strconv.ParseUint(text, 10, 7); err == nil {
		for k := range names {
			f.Kinds[k] = unlimited
		}
		f.Total = uint8(total)
		return f, nil
	}
	most, kinds, capped := strings.Cut(text, ":")
	if !capped {
		kinds = text
	}
	sum := uint64(0)
	for _, item := range strings.Split(kinds, ",") {
		name, count, _ := strings.Cut(item, "=")
		n, err := strconv.ParseUint(count, 10, 4)
		if err != nil {
			return f, fmt.Errorf("faults %q: count of %q: %w", text, name, err)
		}
		k := slices.Index(names, name)
		if k < 0 {
			return f, fmt.Errorf("faults %q: unknown kind %q, there are %s", text, name, strings.Join(names, " "))
		}
		f.Kinds[k] = uint8(n)
		sum += n
	}
	if capped {
		var err error
		if sum, err = strconv.ParseUint(most, 10, 7); err != nil {
			return f, fmt.Errorf("faults %q: total: %w", text, err)
		}
	}
	f.Total = uint8(min(sum, 100))
	return f, nil
}

// Has tells whether a kind may still happen.
func (f *Faults) Has(k Fault) bool { return f.Total > 0 && f.Kinds[k] > 0 }

// Spend takes one fault from what is left; false: there is none left.
func (f *Faults) Spend(k Fault) bool {
	if !f.Has(k) {
		return false
	}
	f.Total--
	if f.Kinds[k] != unlimited {
		f.Kinds[k]--
	}
	if f.Total == 0 {
		*f = Faults{} // states that differ in what can no longer happen are the same
	}
	return true
}
