package bench

import (
	"slices"
	"testing"
	"time"
)

func TestWaitsThatMeetASlowClockAreTold(t *testing.T) {
	t.Parallel()
	const us, ms = time.Microsecond, time.Millisecond
	slow := slowStretches([]look{
		{1 * ms, 2 * us}, {2 * ms, 2 * us}, {3 * ms, 26 * us}, {4 * ms, 7 * us}, {5 * ms, 3 * us}, {6 * ms, 2 * us}, {9 * ms, 6 * us}, {10 * ms, 2 * us}, {11 * ms, 2 * us},
	})
	if want := []stretch{{2 * ms, 4 * ms}, {6 * ms, 9 * ms}}; !slices.Equal(slow, want) {
		t.Fatalf("slow %v, want %v", slow, want)
	}
	if got := length(slow); got != 5*ms {
		t.Errorf("slow for %s", got)
	}
	for _, c := range []struct {
		wait stretch
		want bool
	}{
		{stretch{0, 1 * ms}, false},
		{stretch{1 * ms, 3 * ms}, true},
		{stretch{3 * ms, 3500 * us}, true},
		{stretch{4500 * us, 5 * ms}, false},
		{stretch{5 * ms, 10 * ms}, true},
		{stretch{10 * ms, 11 * ms}, false},
	} {
		if got := c.wait.meets(slow); got != c.want {
			t.Errorf("%v meets %v: %t", c.wait, slow, got)
		}
	}
	if (stretch{0, ms}).meets(slowStretches(nil)) {
		t.Error("no look, and yet slow")
	}
}
