package projector

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"
)

// cells is a column, or a part of one, as ClickHouse's Native format has it: values one behind the other. Events are written straight into cells, and
// cells go to the server as they are. (ClickHouse docs/en/interfaces/formats/Native, src/DataTypes/Serializations)
type cells []byte

func (c *cells) uint8(n uint8)   { *c = append(*c, n) }
func (c *cells) uint16(n uint16) { *c = binary.LittleEndian.AppendUint16(*c, n) }
func (c *cells) uint32(n uint32) { *c = binary.LittleEndian.AppendUint32(*c, n) }
func (c *cells) uint64(n uint64) { *c = binary.LittleEndian.AppendUint64(*c, n) }
func (c *cells) int64(n int64)   { c.uint64(uint64(n)) }
func (c *cells) bytes(b []byte)  { *c = append(*c, b...) }

func (c *cells) text(s string) {
	if s == "" { // as in most columns of most rows
		*c = append(*c, 0)
		return
	}
	*c = append(binary.AppendUvarint(*c, uint64(len(s))), s...)
}

// nullable is a Nullable column.
type nullable struct{ null, value cells }

func (n *nullable) int64(v optional) {
	null := uint8(1)
	if v.set {
		null = 0
	}
	n.null.uint8(null)
	n.value.int64(v.value)
}

// optional is a number, or none: then it is 0.
type optional struct {
	value int64
	set   bool
}

func (n *nullable) parts() []*cells { return []*cells{&n.null, &n.value} }

// words is a LowCardinality column: a dictionary of few texts, and for each row which one it is.
type words struct {
	head, dictionary, count, keys cells

	texts []string          // of the dictionary
	key   map[string]uint32 // their numbers
	last  uint32            // neighbours are mostly alike
}

func (w *words) text(s string) {
	if len(w.texts) == 0 || s != w.texts[w.last] {
		key, known := w.key[s]
		if !known {
			s, key = strings.Clone(s), uint32(len(w.texts))
			w.texts = append(w.texts, s)
			w.key[s] = key
		}
		w.last = key
	}
	w.keys.uint32(w.last)
}

// What stands before a dictionary: the version, and that the dictionary comes whole, with keys of 32 bits.
const (
	wordsVersion = 1
	wordsWhole   = 1<<9 | 1<<10 | 2
)

// close writes what is known only at the end.
func (w *words) close(rows int) {
	w.head, w.dictionary, w.count = w.head[:0], w.dictionary[:0], w.count[:0]
	w.head.uint64(wordsVersion)
	w.head.uint64(wordsWhole)
	w.head.uint64(uint64(len(w.texts)))
	for _, s := range w.texts {
		w.dictionary.text(s)
	}
	w.count.uint64(uint64(rows))
}

func (w *words) reset() {
	clear(w.texts)
	clear(w.key)
	w.keys, w.texts, w.last = w.keys[:0], w.texts[:0], 0
}

func (w *words) parts() []*cells { return []*cells{&w.head, &w.dictionary, &w.count, &w.keys} }

// body is a block on its way to the server. Its sender may read on for a moment after it has given up: until Close, the block must not change.
type body struct {
	net.Buffers // has WriteTo, by which pieces go out whole instead of through a small buffer
	closed      chan struct{}
	close       func()
}

func newBody(pieces [][]byte) *body {
	b := &body{Buffers: pieces, closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	return b
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.close()
	return nil
}
