package reconciler

import (
	"context"
	_ "embed"
	"fmt"
	"math/big"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/hotledger/hotledger/lua"
)

//go:embed holds.sql
var holdsQuery string

// unreadableHold is what is left of a hold whose record cannot be read: nothing that the log ever says.
const unreadableHold = -1

// snapshotHolds reads a shard's open holds into ledger.hold_snapshots, each with the position that the shard stood at.
func (r *reconciliation) snapshotHolds(ctx context.Context, s *scan) error {
	type reading struct {
		lua.Hold
		position uint64
	}
	var page []reading
	flush := func() error {
		if len(page) == 0 {
			return nil
		}
		at := laterThan(s.since)
		err := r.insert(ctx, "INSERT INTO hold_snapshots (run_id, shard, hold_id, account, remaining, expires_at, position, read_at)", func(batch driver.Batch) error {
			for _, h := range page {
				expires := int64(0)
				if !h.ExpiresAt.IsZero() {
					expires = h.ExpiresAt.UnixMilli()
				}
				if err := batch.Append(r.id, uint16(s.shard), h.ID, h.Account, h.Remaining, expires, h.position, at); err != nil {
					return err
				}
			}
			return nil
		})
		page = page[:0]
		return err
	}
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		fields, next, err := r.readFields(ctx, s, lua.HoldsKey(s.shard), cursor)
		if err != nil {
			return err
		}
		for _, f := range fields {
			hold, err := lua.ParseHold(f[0], f[1])
			if err != nil {
				hold = lua.Hold{ID: f[0], Remaining: unreadableHold}
			}
			page = append(page, reading{hold, s.end.Position})
		}
		if len(page) >= snapshotBlockRows {
			if err := flush(); err != nil {
				return err
			}
		}
		cursor = next
	}
	return flush()
}

// heldAmount is a hold that differs, or is open for too long.
type heldAmount struct {
	ID, Account, Unit string
	Shard             uint16
	Present, Differs  bool
	Redis, Log        int64
	OpenedAt          time.Time
	ExpiresAt         int64 // ms since 1970; 0 for never
	Position          uint64
	Stale             bool
}

// readHolds compares the open holds of a slice.
func (r *reconciliation) readHolds(ctx context.Context, s slice) ([]heldAmount, error) {
	rows, err := r.clickhouse.Query(ctx, `SELECT hold_id, account, unit, shard, present, differs, remaining_redis, remaining_log, opened_at, expires_at, position_redis, stale
		FROM (`+holdsQuery+`)`, r.args(s, clickhouse.Named("most", r.cfg.BreaksMax+1),
		clickhouse.Named("opened_before", r.began.Add(-r.policy.HoldAge).UnixMilli()),
		clickhouse.Named("ended_before", r.began.Add(-r.policy.HoldOverdue).UnixMilli()))...)
	if err != nil {
		return nil, fmt.Errorf("compare holds: %w", err)
	}
	var all []heldAmount
	err = scanAll(rows, func(scan func(...any) error) error {
		var h heldAmount
		if err := scan(&h.ID, &h.Account, &h.Unit, &h.Shard, &h.Present, &h.Differs, &h.Redis, &h.Log, &h.OpenedAt, &h.ExpiresAt, &h.Position, &h.Stale); err != nil {
			return err
		}
		all = append(all, h)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare holds: %w", err)
	}
	return all, nil
}

// breaks makes one break of a difference, and one of being open for too long.
func (h heldAmount) breaks() []*Break {
	var all []*Break
	if h.Differs {
		redis, log := major(big.NewInt(h.Redis), h.Unit), major(big.NewInt(h.Log), h.Unit)
		switch {
		case !h.Present:
			redis = "nothing"
		case h.Redis == unreadableHold:
			redis = "a record that cannot be read"
		}
		if h.Log == 0 {
			log = "nothing"
		}
		all = append(all, &Break{
			Class: HoldDiffers, Shard: int(h.Shard), Account: h.Account, Unit: h.Unit, Amount: big.NewInt(h.Redis - h.Log), Action: Stop,
			Detail:   fmt.Sprintf("hold %q: Redis has %s of it, by the log it is %s; `ledger-writer rebuild --shard %d` makes the shard's holds from the log", h.ID, redis, log, h.Shard),
			evidence: []string{h.ID, fmt.Sprint(h.Redis), fmt.Sprint(h.Log), fmt.Sprint(h.Present)}, To: h.Position,
		})
	}
	if h.Stale {
		why := "has no end"
		if h.ExpiresAt > 0 {
			why = "should have ended at " + time.UnixMilli(h.ExpiresAt).UTC().Format(time.DateTime)
		}
		all = append(all, &Break{
			Class: HoldStale, Shard: int(h.Shard), Account: h.Account, Unit: h.Unit, Amount: big.NewInt(h.Log), Action: Release, FirstSeen: h.OpenedAt, hold: h.ID,
			Detail:   fmt.Sprintf("hold %q is open since %s with %s left, and %s", h.ID, h.OpenedAt.UTC().Format(time.DateTime), major(big.NewInt(h.Log), h.Unit), why),
			evidence: []string{h.ID, fmt.Sprint(h.Log)},
		})
	}
	return all
}
