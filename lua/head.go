package lua

import (
	"crypto/sha1" //nolint:gosec // the hash that Redis offers to scripts; it links, it does not sign (docs/decisions/0003)
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Head is how far a shard is: the one token of truth, in Redis and in the log.
type Head struct {
	// Position is gap-free per shard, from 1; 0 before the first event.
	Position uint64
	// Chain is the hash over everything applied up to Position, 40 hex digits.
	Chain string
}

// Genesis is the head of a shard in which nothing ever happened.
var Genesis = Head{Position: 0, Chain: strings.Repeat("0", 2*sha1.Size)}

// Next is the head after one more event: the same computation as in apply.lua. The fingerprint stands for the account and all else that the
// command says.
func (h Head) Next(commandID string, fingerprint Fingerprint, record string) Head {
	sum := sha1.Sum([]byte(h.Chain + commandID + "\n" + string(fingerprint[:]) + record)) //nolint:gosec // see above
	return Head{Position: h.Position + 1, Chain: hex.EncodeToString(sum[:])}
}

// outboxID is the stream id of the entry that ends at this head. It carries the position and 48 bits of the chain,
// so deleting it by id deletes nothing else (a fork has another chain).
func (h Head) outboxID() string {
	prefix, err := strconv.ParseUint(h.Chain[:12], 16, 64)
	if err != nil {
		panic(fmt.Sprintf("chain %q is not hexadecimal", h.Chain)) // every Head comes from parseHead or Next
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
