package reconciler

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// stretchPositions is how many positions share one checksum: 10 million events are 2,442 numbers, and a wrong one leads to 4,096 rows.
const stretchPositions = 4096

// stretch is a run of positions, (number*stretchPositions, (number+1)*stretchPositions].
type stretch struct {
	events uint64
	sum    uint64 // of the rows' hashes, modulo 2^64
	offset int64  // of the first event in Kafka
}

// mark is how far a shard's log has been verified. The zero mark is the beginning.
type mark struct {
	link   lua.Link
	offset int64 // the first one that is not verified
}

// reading is one pass over a shard's log in Kafka.
type reading struct {
	shard     int
	from      mark
	end       mark
	stretches map[uint64]*stretch
	breaks    []*Break
	row       row    // the last one, used again
	text      []byte // of it
}

// logBreaksMax bounds the breaks of one shard's log that are listed; where a chain is broken, much else is.
const logBreaksMax = 100

// readStream reads a shard's log from a mark up to a position, and recomputes every link of the chain, every effect, and a checksum
// of what each event should be in ClickHouse. Memory: one number per 4,096 events.
func (r *reconciliation) readStream(ctx context.Context, shard int, from mark, to uint64) (*reading, error) {
	read := &reading{shard: shard, from: from, end: from, stretches: map[uint64]*stretch{}}
	if from.link.Position >= to {
		return read, nil
	}
	end, err := r.readEnd(ctx, shard)
	if err != nil {
		return nil, err
	}
	err = r.readLog(ctx, shard, from.offset, end.offset, func(l logged) error {
		if l.event.GetOutcome().GetPosition() > to {
			return errEnough
		}
		return read.add(l)
	})
	if err != nil {
		return nil, err
	}
	return read, nil
}

// add checks one event and counts it.
func (read *reading) add(l logged) error {
	e := l.event
	link, broken := lua.LinkAfter(read.end.link, e)
	unreadable := read.spell(l)
	switch {
	case broken != nil:
		read.report(ChainBroken, e, broken.Error())
		link = lua.LinkOf(e) // what follows may follow from this
	case unreadable != "":
		read.report(EventUnreadable, e, fmt.Sprintf("no row can be made of the event at position %d, so the projector stands still there: %s", link.Position, unreadable))
	default:
		if why := contradiction(e); why != "" {
			read.report(EventContradictsCommand, e, why)
		}
	}
	read.end = mark{link: link, offset: l.offset + 1}
	if len(read.breaks) > logBreaksMax {
		return errEnough
	}
	if unreadable != "" {
		return nil
	}
	number := (link.Position - 1) / stretchPositions
	s := read.stretches[number]
	if s == nil {
		s = &stretch{offset: l.offset}
		read.stretches[number] = s
	}
	s.events++
	s.sum += xxhash.Sum64(read.text)
	return nil
}

// spell makes the text of an event's row, or says why there can be none.
func (read *reading) spell(l logged) string {
	if err := read.row.read(l); err != nil {
		return err.Error()
	}
	if read.text = read.row.appendText(read.text[:0]); !utf8.Valid(read.text) {
		return "it has a text that is not UTF-8"
	}
	return ""
}

func (read *reading) report(class Class, e *ledgerv1.Event, detail string) {
	o := e.GetOutcome()
	read.breaks = append(read.breaks, &Break{
		Class: class, Shard: read.shard, Account: strings.Clone(o.GetAccount()), Action: Stop, Detail: detail, Unit: strings.Clone(o.GetAfter().GetUnit()),
		From: o.GetPosition(), To: o.GetPosition(), evidence: []string{strconv.FormatUint(o.GetPosition(), 10), lua.LinkOf(e).Chain.String()},
	})
}
