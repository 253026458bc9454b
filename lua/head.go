package lua

import (
	"crypto/sha1" //nolint:gosec // it tells histories apart, it does not sign (docs/decisions/0003)
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Head is how far a shard is in Redis: the one token of truth. The log carries it on the last event of every call.
type Head struct {
	// Position is gap-free per shard, from 1; 0 before the first event.
	Position uint64
	// Chain is the hash over all calls up to Position, 40 hex digits: each hashes the chain before it and what it was given. What a call decides
	// follows from these two, so shards with the same head have the same history.
	Chain string
}

// Genesis is the head of a shard in which nothing ever happened.
var Genesis = Head{Position: 0, Chain: strings.Repeat("0", 2*sha1.Size)}

// nextChain is the chain after a call: of the one before, the writer's clock (ms) and the commands as they were received.
func nextChain(before string, now int64, bodies []byte) string {
	h := sha1.New() //nolint:gosec // see above
	h.Write(fmt.Appendf(nil, "%s\n%d\n", before, now))
	h.Write(bodies)
	return hex.EncodeToString(h.Sum(nil))
}

// outboxID is the stream id of the entry that ends at this head. It carries the position and 48 bits of the chain,
// so deleting it by id deletes nothing else (a fork has another chain).
func (h Head) outboxID() string {
	prefix, err := strconv.ParseUint(h.Chain[:12], 16, 64)
	if err != nil {
		panic(fmt.Sprintf("chain %q is not hexadecimal", h.Chain)) // every Head comes from parseHead or a call
	}
	return fmt.Sprintf("%d-%d", h.Position, prefix)
}

// words is how the scripts write a head that is not the shard's own; "" for none.
func (h Head) words() string {
	if h == (Head{}) {
		return ""
	}
	return fmt.Sprintf("%d %s", h.Position, h.Chain)
}

func (h Head) String() string { return fmt.Sprintf("%d:%.12s", h.Position, h.Chain) }

// parseWords reads what words writes.
func parseWords(words string) (Head, error) {
	position, chain, _ := strings.Cut(words, " ")
	return parseHead(position, chain)
}

func parseHead(position, chain string) (Head, error) {
	p, err := strconv.ParseUint(position, 10, 64)
	if err != nil {
		return Head{}, fmt.Errorf("head: position %q: %w", position, err)
	}
	if raw, err := hex.DecodeString(chain); err != nil || len(raw) != sha1.Size {
		return Head{}, fmt.Errorf("head: chain %q is not %d hex digits", chain, 2*sha1.Size)
	}
	return Head{Position: p, Chain: chain}, nil
}
