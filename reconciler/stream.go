package reconciler

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
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
}

// logBreaksMax bounds the breaks of one shard's log that are listed; where a chain is broken, much else is.
const logBreaksMax = 100

// readStream reads a shard's log from a mark up to a position, and recomputes every link of the chain, every effect, and a checksum
// of what each event should be in ClickHouse. Memory: one number per 4,096 events.
func (r *reconciliation) readStream(ctx context.Context, shard int, from mark, to uint64) (*reading, error) {
	if from.link.Chain == "" {
		from.link = lua.FirstLink
	}
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
	link, err := lua.LinkAfter(read.end.link, e)
	if err != nil {
		read.report(ChainBroken, e, err.Error())
		link = lua.LinkOf(e) // what follows may follow from this
	}
	if why := contradiction(e); why != "" {
		read.report(EventContradictsCommand, e, why)
	}
	read.end = mark{link: link, offset: l.offset + 1}
	if len(read.breaks) > logBreaksMax {
		return errEnough
	}
	number := (e.GetOutcome().GetPosition() - 1) / stretchPositions
	s := read.stretches[number]
	if s == nil {
		s = &stretch{offset: l.offset}
		read.stretches[number] = s
	}
	text, err := rowText(l)
	if err != nil {
		return fmt.Errorf("event at position %d of shard %d: %w", e.GetOutcome().GetPosition(), read.shard, err)
	}
	s.events++
	s.sum += xxhash.Sum64(text)
	return nil
}

func (read *reading) report(class Class, e *ledgerv1.Event, detail string) {
	o := e.GetOutcome()
	read.breaks = append(read.breaks, &Break{
		Class: class, Shard: read.shard, Account: o.GetAccount(), Action: Stop, Detail: detail, Unit: o.GetAfter().GetUnit(),
		From: o.GetPosition(), To: o.GetPosition(), evidence: []string{strconv.FormatUint(o.GetPosition(), 10), lua.LinkOf(e).Chain},
	})
}

// contradiction says in what an event's effect is not that of its command; "" where it is.
func contradiction(e *ledgerv1.Event) string {
	o, c := e.GetOutcome(), e.GetCommand()
	want := "0"
	if o.GetStatus() == ledgerv1.Status_STATUS_APPLIED {
		switch c.GetOperation() {
		case ledgerv1.Operation_OPERATION_DEBIT:
			want = "-" + c.GetAmount()
		case ledgerv1.Operation_OPERATION_CREDIT:
			want = c.GetAmount()
		case ledgerv1.Operation_OPERATION_OPEN, ledgerv1.Operation_OPERATION_REPAIR:
		default:
			return "" // an operation that this reconciler does not know
		}
	}
	if o.GetDelta() != want {
		return fmt.Sprintf("command %q should move %s minor units, its event at position %d moved %s", o.GetCommandId(), want, o.GetPosition(), o.GetDelta())
	}
	return ""
}

// knownOperations are the ones that a row's checksum tells apart.
const knownOperations = ledgerv1.Operation_OPERATION_REPAIR

// rowText is a row of ledger.events as rowTextSQL spells it, made from the event alone. It is written a second time on purpose,
// independent of the projector's code: what both spell alike is right.
func rowText(l logged) ([]byte, error) {
	o, c := l.event.GetOutcome(), l.event.GetCommand()
	operation := c.GetOperation()
	moves := operation == ledgerv1.Operation_OPERATION_DEBIT || operation == ledgerv1.Operation_OPERATION_CREDIT
	if operation > knownOperations || operation < 0 {
		operation = 0
	}
	sequence, status, why := o.GetAfter().GetSequence(), "1", ""
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		sequence, status, why = 0, "2", reason.Of(o.GetReason()).Code
	}
	counter := c.GetCounterAccount()
	if moves && counter == "" {
		counter = limits.World
	}
	balance, held, floor := "0", "0", "0"
	unit := unitOf(c.GetCurrency())
	if after := o.GetAfter(); after != nil {
		balance, held, floor, unit = after.GetBalance(), after.GetHeld(), after.GetFloor(), after.GetUnit()
	}
	if o.GetDecidedAt() == nil {
		return nil, errors.New("it has no time of decision")
	}
	text := make([]byte, 0, 256)
	for _, word := range []string{
		strconv.FormatUint(o.GetPosition(), 10), o.GetAccount(), strconv.FormatUint(sequence, 10), o.GetCommandId(),
		strconv.Itoa(int(operation)), status, why, counter, unit, o.GetDelta(), balance, held, floor,
		hex.EncodeToString(l.event.GetFingerprint()), hex.EncodeToString(l.event.GetChain()), headText(l.event), strconv.FormatInt(l.offset, 10),
		strconv.FormatInt(o.GetDecidedAt().AsTime().UnixMilli(), 10), c.GetReference(), c.GetDescription(), c.GetSource(), metadataText(c.GetMetadata()),
	} {
		text = append(append(text, word...), '\n')
	}
	return text, nil
}

// headText is the head of an event that ends a call; the column has zeros for the others.
func headText(e *ledgerv1.Event) string {
	if len(e.GetHead()) == 0 {
		return lua.Genesis.Chain
	}
	return hex.EncodeToString(e.GetHead())
}

// rowTextSQL is rowText in ClickHouse. Hashes as hexadecimal: toString of a FixedString drops zero bytes at its end.
const rowTextSQL = `concat(concatWithSeparator('\n', toString(position), account, toString(sequence), command_id,
	toString(if(toInt8(operation) > 4, 0, toInt8(operation))), toString(toInt8(status)), toString(reason), counter_account, toString(unit),
	toString(delta), toString(balance_after), toString(held_after), toString(floor_after), lower(hex(fingerprint)), lower(hex(chain)), lower(hex(head)), toString(log_offset),
	toString(toUnixTimestamp64Milli(decided_at)), reference, description, toString(source),
	arrayStringConcat(arrayMap(k -> concat(k, '=', metadata[k], ';'), arraySort(mapKeys(metadata))))), '\n')`

// unitOf is the unit that a command asked for, "" where that is none.
func unitOf(currency string) string {
	unit, err := money.ParseUnit(currency)
	if err != nil {
		return ""
	}
	return unit.String()
}

func metadataText(metadata map[string]string) string {
	var text strings.Builder
	for _, key := range sortedKeys(metadata) {
		text.WriteString(key + "=" + metadata[key] + ";")
	}
	return text.String()
}
