package importer

// bitsMax bounds the memory of one shard at 128 MiB, for an import beside a billion of other events.
const bitsMax = 1 << 30

// positions knows which outcomes were decided before: those up to the log's last positions when the import began, and
// those that it was shown. Positions that belong to other callers leave a bit unused, nothing more.
type positions struct {
	before []uint64   // by shard
	seen   [][]uint64 // by shard: bit n stands for position before+1+n
}

func newPositions(before []uint64) *positions {
	return &positions{before: before, seen: make([][]uint64, len(before))}
}

// again tells whether the position was decided before, and remembers it.
func (d *positions) again(shard uint32, position uint64) bool {
	if int(shard) >= len(d.before) || position <= d.before[shard] {
		return true
	}
	n := position - d.before[shard] - 1
	if n >= bitsMax {
		return false
	}
	for uint64(len(d.seen[shard])) <= n/64 {
		d.seen[shard] = append(d.seen[shard], 0)
	}
	bit := uint64(1) << (n % 64)
	again := d.seen[shard][n/64]&bit != 0
	d.seen[shard][n/64] |= bit
	return again
}
