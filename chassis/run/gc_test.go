package run

import (
	"runtime/debug"
	"testing"
)

func gcPercent() int {
	percent := debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	return percent
}

func TestGCIsTunedUnlessTheEnvironmentSaysHow(t *testing.T) {
	before := gcPercent()
	t.Setenv("GOGC", "")
	restore := TuneGC(321)
	if got := gcPercent(); got != 321 {
		t.Errorf("%d, not 321", got)
	}
	if restore(); gcPercent() != before {
		t.Errorf("%d afterwards, not %d", gcPercent(), before)
	}
	t.Setenv("GOGC", "50") // read by Go when the process starts
	if restore := TuneGC(321); gcPercent() != before {
		t.Errorf("%d in spite of GOGC", gcPercent())
	} else if restore(); gcPercent() != before {
		t.Errorf("%d afterwards, in spite of GOGC", gcPercent())
	}
}
