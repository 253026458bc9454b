package writer

import (
	"testing"
	"time"

	"github.com/hotledger/hotledger/schemas/topics"
)

func TestABusinessDayEndsAtItsTimeInItsZone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, ends, at, want string }{
		{"UTC", "24:00", "2026-11-30T00:00:00Z", "2026-11-30"},
		{"UTC", "24:00", "2026-11-30T23:59:59.999Z", "2026-11-30"},
		{"UTC", "18:00", "2026-11-30T17:59:59.999Z", "2026-11-30"},
		{"UTC", "18:00", "2026-11-30T18:00:00Z", "2026-12-01"},
		{"UTC", "18:00", "2026-12-31T18:00:00Z", "2027-01-01"},
		{"UTC", "18:00", "2028-02-28T18:00:00Z", "2028-02-29"},
		{"UTC", "18:30", "2026-11-30T18:29:59Z", "2026-11-30"},
		{"UTC", "18:30", "2026-11-30T18:30:00Z", "2026-12-01"},
		{"UTC", "00:00", "2026-11-30T00:00:00Z", "2026-12-01"}, // the day before ends as this one begins
		{"Europe/Berlin", "24:00", "2026-11-30T22:59:59Z", "2026-11-30"},
		{"Europe/Berlin", "24:00", "2026-11-30T23:00:00Z", "2026-12-01"},
		{"America/New_York", "17:00", "2026-11-30T21:59:59Z", "2026-11-30"},
		{"America/New_York", "17:00", "2026-11-30T22:00:00Z", "2026-12-01"},
		{"America/New_York", "17:00", "2026-12-01T03:00:00Z", "2026-12-01"}, // after midnight UTC, still the evening before there
		{"Asia/Kolkata", "24:00", "2026-11-30T18:29:59Z", "2026-11-30"},
		{"Asia/Kolkata", "24:00", "2026-11-30T18:30:00Z", "2026-12-01"},
		{"Pacific/Kiritimati", "24:00", "2026-11-30T10:00:00Z", "2026-12-01"}, // 14 hours ahead
		// Clocks go forward and back: what counts is what they show.
		{"Europe/Berlin", "18:00", "2026-03-28T16:59:59Z", "2026-03-28"},
		{"Europe/Berlin", "18:00", "2026-03-28T17:00:00Z", "2026-03-29"},
		{"Europe/Berlin", "18:00", "2026-03-29T15:59:59Z", "2026-03-29"},
		{"Europe/Berlin", "18:00", "2026-03-29T16:00:00Z", "2026-03-30"},
		{"Europe/Berlin", "02:30", "2026-03-29T00:59:59Z", "2026-03-29"}, // 01:59:59, and a second later it is 03:00
		{"Europe/Berlin", "02:30", "2026-03-29T01:00:00Z", "2026-03-30"},
		{"Europe/Berlin", "02:30", "2026-10-25T00:29:59Z", "2026-10-25"}, // 02:29:59 the first time
		{"Europe/Berlin", "02:30", "2026-10-25T00:30:00Z", "2026-10-26"},
		{"Europe/Berlin", "24:00", "2026-10-25T22:59:59Z", "2026-10-25"}, // a day of 25 hours
		{"Europe/Berlin", "24:00", "2026-10-25T23:00:00Z", "2026-10-26"},
		// The next day begins at 01:00 there, or has no such hour: it is the next day all the same.
		{"America/Sao_Paulo", "00:10", "2018-11-03T03:15:00Z", "2018-11-04"},
		{"America/Havana", "00:10", "2026-03-07T05:15:00Z", "2026-03-08"},
		{"Africa/Cairo", "00:10", "2026-04-22T22:15:00Z", "2026-04-24"},
		{"Asia/Beirut", "00:10", "2026-03-27T22:15:00Z", "2026-03-29"},
	} {
		days, err := newCalendar(c.zone, c.ends)
		must(t, err)
		at, err := time.Parse(time.RFC3339Nano, c.at)
		must(t, err)
		if got := days.dateOf(at); got != c.want {
			t.Errorf("%s is %s where days end at %s in %s, not %s", c.at, got, c.ends, c.zone, c.want)
		}
		days.lastDate = "" // not from memory
		if got := days.dateOf(at.In(time.FixedZone("elsewhere", -7*3600))); got != c.want {
			t.Errorf("%s, said in another zone, is %s", c.at, got)
		}
	}
	for _, c := range [][2]string{{"Berlin", "24:00"}, {"UTC", ""}, {"UTC", "24:01"}, {"UTC", "25:00"}, {"UTC", "18"}, {"UTC", "6pm"}, {"UTC", "18:00:00"}, {"UTC", "-1:00"}, {"UTC", "18:60"}} {
		if _, err := newCalendar(c[0], c[1]); err == nil {
			t.Errorf("zone %q, day ends %q: taken", c[0], c[1])
		}
	}
}

// A moment later is never a day earlier.
func TestBusinessDatesOnlyGrowButWhereClocksGoBack(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Africa/Cairo", "Asia/Beirut", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		for _, ends := range []string{"00:00", "00:10", "12:00", "18:00", "24:00"} {
			days, err := newCalendar(zone, ends)
			must(t, err)
			last := ""
			for at := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2019; at = at.Add(10 * time.Minute) {
				date := days.dateOf(at)
				_, before := at.Add(-2 * time.Hour).In(days.zone).Zone()
				_, now := at.In(days.zone).Zone()
				if date < last && now >= before {
					t.Fatalf("%s after %s at %s, where days end at %s in %s", date, last, at, ends, zone)
				}
				last = date
			}
		}
	}
}

func TestEventsAndRepliesCarryTheBusinessDate(t *testing.T) {
	t.Parallel()
	l := setup(t, "LEDGER_WRITER_TIME_ZONE=Pacific/Kiritimati", "LEDGER_WRITER_DAY_ENDS=12:00")
	days, err := newCalendar("Pacific/Kiritimati", "12:00")
	must(t, err)
	l.send(t, answered(open("a")), answered(credit("c", "a", "5")), answered(debit("d", "a", "6")), answered(transfer("t", "a", "b", "1")))
	h := l.byHand(t, l.writer(t))
	h.applied()
	h.crash() // these are published from the outbox
	l.run(t)
	events := l.audit(t)
	for id, e := range events {
		if got, want := e.GetOutcome().GetBusinessDate(), days.dateOf(e.GetOutcome().GetDecidedAt().AsTime()); got != want {
			t.Errorf("%s counts for %s, not %s", id, got, want)
		}
	}
	for id, replies := range l.replies(t) {
		if got := replies[0].GetOutcome().GetBusinessDate(); got == "" {
			t.Errorf("the reply to %s, of shard %d, has no date", id, topics.ShardOf("a", shards))
		}
	}
}
