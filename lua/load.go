package lua

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// LoadMax is how many accounts or outcomes one call of load.lua takes: what Lua can unpack, and what Redis writes in about 2 ms.
const LoadMax = 2000

// Chunk is one step of a build, ready to be sent. Chunks are sent once each, in the order in which they were made.
type Chunk struct {
	script *redis.Script
	args   []any
}

// Load fills a new build with a shard as it was at one position: accounts, holds and outcomes in any order of chunks, then Done.
// The build's goroutine uses it, before any event is added.
type Load struct {
	build  *Build
	chunks int
	at     Point // Head: of the last call that has ended
	middle bool  // of a call

	accounts, holds, outcomes int             // rows
	totals                    map[string]bool // by reversed command
	// What was decided before the horizon is not remembered: the outcomes up to forgotten, from the first on.
	horizon   time.Time
	forgotten Head
	// latest decision that was taken: the recent bucket must not be closed at an earlier time.
	latest time.Time
}

// Load begins to fill a build at Genesis, with the outcomes of the store's window before now.
func (b *Build) Load(now time.Time) *Load {
	l := &Load{build: b, at: Origin, totals: map[string]bool{}, horizon: time.UnixMilli(0), forgotten: Genesis}
	if b.store.window > 0 {
		l.horizon = now.Add(-b.store.window)
	}
	return l
}

// At is how far the outcomes have been taken, its Head that of the last call that has ended. Each was checked against the link before it.
func (l *Load) At() Point { return l.at }

// Accounts makes a chunk of at most LoadMax accounts, none of which was in another chunk.
func (l *Load) Accounts(page []Account) (Chunk, error) {
	rows := make([]any, 0, 2*len(page))
	for _, a := range page {
		record := a.Record()
		if _, err := ParseAccount(a.ID, record); err != nil {
			return Chunk{}, fmt.Errorf("load shard %d: %w", l.build.shard, err)
		}
		rows = append(rows, a.ID, record)
	}
	l.accounts += len(page)
	return l.chunk("accounts", rows)
}

// Holds makes a chunk of at most LoadMax open holds, none of which was in another chunk.
func (l *Load) Holds(page []Hold) (Chunk, error) {
	rows := make([]any, 0, 2*len(page))
	for _, h := range page {
		rows = append(rows, h.ID, h.record())
	}
	l.holds += len(page)
	return l.chunk("holds", rows)
}

// Outcomes makes a chunk of the next events, at most LoadMax / 2, in the order of their positions from 1. Each must be what its chain says;
// ErrChainBroken tells that one is not. Their commands are not needed. Those that are forgotten have no row in it.
func (l *Load) Outcomes(page []*ledgerv1.Event) (Chunk, error) {
	rows := make([]any, 0, 2*len(page))
	for _, e := range page {
		record := appendOutcome(nil, e.GetOutcome())
		after, err := linkAfter(l.at.Link, e, record)
		if err != nil {
			return Chunk{}, fmt.Errorf("load shard %d: %w", l.build.shard, err)
		}
		// All outcomes of a call were decided at once, so what is forgotten ends where a call does.
		decided := e.GetOutcome().GetDecidedAt().AsTime()
		forget := l.outcomes == 0 && decided.Before(l.horizon)
		if !forget && l.outcomes == 0 && l.middle {
			return Chunk{}, fmt.Errorf("load shard %d: %w: two times of decision in the call at position %d", l.build.shard, ErrChainBroken, after.Position)
		}
		l.take(e, after, decided)
		if forget {
			l.forgotten = l.at.Head
			continue
		}
		rows = append(rows, OutcomeField(e.GetOutcome().GetCommandId()), string(e.GetFingerprint())+string(record))
		l.outcomes++
		if r := e.GetOutcome().GetReversal(); r != nil {
			rows = append(rows, OutcomeField(r.GetCommandId())+totalSuffix, r.GetTotal())
			l.totals[r.GetCommandId()] = true
		}
	}
	return l.chunk("outcomes", rows)
}

// take notes how far the outcomes are.
func (l *Load) take(e *ledgerv1.Event, link Link, decided time.Time) {
	l.at.Link = link
	point, ends := PointOf(e)
	if l.middle = !ends; ends {
		l.at.Head = point.Head
	}
	if decided.After(l.latest) {
		l.latest = decided
	}
}

func (l *Load) chunk(part string, rows []any) (Chunk, error) {
	if len(rows) > 2*LoadMax {
		return Chunk{}, fmt.Errorf("%d %s in one call, at most %d", len(rows)/2, part, LoadMax)
	}
	before := l.place()
	l.chunks++
	return l.build.loadChunk([]any{before, l.place(), Genesis.Chain, part, "", "", "", "", "", ""}, rows), nil
}

// Done makes the last chunk, with which the build stands at At, and events can be added. The outcomes must end where a call does.
func (l *Load) Done() (Chunk, error) {
	if l.middle {
		return Chunk{}, fmt.Errorf("load shard %d: %w: position %d is in the middle of a call", l.build.shard, ErrChainBroken, l.at.Link.Position)
	}
	l.build.at = l.at
	turned := l.horizon
	if l.build.store.window > 0 && l.latest.After(turned) {
		turned = l.latest
	}
	return l.build.loadChunk([]any{
		l.place(), l.at.Head.Position, l.at.Head.Chain, "last",
		l.accounts, l.holds, l.outcomes + len(l.totals), l.horizon.UnixMilli(), l.forgotten.words(), turned.UnixMilli(),
	}, nil), nil
}

// place is what stands in the build's head instead of a position while it is loaded.
func (l *Load) place() string {
	if l.chunks == 0 {
		return "0"
	}
	return fmt.Sprintf("load:%d", l.chunks)
}

// totalSuffix behind a command's OutcomeField names what was reversed of it (include/reverse.lua).
const totalSuffix = "\n"

func (b *Build) loadChunk(header, rows []any) Chunk {
	return Chunk{script: loadScript, args: append(append([]any{b.generation}, header...), rows...)}
}

// Send puts one chunk into Redis. ErrOutOfSync: the build is not where the chunk belongs, because another recovery began one of its own, or the
// reply to a chunk was lost; begin again.
func (b *Build) Send(ctx context.Context, c Chunk) error {
	reply, err := b.store.run(ctx, c.script, buildKeys(b.shard), c.args...)
	if err == nil && len(reply) == 3 && reply[0] == decidedWord {
		return nil // where it stands in a load is no head
	}
	if err == nil {
		_, _, err = answer(reply)
	}
	if err != nil {
		return fmt.Errorf("build shard %d: %w", b.shard, err)
	}
	return nil
}
