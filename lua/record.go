package lua

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// An outcome record is one line of words, written by apply.lua, remembered in the outcome buckets and hashed into the log's chain (link.go):
// "<position> <decided at ms> <applied or REASON> <delta> <account record or ->" and what it booked (tail.go).
// An account record is "<balance> <held> <sequence> <floor>[:<ceiling>] <unit> <status>".

const (
	applied       = "applied"
	noAccount     = "-"
	reasonPrefix  = "REASON_"
	recordWords   = 4 // before the account record
	accountFields = 6
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
	Status   string // "active", "frozen_debit", "frozen_credit", "frozen", "closed"
}

var statuses = map[string]bool{"active": true, "frozen_debit": true, "frozen_credit": true, "frozen": true, "closed": true}

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
	written := stateRecord(state) == record && !strings.HasPrefix(a.Ceiling, "-") && a.Unit != "" && !strings.ContainsAny(a.Unit, "\x00\t\n\v\f\r")
	if !written || a.Sequence > sequenceMax || !statuses[a.Status] {
		return Account{}, fmt.Errorf("account %q: record %q is not one of apply.lua", id, record)
	}
	return a, nil
}

// parseState fills an empty state.
func parseState(s *ledgerv1.AccountState, record string) error {
	var f [accountFields]string
	if n := splitWords(f[:], record); n != accountFields {
		return fmt.Errorf("record %q has %d fields, not %d", record, n, accountFields)
	}
	sequence, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil {
		return fmt.Errorf("record %q: sequence: %w", record, err)
	}
	s.Balance, s.Held, s.Sequence, s.Unit, s.Status = f[0], f[1], sequence, f[4], f[5]
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
	b = append(append(b, s.GetBalance()...), ' ')
	b = append(append(b, s.GetHeld()...), ' ')
	b = append(strconv.AppendUint(b, s.GetSequence(), 10), ' ')
	b = append(b, s.GetFloor()...)
	if s.GetCeiling() != "" {
		b = append(append(b, ':'), s.GetCeiling()...)
	}
	b = append(append(b, ' '), s.GetUnit()...)
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
	var f [recordWords]string
	rest := record
	for i := range f {
		var more bool
		if f[i], rest, more = strings.Cut(rest, " "); !more {
			return nil, fmt.Errorf("outcome record %q of command %q is cut short", record, commandID)
		}
	}
	position, errPosition := strconv.ParseUint(f[0], 10, 64)
	decidedAt, errDecided := strconv.ParseInt(f[1], 10, 64)
	status, reason, errWord := parseWord(f[2])
	if errPosition != nil || errDecided != nil || errWord != nil {
		err := errors.Join(errPosition, errDecided, errWord)
		return nil, fmt.Errorf("outcome record %q of command %q: %w", record, commandID, err)
	}
	at := time.UnixMilli(decidedAt)
	m.decided.Seconds, m.decided.Nanos = at.Unix(), int32(at.Nanosecond())
	o := &m.outcome
	o.CommandId, o.Account, o.Status, o.Reason, o.Shard = commandID, account, status, reason, uint32(shard)
	o.Position, o.Delta, o.DecidedAt = position, f[3], &m.decided
	state, tail, booked := strings.Cut(rest, "\t")
	if status == ledgerv1.Status_STATUS_APPLIED && state == noAccount || status == ledgerv1.Status_STATUS_REJECTED && (o.Delta != "0" || booked) {
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

func parseWord(word string) (ledgerv1.Status, ledgerv1.Reason, error) {
	if word == applied {
		return ledgerv1.Status_STATUS_APPLIED, ledgerv1.Reason_REASON_UNSPECIFIED, nil
	}
	reason, ok := ledgerv1.Reason_value[reasonPrefix+word]
	if !ok || reason == 0 {
		return 0, 0, fmt.Errorf("unknown reason %q", word)
	}
	return ledgerv1.Status_STATUS_REJECTED, ledgerv1.Reason(reason), nil
}

func outcomeRecord(o *ledgerv1.Outcome) string { return string(appendOutcome(nil, o)) }

func appendOutcome(b []byte, o *ledgerv1.Outcome) []byte {
	word := applied
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		word = reasonWord(o.GetReason())
	}
	b = append(strconv.AppendUint(b, o.GetPosition(), 10), ' ')
	b = append(strconv.AppendInt(b, o.GetDecidedAt().AsTime().UnixMilli(), 10), ' ')
	b = append(append(b, word...), ' ')
	b = append(append(b, o.GetDelta()...), ' ')
	return appendTail(appendState(b, o.GetAfter()), o)
}

func reasonWord(r ledgerv1.Reason) string { return strings.TrimPrefix(r.String(), reasonPrefix) }
