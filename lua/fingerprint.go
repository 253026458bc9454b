package lua

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Fingerprint stands for the payload of a command: what a repeated command id is compared with. 6 bytes of the account's SHA-256, by which a
// reversal knows that what it reverses was on its own account, and 10 bytes of the payload's.
type Fingerprint [16]byte

const accountBytes = 6

// OutcomeField is the field that remembers the outcome of a command in OutcomesKey or OldOutcomesKey: 14 bytes of its id's SHA-256. Ids are of any
// length, and most are of 36 bytes: a hash takes a third of the place. That two of 10^11 ids have the same has a chance of one in 10^12.
func OutcomeField(commandID string) string {
	return string(appendHash(nil, commandID))
}

const idHashBytes = 14

func appendHash(b []byte, commandID string) []byte {
	sum := sumOf(commandID)
	return append(b, sum[:idHashBytes]...)
}

func sumOf(text string) [sha256.Size]byte {
	var room [128]byte // for most ids and accounts
	return sha256.Sum256(append(room[:0], text...))
}

// accountHash is an account's part of the fingerprints of its commands.
type accountHash [accountBytes]byte

func hashOfAccount(account string) accountHash {
	sum := sumOf(account)
	return accountHash(sum[:])
}

// Fingerprints are made of commands that come one after the other: where neighbours are on the same account, it is hashed once.
type Fingerprints struct {
	account []byte // the last one; empty before the first
	hash    accountHash
}

// Of is FingerprintOf.
func (f *Fingerprints) Of(c *ledgerv1.Command) Fingerprint {
	if account := c.GetAccount(); account == "" || account != string(f.account) {
		f.account, f.hash = append(f.account[:0], account...), hashOfAccount(account)
	}
	return f.hash.fingerprint(c)
}

// FingerprintOf hashes the fields that say what the command does, each with its length, in a fixed order, so that the encoding
// of the message (field order, unknown fields, map order) does not matter. Left out is what describes the request alone:
// requested_at, source, reply_to, traceparent, and of a repair the run and the break that asked for it.
func FingerprintOf(c *ledgerv1.Command) Fingerprint {
	return hashOfAccount(c.GetAccount()).fingerprint(c)
}

func (account accountHash) fingerprint(c *ledgerv1.Command) Fingerprint {
	var room [512]byte // for most commands; hashing many small pieces costs more than copying them
	p := hashed(room[:0])
	p = p.text(c.GetAccount())
	p = p.number(uint64(c.GetOperation()))
	p = p.text(c.GetAmount())
	p = p.text(c.GetCurrency())
	p = p.text(c.GetCounterAccount())
	p = p.text(c.GetReference())
	p = p.text(c.GetDescription())
	p = p.number(uint64(len(c.GetMetadata())))
	if len(c.GetMetadata()) > 0 {
		for _, k := range slices.Sorted(maps.Keys(c.GetMetadata())) {
			p = p.text(k)
			p = p.text(c.GetMetadata()[k])
		}
	}
	p = p.time(c.GetEffectiveTime())
	p = p.time(c.GetDeadline())
	p = p.optional(c.ExpectedSequence)
	p = p.text(c.GetOpen().GetFloor())
	p = p.text(c.GetOpen().GetCeiling())
	p = p.time(c.GetHold().GetExpiresAt())
	p = p.text(c.GetHoldId())
	p = p.text(c.GetReverse().GetCommandId())
	p = p.text(strconv.FormatBool(c.GetReverse().GetAllowOverdraft()))
	if limits := c.GetLimits(); limits != nil {
		p = p.optionalText(limits.Floor)
		p = p.optionalText(limits.Ceiling)
	}
	p = p.number(uint64(c.GetDirection()))
	p = p.number(uint64(len(c.GetLegs())))
	for _, leg := range c.GetLegs() {
		p = p.text(leg.GetCounterAccount())
		p = p.text(leg.GetAmount())
	}
	p = p.text(c.GetOrigin().GetCommandId())
	p = p.text(c.GetOrigin().GetAccount())
	p = p.number(uint64(c.GetOrigin().GetReason()))
	if r := c.GetRepair(); r != nil {
		p = p.snapshot(r.GetSeen())
		p = p.snapshot(r.GetLog())
		p = p.text(r.GetGeneration())
	}
	whole := sha256.Sum256(p)
	var f Fingerprint
	copy(f[:accountBytes], account[:])
	copy(f[accountBytes:], whole[:])
	return f
}

// hashed is what is hashed. Its methods return it longer: kept behind a pointer, it would be allocated for every command.
type hashed []byte

func (p hashed) number(n uint64) hashed { return binary.AppendUvarint(p, n) } // most are small: what is hashed is a third as long

func (p hashed) text(s string) hashed {
	if s == "" { // as most are
		return append(p, 0)
	}
	return append(p.number(uint64(len(s))), s...)
}

func (p hashed) optional(n *uint64) hashed {
	if n == nil {
		return p.text("")
	}
	return p.text("set").number(*n)
}

func (p hashed) optionalText(s *string) hashed {
	if s == nil {
		return p.text("")
	}
	return p.text("set" + *s)
}

func (p hashed) time(t *timestamppb.Timestamp) hashed {
	if t == nil {
		return p.text("")
	}
	return p.text("set").number(uint64(t.GetSeconds())).number(uint64(t.GetNanos()))
}

func (p hashed) snapshot(s *ledgerv1.AccountSnapshot) hashed {
	if s == nil {
		return p.text("")
	}
	p = p.text("set").number(s.GetSequence())
	for _, text := range [...]string{s.GetBalance(), s.GetHeld(), s.GetFloor(), s.GetUnit(), s.GetCeiling(), s.GetStatus()} {
		p = p.text(text)
	}
	return p
}
