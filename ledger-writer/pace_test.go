package writer

import (
	"testing"
	"time"
)

// settled is where a pace ends, of an engine that does so many commands per second, with batches as full as may be.
func settled(p pace, perSecond int) int {
	for range 30 {
		p.took(p.records, 2*time.Millisecond+time.Duration(p.records)*time.Second/time.Duration(perSecond))
	}
	return p.records
}

func TestABatchIsAsLargeAsItsEnginesAreFast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ most, perSecond, least, atMost int }{
		{16_000, 1_000_000, 16_000, 16_000},
		{16_000, 40_000, 5_900, 6_000}, // 150 ms are 6,000
		{16_000, 300, 900, 900},
		{100, 1_000_000, 100, 100},
		{100, 10, 100, 100}, // what a person chose below one call is not made smaller
	} {
		if got := settled(newPace(c.most), c.perSecond); got < c.least || got > c.atMost {
			t.Errorf("at %d commands/s, %d at most: settled at %d, not within %d..%d", c.perSecond, c.most, got, c.least, c.atMost)
		}
	}
}

func TestAStallIsForgottenAndAQuietSystemTeachesNothing(t *testing.T) {
	t.Parallel()
	p := newPace(16_000)
	for range 10 {
		p.took(p.records, time.Millisecond)
	}
	p.took(3, time.Millisecond)
	if p.records != 16_000 {
		t.Errorf("%d after a small batch", p.records)
	}
	p.took(3, time.Minute)
	for range 100 {
		p.givenUp()
	}
	if p.records != batchRecordsMin {
		t.Errorf("%d after a stall", p.records)
	}
	if got := settled(p, 1_000_000); got != 16_000 {
		t.Errorf("%d after all is well again", got)
	}
}
