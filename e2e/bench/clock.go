package bench

import (
	"slices"
	"time"
)

// A host may slow a CPU's clock down to a tenth for some tens of ms, again and again. A guest sees neither a gap nor stolen time of it: all that it
// does takes that much longer, and every caller waits for it. So the same few instructions are timed again and again beside what is measured.

const (
	// clockNap is between two looks: a few of them in a stretch of 10 ms, at less than 1 % of one core.
	clockNap = time.Millisecond
	// clockSteps take some 2 µs: so short that hardly anything comes in between, long enough for the resolution of time.Now.
	clockSteps = 2_000
	// clockSlow: a CPU is slow that takes so many times as long as it usually does. A busy neighbour on the same core costs less than a factor of 2.
	clockSlow = 3
)

// clock watches how fast the CPU is, until slow is called.
type clock struct {
	start       time.Time
	quit, ended chan struct{}
	looks       []look // by the goroutine until ended
	work        uint64 // so that no compiler leaves the work out
}

// look is one: at is since the start.
type look struct{ at, took time.Duration }

// stretch of time, since a start.
type stretch struct{ from, to time.Duration }

func watchClock(start time.Time) *clock {
	c := &clock{start: start, quit: make(chan struct{}), ended: make(chan struct{})}
	go c.watch() // ends with slow
	return c
}

func (c *clock) watch() {
	defer close(c.ended)
	ticker := time.NewTicker(clockNap)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.look()
		case <-c.quit:
			return
		}
	}
}

// look times the same work three times: only a slow clock makes all of them slow.
func (c *clock) look() {
	least := time.Duration(1<<63 - 1)
	for range 3 {
		begun := time.Now()
		for i := range uint64(clockSteps) {
			c.work = c.work*3 + i
		}
		least = min(least, time.Since(begun))
	}
	c.looks = append(c.looks, look{time.Since(c.start), least})
}

// slow ends the watch and returns when the clock was slow.
func (c *clock) slow() []stretch {
	close(c.quit)
	<-c.ended
	return slowStretches(c.looks)
}

// slowStretches takes each look for the time since the one before.
func slowStretches(looks []look) []stretch {
	if len(looks) == 0 {
		return nil
	}
	took := make([]time.Duration, len(looks))
	for i, l := range looks {
		took[i] = l.took
	}
	slices.Sort(took)
	usual := took[len(took)/2]
	var slow []stretch
	before := time.Duration(0)
	for _, l := range looks {
		if l.took >= clockSlow*usual {
			if last := len(slow) - 1; last >= 0 && slow[last].to == before {
				slow[last].to = l.at
			} else {
				slow = append(slow, stretch{before, l.at})
			}
		}
		before = l.at
	}
	return slow
}

// length of all stretches together.
func length(stretches []stretch) (sum time.Duration) {
	for _, s := range stretches {
		sum += s.to - s.from
	}
	return sum
}

// meets tells whether a stretch has time in common with any of others, which are in order.
func (s stretch) meets(others []stretch) bool {
	i, _ := slices.BinarySearchFunc(others, s.from, func(o stretch, from time.Duration) int { return int(o.to - from) })
	return i < len(others) && others[i].from <= s.to
}
