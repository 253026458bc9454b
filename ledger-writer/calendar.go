package writer

import (
	"fmt"
	"time"
	_ "time/tzdata" // a container may have no time zones of its own
)

// calendar says which day of the ledger a moment counts for. The loop alone uses it.
type calendar struct {
	zone *time.Location
	ends time.Duration // after midnight in that zone: from then on, it is the next day
	// All that one call decides is of one moment: its day is worked out once.
	lastAt   time.Time
	lastDate string
}

const timeOfDay = "15:04"

// newCalendar reads a time zone ("Europe/Berlin") and the time of day at which a business day ends ("18:00", "24:00").
func newCalendar(zone, ends string) (calendar, error) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return calendar{}, fmt.Errorf("LEDGER_WRITER_TIME_ZONE: %q is not a time zone such as Europe/Berlin: %w", zone, err)
	}
	if ends == "24:00" {
		return calendar{zone: location, ends: 24 * time.Hour}, nil
	}
	at, err := time.Parse(timeOfDay, ends)
	if err != nil {
		return calendar{}, fmt.Errorf("LEDGER_WRITER_DAY_ENDS: %q is not a time of day such as 18:00, nor 24:00", ends)
	}
	return calendar{zone: location, ends: time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute}, nil
}

// dateOf is the business date, "2026-11-30". It depends on the moment alone, so an event that is published again gets the same.
func (c *calendar) dateOf(at time.Time) string {
	if c.lastDate != "" && at.Equal(c.lastAt) {
		return c.lastDate
	}
	local := at.In(c.zone)
	year, month, day := local.Date()
	if time.Duration(local.Hour())*time.Hour+time.Duration(local.Minute())*time.Minute >= c.ends {
		day++
	}
	c.lastAt, c.lastDate = at, time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) // not in the zone, where that hour may be skipped
	return c.lastDate
}
