package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// classify gives every break its id, its age, its severity, and what people decided about it.
func (r *reconciliation) classify(ctx context.Context) error {
	for _, b := range r.report.Breaks {
		if b.evidence == nil && b.Shard < len(r.scans) {
			b.generation = r.scans[b.Shard].generation
		}
		if b.ID == "" {
			b.ID = b.fingerprint()
		}
	}
	if len(r.report.Breaks) > r.cfg.BreaksMax {
		r.report.Breaks = r.report.Breaks[:r.cfg.BreaksMax]
	}
	seen, err := r.firstSeen(ctx)
	if err != nil {
		return err
	}
	booked, err := r.bookedAdjustments(ctx)
	if err != nil {
		return err
	}
	for _, b := range r.report.Breaks {
		if at, ok := seen[b.ID]; ok && (b.FirstSeen.IsZero() || at.Before(b.FirstSeen)) {
			b.FirstSeen = at
		}
		if b.FirstSeen.IsZero() {
			b.FirstSeen = r.report.Started
		}
		b.Severity = r.policy.severity(b, r.began)
		switch d, accepted := r.accepted[b.ID]; {
		case booked[b.ID]:
			b.Settled = "its adjustment is booked"
		case accepted:
			b.Settled = fmt.Sprintf("accepted by %s until %s: %s", d.By, d.ExpiresAt.UTC().Format(time.DateOnly), d.Note)
		default:
			continue
		}
		r.report.BreaksFound--
		r.report.SettledBefore++
	}
	slices.SortStableFunc(r.report.Breaks, func(a, b *Break) int {
		if (a.Settled == "") != (b.Settled == "") {
			return strings.Compare(a.Settled, b.Settled) // what is settled comes last
		}
		return cmp.Or(slices.Index(severities, b.Severity)-slices.Index(severities, a.Severity), cmp.Compare(a.Class, b.Class), a.Shard-b.Shard, cmp.Compare(a.Account, b.Account))
	})
	return nil
}

func (r *reconciliation) ids() []string {
	ids := make([]string, len(r.report.Breaks))
	for i, b := range r.report.Breaks {
		ids[i] = b.ID
	}
	return ids
}

// firstSeen is when an earlier run first found the breaks of this one.
func (r *reconciliation) firstSeen(ctx context.Context) (map[string]time.Time, error) {
	seen := map[string]time.Time{}
	for ids := range slices.Chunk(r.ids(), headsPerQuery) {
		rows, err := r.clickhouse.Query(ctx, "SELECT break_id, min(found_at) FROM breaks WHERE break_id IN (@ids) GROUP BY break_id", clickhouse.Named("ids", ids))
		if err != nil {
			return nil, fmt.Errorf("look up the age of breaks: %w", err)
		}
		err = scanAll(rows, func(scan func(...any) error) error {
			var id string
			var at time.Time
			if err := scan(&id, &at); err != nil {
				return err
			}
			seen[id] = at
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look up the age of breaks: %w", err)
		}
	}
	return seen, nil
}

// adjustmentPrefix begins the command ids of what two people approved; the break's id follows.
const adjustmentPrefix = "adjust:"

// bookedAdjustments are the breaks whose adjustment is in the log.
func (r *reconciliation) bookedAdjustments(ctx context.Context) (map[string]bool, error) {
	var booked []string
	// References lead from the journal to the break; the id of the command is derived from it, so nobody else's reference counts.
	err := r.clickhouse.QueryRow(ctx, `SELECT groupUniqArray(reference) FROM events
		WHERE operation IN ('adjust', 'release') AND status = 'applied' AND reference != '' AND startsWith(command_id, concat(@prefix, reference))`,
		clickhouse.Named("prefix", adjustmentPrefix)).Scan(&booked)
	if err != nil {
		return nil, fmt.Errorf("look up booked adjustments: %w", err)
	}
	found := make(map[string]bool, len(booked))
	for _, id := range booked {
		found[id] = id != ""
	}
	return found, nil
}
