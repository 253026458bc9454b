package reconciler

import "context"

// ahead is the comparison of accounts that is made while the log is still read: the one is the work of ClickHouse, the other of Kafka and this
// process. Rows are compared after they were added up (checkLog), so what proves right was right when it was compared. Where a row proves wrong,
// nothing of it counts.
type ahead struct {
	bounds  []string
	results chan *sliceResult // one per slice, in order; closed after the last that was compared
	cancel  context.CancelFunc
}

// checkWholeLog checks the log up to where Redis was read, and begins to compare.
func (r *reconciliation) checkWholeLog(ctx context.Context) error {
	return r.checkLog(ctx, r.compareAhead)
}

// compareAhead begins to compare. A run that goes on where it was stopped has its slices.
func (r *reconciliation) compareAhead(ctx context.Context) error {
	if r.resumed != nil {
		return nil
	}
	bounds, err := r.sampleBounds(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{bounds: bounds, results: make(chan *sliceResult, len(bounds)), cancel: cancel}
	r.ahead = a
	go func() { // ends with dropAhead at the latest
		defer close(a.results)
		// What is found waits in memory, and so no more of it than is listed.
		for i, found := 0, 0; i < len(bounds) && found <= r.cfg.BreaksMax; i++ {
			result, err := r.compareSlice(ctx, sliceOf(bounds, i))
			if err != nil {
				return // it is compared again, and then the error counts
			}
			found += len(result.Differences) + len(result.Histories) + len(result.Holds)
			a.results <- result
		}
	}()
	return nil
}

// dropAhead ends what was begun ahead. What was not taken is compared again.
func (r *reconciliation) dropAhead() {
	if r.ahead == nil {
		return
	}
	r.ahead.cancel()
	for range r.ahead.results {
	}
	r.ahead = nil
}

// next is the result of the next slice, compared ahead or now.
func (r *reconciliation) next(ctx context.Context, s slice) (*sliceResult, error) {
	if r.ahead != nil {
		if result := <-r.ahead.results; result != nil {
			return result, nil
		}
	}
	return r.compareSlice(ctx, s)
}
