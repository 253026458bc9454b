package projector

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The table takes a block that is ready, and the same rows over the driver's columns. What it then has is what was written.
func TestRowsArriveAlikeOverEitherProtocol(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(1, 2))
	text := func(kinds int) string { return fmt.Sprint("text ", random.IntN(kinds)) }
	written := make([]row, 5_000)
	blocks := []*rows{newRows(), newRows()}
	for i := range written {
		r := &written[i]
		*r = row{
			account: text(9), commandID: text(1 << 30), unit: text(400), source: text(70_000), accountStatus: text(1), description: string(make([]byte, random.IntN(300))),
			sequence: uint64(i / 3), position: uint64(i) + 1, logTime: decidedAt.UnixMilli(), decidedAt: random.Int64N(1 << 42), effectiveAt: -random.Int64N(1 << 40),
			businessDate: uint16(random.Uint32()), operation: uint8(random.IntN(int(operationMax) + 1)), status: 1 + uint8(random.IntN(2)), delta: random.Int64() - random.Int64(),
			holdExpiresAt: optional{random.Int64N(1 << 42), i%2 == 0}, ceiling: optional{random.Int64(), i%3 == 0},
			fingerprint: []byte(fmt.Sprintf("%016d", i)), chain: bytes.Repeat([]byte{byte(i)}, chainBytes), head: noHead,
		}
		if i%5 == 0 {
			r.legs = []leg{{text(9), 1}, {text(9), -2}}[:random.IntN(3)]
			r.metadata = map[string]string{text(9): ""}
		}
		for shard, block := range blocks {
			block.append(int32(shard), r)
		}
	}
	for shard, block := range blocks {
		block.close(uint64(len(written)))
		w := &worker{cfg: b.cfg, clickhouse: b.rows, shard: int32(shard), alive: b.ctx, tcp: shard == 1}
		b.must(w.send(&batch{rows: block}))
	}
	var parts, all, different uint64
	b.must(b.rows.QueryRow(b.ctx, "SELECT uniqExact(_part), count(), uniqExact(toString(tuple(* EXCEPT (shard, ingested_at)))) FROM events").Scan(&parts, &all, &different))
	if parts != 2 || all != 2*uint64(len(written)) || different != uint64(len(written)) {
		t.Fatalf("%d rows in %d parts, %d different ones", all, parts, different)
	}
	found, err := b.rows.Query(b.ctx, `SELECT unit, source, description, ceiling_after, hold_expires_at, effective_at, business_date, legs.amount, mapKeys(metadata), delta, fingerprint
		FROM events WHERE shard = 0 ORDER BY position`)
	b.must(err)
	defer found.Close()
	for i := range written {
		var unit, source, description, fingerprint string
		var ceiling *int64
		var expires *time.Time
		var effective, date time.Time
		var amounts []int64
		var keys []string
		var delta int64
		if !found.Next() {
			t.Fatalf("%d rows: %v", i, found.Err())
		}
		b.must(found.Scan(&unit, &source, &description, &ceiling, &expires, &effective, &date, &amounts, &keys, &delta, &fingerprint))
		r := written[i]
		if unit != r.unit || source != r.source || description != r.description || (ceiling != nil) != r.ceiling.set || (expires != nil) != r.holdExpiresAt.set ||
			ceiling != nil && *ceiling != r.ceiling.value || expires != nil && expires.UnixMilli() != r.holdExpiresAt.value || effective.UnixMilli() != r.effectiveAt ||
			date.Unix() != int64(r.businessDate)*24*60*60 || len(amounts) != len(r.legs) || len(keys) != len(r.metadata) || delta != r.delta || fingerprint != string(r.fingerprint) {
			t.Fatalf("row %d: %q %q %d %v %v %s %s %v %v %d %q; written was %+v", i, unit, source, len(description), ceiling, expires, effective, date, amounts, keys, delta, fingerprint, r)
		}
	}
}
