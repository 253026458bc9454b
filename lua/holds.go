package lua

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
)

// Hold is an open hold as Redis has it.
type Hold struct {
	ID             string // of the command that opened it
	Account        string
	Remaining      int64     // minor units
	ExpiresAt      time.Time // zero: never
	CounterAccount string    // where a capture goes that does not say; "" means @world
}

// millisDigitsMax is how many digits a time has at most: a Lua number holds them exactly.
const millisDigitsMax = 15

// record is what include/hold.lua calls hold_record.
func (h Hold) record() string {
	expires := never
	if !h.ExpiresAt.IsZero() {
		expires = strconv.FormatInt(h.ExpiresAt.UnixMilli(), 10)
	}
	return strings.Join([]string{strconv.FormatInt(h.Remaining, 10), expires, h.CounterAccount, h.Account}, "\t")
}

// ParseHold reads a record of the holds hash. Like include/hold.lua it takes only what this ledger would have written; anything else is ErrCorrupt.
func ParseHold(id, record string) (Hold, error) {
	f := strings.Split(record, "\t")
	if len(f) != 4 || f[3] == "" {
		return Hold{}, fmt.Errorf("%w: hold %q: %q is not one of apply.lua", ErrCorrupt, id, record)
	}
	h := Hold{ID: id, CounterAccount: f[2], Account: f[3]}
	remaining, errRemaining := money.ParseMinor(f[0])
	expires, errExpires := parseMillis(f[1])
	if err := errors.Join(errRemaining, errExpires); err != nil {
		return Hold{}, fmt.Errorf("%w: hold %q: %w", ErrCorrupt, id, err)
	}
	h.Remaining = remaining
	if expires != nil {
		h.ExpiresAt = expires.AsTime()
	}
	if h.Remaining <= 0 || len(f[1]) > millisDigitsMax || (expires != nil && h.ExpiresAt.UnixMilli() < 0) || h.record() != record {
		return Hold{}, fmt.Errorf("%w: hold %q: %q is not one of apply.lua", ErrCorrupt, id, record)
	}
	return h, nil
}

// Holds reads one page of a shard's open holds, about count of them. Begin with cursor 0; a returned cursor of 0 is the end. A hold that is
// open all the while is returned at least once, perhaps twice.
func (s *Store) Holds(ctx context.Context, shard int, cursor uint64, count int64) (page []Hold, next uint64, err error) {
	fields, next, err := s.rdb.HScan(ctx, HoldsKey(shard), cursor, "", count).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read holds of shard %d: %w", shard, err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "" {
			continue // the shard's marker
		}
		h, err := ParseHold(fields[i], fields[i+1])
		if err != nil {
			return nil, 0, err
		}
		page = append(page, h)
	}
	return page, next, nil
}

// OpenHolds returns those of some holds that are open, as Redis has them now.
func (s *Store) OpenHolds(ctx context.Context, shard int, holds []Hold) ([]Hold, error) {
	ids := make([]string, len(holds))
	for i, h := range holds {
		ids[i] = h.ID
	}
	records, err := s.rdb.HMGet(ctx, HoldsKey(shard), ids...).Result()
	if err != nil {
		return nil, fmt.Errorf("read holds of shard %d: %w", shard, err)
	}
	var open []Hold
	for i, record := range records {
		text, ok := record.(string)
		if !ok {
			continue
		}
		h, err := ParseHold(ids[i], text)
		if err != nil {
			return nil, err
		}
		open = append(open, h)
	}
	return open, nil
}
