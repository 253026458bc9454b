package lua

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// An outcome record is written by apply.lua, remembered in the outcome buckets and hashed into the log's chain (link.go): the time of decision (ms, 6 bytes,
// big-endian), then "<position> <delta, or REASON of a rejection> <account record or ->" and what it booked (tail.go).
// An account record is "<balance>[:<held>] <sequence> <unit>[ <floor>[:<ceiling>] <status>]". What is in brackets is left out where nothing is held, and where
// floor, ceiling and status are those of most accounts: 0, none and active.

const (
	noAccount    = "-"
	reasonPrefix = "REASON_"
	timeBytes    = 6
	timeMax      = 1<<(8*timeBytes) - 1 // ms; the year 10889
	nothingHeld  = "0"
	noFloor      = "0"
	active       = "active"
)

// Account is one controlled account as Redis has it. Amounts are minor units.
type Account struct {
	ID       string
	Balance  int64
	Held     int64
	Floor    int64
	Ceiling  string // "" where there is none
	Sequence uint64
	Unit     string // "USD/2"
	Status   string // active, "frozen_debit", "frozen_credit", "frozen", "closed"
}

var unitShape = regexp.MustCompile(`^[A-Z0-9_]+/[0-9]+$`)

var statuses = map[string]bool{active: true, "frozen_debit": true, "frozen_credit": true, "frozen": true, "closed": true}

// Record is the account as Redis has it; ParseAccount reads it.
func (a Account) Record() string {
	return stateRecord(&ledgerv1.AccountState{
		Balance: strconv.FormatInt(a.Balance, 10), Held: strconv.FormatInt(a.Held, 10), Floor: strconv.FormatInt(a.Floor, 10), Ceiling: a.Ceiling,
		Sequence: a.Sequence, Unit: a.Unit, Status: a.Status,
	})
}

// ParseAccount reads an account record. Like include/account.lua it takes only what this ledger would have written.
func ParseAccount(id, record string) (Account, error) {
	state := &ledgerv1.AccountState{}
	if err := parseState(state, record); err != nil {
		return Account{}, fmt.Errorf("account %q: %w", id, err)
	}
	a := Account{ID: id, Ceiling: state.GetCeiling(), Sequence: state.GetSequence(), Unit: state.GetUnit(), Status: state.GetStatus()}
	var errBalance, errHeld, errFloor, errCeiling error
	a.Balance, errBalance = money.ParseMinor(state.GetBalance())
	a.Held, errHeld = money.ParseMinor(state.GetHeld())
	a.Floor, errFloor = money.ParseMinor(state.GetFloor())
	if a.Ceiling != "" {
		_, errCeiling = money.ParseMinor(a.Ceiling)
	}
	if err := errors.Join(errBalance, errHeld, errFloor, errCeiling); err != nil {
		return Account{}, fmt.Errorf("account %q: %w", id, err)
	}
	written := stateRecord(state) == record && !strings.HasPrefix(a.Ceiling, "-") && unitShape.MatchString(a.Unit)
	if !written || a.Sequence > sequenceMax || !statuses[a.Status] {
		return Account{}, fmt.Errorf("account %q: record %q is not one of apply.lua", id, record)
	}
	return a, nil
}

// parseState fills an empty state.
func parseState(s *ledgerv1.AccountState, record string) error {
	f := [5]string{3: noFloor, 4: active}
	if n := splitWords(f[:], record); n != 3 && n != 5 {
		return fmt.Errorf("record %q has %d fields, not 3 or 5", record, n)
	}
	sequence, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return fmt.Errorf("record %q: sequence: %w", record, err)
	}
	var holds bool
	if s.Balance, s.Held, holds = strings.Cut(f[0], ":"); !holds {
		s.Held = nothingHeld
	}
	s.Sequence, s.Unit, s.Status = sequence, f[2], f[4]
	s.Floor, s.Ceiling, _ = strings.Cut(f[3], ":")
	s.Available = available(s.Balance, s.Held, s.Floor)
	return nil
}

// splitWords fills words with those of a line, and returns how many the line has, though it be more.
func splitWords(words []string, line string) int {
	for n := 0; ; n++ {
		word, rest, more := strings.Cut(line, " ")
		if n < len(words) {
			words[n] = word
		}
		if line = rest; !more {
			return n + 1
		}
	}
}

// available = balance - held - floor; "" where one of them is no amount.
func available(balance, held, floor string) string {
	b, errBalance := strconv.ParseInt(balance, 10, 64)
	if held == "0" && floor == "0" && errBalance == nil && b > 0 && balance[0] > '0' {
		return balance // most accounts, and no text to make
	}
	h, errHeld := strconv.ParseInt(held, 10, 64)
	f, errFloor := strconv.ParseInt(floor, 10, 64)
	if errBalance != nil || errHeld != nil || errFloor != nil {
		return ""
	}
	return strconv.FormatInt(b-h-f, 10)
}

