package e2e

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/e2e/chaos"
)

// TestASeedDrawsTheSamePlanAgain: what a seed found can be run again.
func TestASeedDrawsTheSamePlanAgain(t *testing.T) {
	t.Parallel()
	kinds := map[chaos.Kind]bool{}
	for seed := range uint64(300) {
		plan := chaos.Draw(seed)
		if !reflect.DeepEqual(plan, chaos.Draw(seed)) {
			t.Fatalf("seed %d draws two plans", seed)
		}
		for _, f := range plan.Faults {
			kinds[f.Kind] = true
		}
	}
	if len(kinds) != 21 {
		t.Errorf("300 seeds draw %d kinds of faults", len(kinds))
	}
}

// TestNoFaultBreaksAnInvariant runs a few seeds: always the same ones, and one that nobody has seen. `go run ./cmd/chaos` runs thousands.
func TestNoFaultBreaksAnInvariant(t *testing.T) {
	if testing.Short() {
		t.Skip("about a minute")
	}
	for _, o := range []chaos.Options{{Seed: 1, Seeds: 2}, {Seeds: 1}} {
		var text strings.Builder
		o.Out = &text
		result, err := chaos.Run(t.Context(), o)
		t.Log("\n" + text.String())
		if err != nil {
			t.Fatal(err)
		}
		if result.Violations > 0 {
			t.Errorf("%d of %d seeds violated an invariant", result.Violations, result.Seeds)
		}
	}
}
