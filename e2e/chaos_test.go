package e2e

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/e2e/chaos"
)

// TestASeedDrawsTheSamePlanAgain: what a seed found can be run again.
func TestASeedDrawsTheSamePlanAgain(t *testing.T) {
	t.Parallel()
	kinds := map[chaos.Kind]bool{}
	for seed := range uint64(300) {
		for _, apache := range []bool{false, true} {
			plan := chaos.Draw(seed, apache)
			if !reflect.DeepEqual(plan, chaos.Draw(seed, apache)) {
				t.Fatalf("seed %d draws two plans", seed)
			}
			for _, f := range plan.Faults {
				kinds[f.Kind] = true
			}
		}
	}
	for _, kind := range chaos.Kinds() {
		if !kinds[kind] {
			t.Errorf("300 seeds draw no %s", kind)
		}
	}
}

// TestEveryMutationFitsTheCode: one that breaks nothing proves nothing.
func TestEveryMutationFitsTheCode(t *testing.T) {
	t.Parallel()
	for _, stale := range chaos.Stale(root) {
		t.Error(stale)
	}
}

// TestTheTableOfFaultsNamesWhatExists: a table that names tests which are gone proves nothing.
func TestTheTableOfFaultsNamesWhatExists(t *testing.T) {
	t.Parallel()
	table := read(t, "docs/faults.md")
	tests := map[string]bool{}
	sources(t, "*_test.go", func(path, text string) {
		module, _, _ := strings.Cut(path, "/")
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
			tests[module+":"+m[1]] = true
		}
	})
	named := regexp.MustCompile("`([a-z0-9-]+:Test[A-Z]\\w+)`").FindAllStringSubmatch(table, -1)
	if len(named) < 60 {
		t.Errorf("the table names only %d tests", len(named))
	}
	for _, m := range named {
		if !tests[m[1]] && m[1] != "module:TestName" {
			t.Errorf("docs/faults.md names %s, which is not there", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\*([a-z]+(?:-[a-z]+)*)\*`).FindAllStringSubmatch(table, -1) {
		if !slices.Contains(chaos.Kinds(), chaos.Kind(m[1])) {
			t.Errorf("docs/faults.md names the fault %s, which is not drawn", m[1])
		}
	}
}

// TestNoFaultBreaksAnInvariant runs a few seeds: always the same ones, and one that nobody has seen. `go run ./cmd/chaos` runs thousands.
func TestNoFaultBreaksAnInvariant(t *testing.T) {
	if testing.Short() {
		t.Skip("about a minute")
	}
	for _, o := range []chaos.Options{{Seed: 1, Seeds: 2}, {Seeds: 1}} {
		survive(t, o)
	}
}

// TestNoFaultBreaksAnInvariantOnApacheKafka runs one seed on the real broker, which is killed in the middle.
func TestNoFaultBreaksAnInvariantOnApacheKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("about half a minute")
	}
	const seed = 202 // also wipes Redis, and kills a writer after its commit
	plan := chaos.Draw(seed, true)
	if !slices.ContainsFunc(plan.Faults, func(f chaos.Fault) bool { return f.Kind == chaos.KafkaKill }) {
		t.Fatalf("seed %d kills no broker: %v", seed, plan.Faults)
	}
	survive(t, chaos.Options{Apache: true, Seed: seed, Seeds: 1})
}

func survive(t *testing.T, o chaos.Options) {
	t.Helper()
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