func stateRecord(s *ledgerv1.AccountState) string { return string(appendState(nil, s)) }

func appendState(b []byte, s *ledgerv1.AccountState) []byte {
	if s == nil {
		return append(b, noAccount...)
	}
	b = append(b, s.GetBalance()...)
	if s.GetHeld() != nothingHeld {
		b = append(append(b, ':'), s.GetHeld()...)
	}
	b = strconv.AppendUint(append(b, ' '), s.GetSequence(), 10)
	b = append(append(b, ' '), s.GetUnit()...)
	if s.GetFloor() == noFloor && s.GetCeiling() == "" && s.GetStatus() == active {
		return b
	}
	b = append(append(b, ' '), s.GetFloor()...)
	if s.GetCeiling() != "" {
		b = append(append(b, ':'), s.GetCeiling()...)
	}
	return append(append(b, ' '), s.GetStatus()...)
}

// room is what an outcome is read into: those of a call share one piece of memory.
type room struct {
	outcome ledgerv1.Outcome
	after   ledgerv1.AccountState
	decided timestamppb.Timestamp
}

// parseOutcome reads an outcome record of a command into an empty room.
func (m *room) parseOutcome(shard int, commandID, account, record string) (*ledgerv1.Outcome, error) {
	if len(record) < timeBytes {
		return nil, fmt.Errorf("outcome record %q of command %q is cut short", record, commandID)
	}
	number, rest, _ := strings.Cut(record[timeBytes:], " ")
	word, rest, whole := strings.Cut(rest, " ")
	if !whole {
		return nil, fmt.Errorf("outcome record %q of command %q is cut short", record, commandID)
	}
	position, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("outcome record %q of command %q: %w", record, commandID, err)
	}
	o := &m.outcome
	o.Status, o.Delta = ledgerv1.Status_STATUS_APPLIED, word
	if isReason(word) {
		o.Status, o.Delta = ledgerv1.Status_STATUS_REJECTED, "0"
		if o.Reason, err = parseReason(word); err != nil {
			return nil, fmt.Errorf("outcome record %q of command %q: %w", record, commandID, err)
		}
	}
	at := time.UnixMilli(parseTime(record))
	m.decided.Seconds, m.decided.Nanos = at.Unix(), int32(at.Nanosecond())
	o.CommandId, o.Account, o.Shard, o.Position, o.DecidedAt = commandID, account, uint32(shard), position, &m.decided
	state, tail, booked := strings.Cut(rest, "\t")
	if o.Status == ledgerv1.Status_STATUS_APPLIED && state == noAccount || o.Status == ledgerv1.Status_STATUS_REJECTED && booked {
		return nil, fmt.Errorf("outcome record %q of command %q: a rejection that changes something, or the other way round", record, commandID)
	}
	if state != noAccount {
		o.After = &m.after
		if err := parseState(o.After, state); err != nil {
			return nil, fmt.Errorf("outcome of command %q: %w", commandID, err)
		}
	}
	if booked {
		if err := parseTail(o, tail); err != nil {
			return nil, fmt.Errorf("outcome record %q of command %q: %w", record, commandID, err)
		}
	}
	return o, nil
}

// isReason tells the reason of a rejection from a delta.
func isReason(word string) bool { return word != "" && 'A' <= word[0] && word[0] <= 'Z' }

func parseReason(word string) (ledgerv1.Reason, error) {
	reason, ok := ledgerv1.Reason_value[reasonPrefix+word]
	if !ok || reason == 0 {
		return 0, fmt.Errorf("unknown reason %q", word)
	}
	return ledgerv1.Reason(reason), nil
}

// parseTime is the time of decision, ms, with which a record begins.
func parseTime(record string) int64 {
	var padded [8]byte
	copy(padded[len(padded)-timeBytes:], record)
	return int64(binary.BigEndian.Uint64(padded[:]))
}

func appendTime(b []byte, ms int64) []byte {
	var padded [8]byte
	binary.BigEndian.PutUint64(padded[:], uint64(ms))
	return append(b, padded[len(padded)-timeBytes:]...)
}

func outcomeRecord(o *ledgerv1.Outcome) string { return string(appendOutcome(nil, o)) }

func appendOutcome(b []byte, o *ledgerv1.Outcome) []byte {
	b = appendTime(b, o.GetDecidedAt().AsTime().UnixMilli())
	b = append(strconv.AppendUint(b, o.GetPosition(), 10), ' ')
	word := o.GetDelta()
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		word = reasonWord(o.GetReason())
	}
	b = append(append(b, word...), ' ')
	return appendTail(appendState(b, o.GetAfter()), o)
}

func reasonWord(r ledgerv1.Reason) string { return strings.TrimPrefix(r.String(), reasonPrefix) }
