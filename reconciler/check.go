package reconciler

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/cespare/xxhash/v2"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"golang.org/x/sync/errgroup"
)

// doubt is what is wrong with the log of one shard. While it is, nothing of the shard is repaired: the log is what a repair
// would be made from.
type doubt struct {
	log        []*Break // Kafka's log is broken
	projection []*Break // ClickHouse is not what Kafka says, and was not rewritten
	// The accounts that have an event at a missing position, and at one that is there with another content.
	missing, conflicting map[string]bool
}

// inDoubt says that nothing of the shard may be repaired.
func (d *doubt) inDoubt() bool { return len(d.log)+len(d.projection) > 0 }

// readingsAtOnce bounds the memory that the clients of Kafka take; a reading keeps a core busy.
const readingsAtOnce = 2

// checkLog reads the log in Kafka link by link, and holds ClickHouse against it: same positions, same content. What is wrong in
// ClickHouse is projected again, if the policy allows it, before anything is compared. Reading takes this process; meanwhile ClickHouse adds
// up its rows, and then does what is given.
func (r *reconciliation) checkLog(ctx context.Context, meanwhile func(context.Context) error) error {
	r.doubts = make([]doubt, len(r.scans))
	marks, err := r.marks(ctx)
	if err != nil {
		return err
	}
	var sums []map[uint64]counted
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return r.readStreams(working, marks) })
	group.Go(func() error {
		var err error
		if sums, err = r.rowSums(working, marks); err != nil {
			return err
		}
		return meanwhile(ctx)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	wrong := r.wrongStretches(sums)
	if slices.ContainsFunc(wrong, func(numbers []uint64) bool { return len(numbers) > 0 }) {
		r.dropAhead() // whoever puts them right: it was compared with wrong rows
	}
	for shard, read := range r.readings {
		d := &r.doubts[shard]
		d.log, d.missing, d.conflicting = read.breaks, map[string]bool{}, map[string]bool{}
		r.report.Events += r.scans[shard].end.Position
		r.report.EventsRead += read.end.link.Position - read.from.link.Position
		for _, b := range d.log {
			switch b.Class {
			case ChainBroken:
				d.conflicting[b.Account] = true
			case EventUnreadable:
				d.missing[b.Account] = true
			default: // the event is in ClickHouse as it is
			}
		}
		if len(d.log) > 0 {
			continue // what ClickHouse should have is not known
		}
		if d.projection, err = r.findGaps(ctx, read, wrong[shard], d); err != nil {
			return err
		}
	}
	return r.reproject(ctx)
}

// readStreams reads the log of each shard from its mark on.
func (r *reconciliation) readStreams(ctx context.Context, marks []mark) error {
	r.readings = make([]*reading, len(r.scans))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(readingsAtOnce)
	for shard, s := range r.scans {
		group.Go(func() error { // ends with reading
			var err error
			r.readings[shard], err = r.readStream(reading, shard, marks[shard], s.end.Position)
			return err
		})
	}
	return group.Wait()
}

// counted is what ClickHouse has of a stretch.
type counted struct {
	rows, sum uint64
}

// rowSums returns per shard what ClickHouse has of each stretch from a mark on, up to where the run compares.
func (r *reconciliation) rowSums(ctx context.Context, marks []mark) ([]map[uint64]counted, error) {
	froms, ends := make([]uint64, len(r.scans)), make([]uint64, len(r.scans))
	sums := make([]map[uint64]counted, len(r.scans))
	for shard, s := range r.scans {
		froms[shard], ends[shard], sums[shard] = marks[shard].link.Position, s.end.Position, map[uint64]counted{}
	}
	rows, err := r.clickhouse.Query(ctx, `SELECT shard, toUInt64(intDiv(position - 1, @size)) AS number, count(), sum(xxHash64(`+rowTextSQL+`)) FROM events
		WHERE position > arrayElement(@froms, shard + 1) AND position <= arrayElement(@ends, shard + 1) GROUP BY shard, number`,
		clickhouse.Named("size", stretchPositions), clickhouse.Named("froms", froms), clickhouse.Named("ends", ends))
	if err != nil {
		return nil, fmt.Errorf("add up the rows of the log: %w", err)
	}
	err = scanAll(rows, func(scan func(...any) error) error {
		var shard uint16
		var number uint64
		var c counted
		if err := scan(&shard, &number, &c.rows, &c.sum); err != nil {
			return err
		}
		sums[shard][number] = c
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("add up the rows of the log: %w", err)
	}
	return sums, nil
}

// wrongStretches returns per shard the numbers of the stretches that differ from the log, in order.
func (r *reconciliation) wrongStretches(sums []map[uint64]counted) [][]uint64 {
	wrong := make([][]uint64, len(r.scans))
	for shard, read := range r.readings {
		for number, want := range read.stretches {
			if (sums[shard][number] != counted{want.events, want.sum}) {
				wrong[shard] = append(wrong[shard], number)
			}
		}
		slices.Sort(wrong[shard])
	}
	return wrong
}

// wrongStretchesMax bounds the time of looking row by row; what lies beyond is found by the next run.
const wrongStretchesMax = 256

// findGaps finds out what is wrong with the rows of some stretches, position by position (gaps, duplicates, other content), and makes one break of neighbours.
func (r *reconciliation) findGaps(ctx context.Context, read *reading, numbers []uint64, d *doubt) ([]*Break, error) {
	var breaks []*Break
	for i, number := range numbers {
		first, last := number*stretchPositions+1, (number+1)*stretchPositions
		first, last = max(first, read.from.link.Position+1), min(last, read.end.link.Position)
		found := map[uint64]*Break{}
		if i < wrongStretchesMax {
			rows, err := r.rowsBetween(ctx, read.shard, first, last)
			if err != nil {
				return nil, err
			}
			if found, err = r.againstLog(ctx, read, number, first, last, rows, d); err != nil {
				return nil, err
			}
		} else {
			found[first] = &Break{Class: ProjectionMismatch, Shard: read.shard, Action: Repair, From: first, To: last}
		}
		for _, p := range slices.Sorted(maps.Keys(found)) {
			if n := len(breaks); n > 0 && breaks[n-1].Class == found[p].Class && breaks[n-1].To+1 == p {
				breaks[n-1].join(found[p])
				continue
			}
			breaks = append(breaks, found[p])
		}
	}
	for _, b := range breaks {
		b.evidence = []string{fmt.Sprint(b.From), fmt.Sprint(b.To)}
		b.Detail = map[Class]string{
			ProjectionMissing: "ClickHouse lacks ", ProjectionDuplicate: "ClickHouse has more than once ", ProjectionMismatch: "ClickHouse has another content than Kafka at ",
		}[b.Class] + fmt.Sprintf("%s of shard %d", positions(b.From, b.To), b.Shard)
	}
	return breaks, nil
}

// accountsCountedMax bounds what a break of rows remembers of whose they are.
const accountsCountedMax = 10_000

// join adds a break of the next positions.
func (b *Break) join(next *Break) {
	b.To = next.To
	for account := range next.Accounts {
		if len(b.Accounts) < accountsCountedMax {
			b.Accounts[account] = true
		}
	}
	for unit, m := range next.Misstated {
		addMisstated(b.Misstated, unit, m.Gross, m.Net)
	}
}

// rowsAt are the rows of ClickHouse at one position, and what those of them that are applied changed.
type rowsAt struct {
	hashes   []uint64
	accounts []string
	units    []string
	deltas   []int64
}

func (r *reconciliation) rowsBetween(ctx context.Context, shard int, first, last uint64) (map[uint64]rowsAt, error) {
	rows, err := r.clickhouse.Query(ctx, `SELECT position, groupArray(xxHash64(`+rowTextSQL+`)), groupUniqArray(account),
			groupArrayIf(toString(unit), status = 'applied'), groupArrayIf(delta, status = 'applied') FROM events
		WHERE shard = @shard AND position BETWEEN @first AND @last GROUP BY position`,
		clickhouse.Named("shard", shard), clickhouse.Named("first", first), clickhouse.Named("last", last))
	if err != nil {
		return nil, fmt.Errorf("read rows of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	found := map[uint64]rowsAt{}
	for rows.Next() {
		var position uint64
		var at rowsAt
		if err := rows.Scan(&position, &at.hashes, &at.accounts, &at.units, &at.deltas); err != nil {
			return nil, fmt.Errorf("read rows of shard %d: %w", shard, err)
		}
		found[position] = at
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read rows of shard %d: %w", shard, err)
	}
	return found, nil
}

// againstLog reads a stretch in Kafka again, and makes a break of each position whose rows differ.
func (r *reconciliation) againstLog(ctx context.Context, read *reading, number, first, last uint64, rows map[uint64]rowsAt, d *doubt) (map[uint64]*Break, error) {
	found := map[uint64]*Break{}
	offset := read.stretches[number].offset
	err := r.readLog(ctx, read.shard, offset, read.end.offset, func(l logged) error {
		position := l.event.GetOutcome().GetPosition()
		switch {
		case position < first:
			return nil
		case position > last:
			return errEnough
		}
		wanted, err := rowOf(l)
		if err != nil {
			return err
		}
		account := strings.Clone(wanted.GetOutcome().GetAccount())
		at, hash := rows[position], xxhash.Sum64(wanted.appendText(nil))
		same := !slices.ContainsFunc(at.hashes, func(h uint64) bool { return h != hash })
		class := ProjectionMismatch
		switch {
		case len(at.hashes) == 0:
			class = ProjectionMissing
			d.missing[account] = true
		case len(at.hashes) == 1 && same:
			return nil
		case len(at.hashes) > 1:
			class = ProjectionDuplicate
		}
		if !same {
			for _, account := range append(at.accounts, account) {
				d.conflicting[account] = true
			}
		}
		found[position] = at.toBreak(class, read.shard, account, wanted)
		return nil
	})
	return found, err
}

// toBreak says whose rows are wrong at a position, and by how much.
func (at rowsAt) toBreak(class Class, shard int, account string, wanted *row) *Break {
	position := wanted.GetOutcome().GetPosition()
	b := &Break{Class: class, Shard: shard, Action: Repair, From: position, To: position, Accounts: map[string]bool{account: true}, Misstated: map[string]*misstated{}}
	for _, account := range at.accounts {
		b.Accounts[account] = true
	}
	sums := map[string]*big.Int{}
	if wanted.GetOutcome().GetStatus() == ledgerv1.Status_STATUS_APPLIED {
		sums[strings.Clone(wanted.unit)] = big.NewInt(-wanted.delta)
	}
	for i, unit := range at.units {
		if sums[unit] == nil {
			sums[unit] = new(big.Int)
		}
		sums[unit].Add(sums[unit], big.NewInt(at.deltas[i]))
	}
	for unit, net := range sums {
		addMisstated(b.Misstated, unit, new(big.Int).Abs(net), net)
	}
	return b
}

func positions(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("position %d", from)
	}
	return fmt.Sprintf("positions %d to %d", from, to)
}

// explains says that a difference of an account follows from what is wrong with the shard's log, and is no break of its own:
// one missing event is one break, not three.
func (d *doubt) explains(b *Break) bool {
	switch {
	case !d.inDoubt():
		return false
	case d.conflicting[b.Account]:
		return b.Class != AccountMissingInRedis && b.Class != AccountUnreadable
	case d.missing[b.Account]:
		return b.Class == LogGap || b.Class == RedisAhead || b.Class == AccountUnknownToLog || b.Class == BalanceChainBroken
	}
	return false
}

// accountsNamedMax bounds the detail of a break; the rest is counted.
const accountsNamedMax = 10

// nameAccounts adds to the first break of the shard's log which accounts it shows in.
func (d *doubt) nameAccounts(explained []*Break) {
	own := slices.Concat(d.log, d.projection)
	if len(explained) == 0 || len(own) == 0 {
		return
	}
	var names []string
	for _, b := range explained[:min(len(explained), accountsNamedMax)] {
		names = append(names, fmt.Sprintf("%q (%s)", b.Account, b.Detail))
	}
	text := "; it shows in " + strings.Join(names, ", ")
	if more := len(explained) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more accounts", more)
	}
	own[0].Detail += text
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
