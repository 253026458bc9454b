package explore

import "slices"

// calmMoves are the moves that are no faults, and the nodes in which all is quiet.
type calmMoves struct {
	moves [][2]uint32 // from, to
	quiet []uint32
}

// restless finds the first node from which no quiet one can be reached.
func (c calmMoves) restless(nodes int) (uint32, bool) {
	into := make([][]uint32, nodes)
	for _, edge := range c.moves {
		into[edge[1]] = append(into[edge[1]], edge[0])
	}
	reaches := make([]bool, nodes)
	queue := c.quiet
	for _, n := range queue {
		reaches[n] = true
	}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range into[n] {
			if !reaches[from] {
				reaches[from] = true
				queue = append(queue, from)
			}
		}
	}
	at := slices.Index(reaches, false)
	return uint32(max(at, 0)), at >= 0
}
