package writer

import (
	"time"

	"github.com/hotledger/hotledger/lua"
)

const (
	// batchTime is what a full batch should take: so long that its commit costs little beside it, so short that callers do not wait for it, and that a
	// slow Redis or broker does not make it outlive its timeouts.
	batchTime = 150 * time.Millisecond
	// batchRecordsMin is one call of the script: smaller batches do not make Redis faster.
	batchRecordsMin = lua.CommandsMax
)

// pace is how many commands a batch takes at most, as far as the last ones tell.
type pace struct {
	least, most int
	records     int
}

func newPace(most int) pace {
	least := min(most, batchRecordsMin)
	return pace{least: least, most: most, records: least}
}

// took learns from a batch that was committed. One that was not full and yet fast tells nothing.
func (p *pace) took(records int, duration time.Duration) {
	if duration > batchTime || records >= p.records {
		within := int(float64(records) * float64(batchTime) / float64(max(duration, 1)))
		p.records = max(p.least, min(p.most, 2*p.records, within))
	}
}

// givenUp learns from a batch that was not.
func (p *pace) givenUp() { p.records = max(p.least, p.records/2) }
