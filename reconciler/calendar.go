package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// day is what the runs of one day said, the worst of the last words of each.
type day struct {
	Date    time.Time
	Verdict Verdict // empty where no run ended
	Runs    uint64
	Breaks  uint64
	// Unsettled are the breaks of the day's last run that were left to a person.
	Unsettled uint64
}

// calendarDays is a year of weeks, as the heat map shows it.
const calendarDays = 26 * 7

// calendar reads what the last days said: a day is as good as its last run that could tell, or could_not_tell if none could.
func (r *Reconciler) calendar(ctx context.Context, today time.Time) ([]day, error) {
	first := today.UTC().Truncate(24*time.Hour).AddDate(0, 0, -calendarDays+1)
	rows, err := r.clickhouse.Query(ctx, `SELECT toDate(ifNull(business_date, toDate(started_at))) AS on, count(),
			toString(argMax(verdict, (verdict != 'could_not_tell', started_at))), argMax(breaks, (verdict != 'could_not_tell', started_at)),
			argMax(greatest(toInt64(breaks) - toInt64(repairs), 0), (verdict != 'could_not_tell', started_at))
		FROM (SELECT * FROM reconciliation_runs FINAL) WHERE NOT dry_run GROUP BY on HAVING on >= toDate(@first) ORDER BY on`,
		clickhouse.Named("first", first.Format(time.DateOnly)))
	if err != nil {
		return nil, fmt.Errorf("read the calendar: %w", err)
	}
	known := map[string]day{}
	err = scanAll(rows, func(scan func(...any) error) error {
		var d day
		var verdict string
		var left int64
		if err := scan(&d.Date, &d.Runs, &verdict, &d.Breaks, &left); err != nil {
			return err
		}
		d.Verdict, d.Unsettled = Verdict(verdict), uint64(left)
		known[d.Date.Format(time.DateOnly)] = d
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the calendar: %w", err)
	}
	days := make([]day, calendarDays)
	for i := range days {
		on := first.AddDate(0, 0, i)
		days[i] = known[on.Format(time.DateOnly)]
		days[i].Date = on
	}
	return days, nil
}

// streak counts the clean days up to the last one that has a run.
func streak(days []day) int {
	n := 0
	for i := len(days) - 1; i >= 0; i-- {
		switch days[i].Verdict {
		case "":
			if n == 0 && i >= len(days)-2 {
				continue // the run of today may be yet to come
			}
			return n
		case Clean:
			n++
		case Breaks, CouldNotTell:
			return n
		}
	}
	return n
}

// heatMap draws the days as an SVG, a column per week, Monday first.
func heatMap(days []day) template.HTML {
	const cell, gap, left, top = 13, 3, 30, 18
	var out strings.Builder
	offset := (int(days[0].Date.Weekday()) + 6) % 7
	weeks := (len(days) + offset + 6) / 7
	width, height := left+weeks*(cell+gap), top+7*(cell+gap)
	fmt.Fprintf(&out, `<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Reconciliation of the last %d days">`, width, height, width, height, len(days))
	for i, name := range []string{"Mon", "", "Wed", "", "Fri", "", "Sun"} {
		fmt.Fprintf(&out, `<text x="0" y="%d">%s</text>`, top+i*(cell+gap)+cell-3, name)
	}
	month := days[0].Date.Month()
	for i, d := range days {
		x, y := left+(i+offset)/7*(cell+gap), top+(i+offset)%7*(cell+gap)
		if d.Date.Month() != month && d.Date.Day() <= 7 && (i+offset)%7 == 0 {
			month = d.Date.Month()
			fmt.Fprintf(&out, `<text x="%d" y="10">%s</text>`, x, d.Date.Format("Jan"))
		}
		class, words := "none", "no run"
		switch {
		case d.Verdict == Clean:
			class, words = "clean", "clean"
		case d.Verdict == Breaks && d.Unsettled == 0:
			class, words = "settled", plural(d.Breaks, "break")+", all repaired"
		case d.Verdict == Breaks:
			class, words = "breaks", plural(d.Breaks, "break")+", "+thousands(fmt.Sprint(d.Unsettled))+" for a person"
		case d.Verdict == CouldNotTell:
			class, words = "unknown", "could not tell"
		}
		fmt.Fprintf(&out, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="3"><title>%s: %s</title></rect>`,
			class, x, y, cell, cell, d.Date.Format("Mon 2 Jan 2006"), words)
	}
	out.WriteString("</svg>")
	return template.HTML(out.String()) //nolint:gosec // made of numbers, dates and our own words
}

// StoredReport is a report as it was written down, with the days around it.
type StoredReport struct {
	jsonReport
	days []day
}

// ReadReport reads the report of a run; an empty id is the last run that ended.
func (r *Reconciler) ReadReport(ctx context.Context, runID string) (*StoredReport, error) {
	var text string
	err := r.clickhouse.QueryRow(ctx, `SELECT argMax(report, started_at) FROM (SELECT * FROM reconciliation_runs FINAL) WHERE report != '' AND (@run = '' OR run_id = @run)`,
		clickhouse.Named("run", runID)).Scan(&text)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if text == "" {
		return nil, fmt.Errorf("no run %q has left a report", runID)
	}
	s := &StoredReport{}
	if err := json.Unmarshal([]byte(text), &s.jsonReport); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if s.days, err = r.calendar(ctx, s.FinishedAt); err != nil {
		return nil, err
	}
	return s, nil
}
