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

// FingerprintOf hashes the fields that say what the command does, each with its length, in a fixed order, so that the encoding
// of the message (field order, unknown fields, map order) does not matter. Left out is what describes the request alone:
// requested_at, source, reply_to, traceparent, and of a repair the run and the break that asked for it.
func FingerprintOf(c *ledgerv1.Command) Fingerprint {
	var room [512]byte // for most commands; hashing many small pieces costs more than copying them
	h := fingerprinter{room[:0]}
	h.text(c.GetAccount())
	h.number(uint64(c.GetOperation()))
	h.text(c.GetAmount())
	h.text(c.GetCurrency())
	h.text(c.GetCounterAccount())
	h.text(c.GetReference())
	h.text(c.GetDescription())
	h.number(uint64(len(c.GetMetadata())))
	if len(c.GetMetadata()) > 0 {
		for _, k := range slices.Sorted(maps.Keys(c.GetMetadata())) {
			h.text(k)
			h.text(c.GetMetadata()[k])
		}
	}
	h.time(c.GetEffectiveTime())
	h.time(c.GetDeadline())
	h.optional(c.ExpectedSequence)
	h.text(c.GetOpen().GetFloor())
	h.text(c.GetOpen().GetCeiling())
	h.time(c.GetHold().GetExpiresAt())
	h.text(c.GetHoldId())
	h.text(c.GetReverse().GetCommandId())
	h.text(strconv.FormatBool(c.GetReverse().GetAllowOverdraft()))
	if limits := c.GetLimits(); limits != nil {
		h.optionalText(limits.Floor)
		h.optionalText(limits.Ceiling)
	}
	h.number(uint64(c.GetDirection()))
	h.number(uint64(len(c.GetLegs())))
	for _, leg := range c.GetLegs() {
		h.text(leg.GetCounterAccount())
		h.text(leg.GetAmount())
	}
	h.text(c.GetOrigin().GetCommandId())
	h.text(c.GetOrigin().GetAccount())
	h.number(uint64(c.GetOrigin().GetReason()))
	if r := c.GetRepair(); r != nil {
		h.snapshot(r.GetSeen())
		h.snapshot(r.GetLog())
		h.text(r.GetGeneration())
	}
	payload, account := sha256.Sum256(h.payload), sha256.Sum256(append(h.payload[:0], c.GetAccount()...))
	var f Fingerprint
	copy(f[:accountBytes], account[:])
	copy(f[accountBytes:], payload[:])
	return f
}

// fingerprinter collects what is hashed.
type fingerprinter struct{ payload []byte }

func (h *fingerprinter) number(n uint64) { h.payload = binary.BigEndian.AppendUint64(h.payload, n) }

func (h *fingerprinter) text(s string) {
	h.number(uint64(len(s)))
	h.payload = append(h.payload, s...)
}

func (h *fingerprinter) optional(n *uint64) {
	if n == nil {
		h.text("")
		return
	}
	h.text("set")
	h.number(*n)
}

func (h *fingerprinter) optionalText(s *string) {
	if s == nil {
		h.text("")
		return
	}
	h.text("set" + *s)
}

func (h *fingerprinter) time(t *timestamppb.Timestamp) {
	if t == nil {
		h.text("")
		return
	}
	h.text("set")
	h.number(uint64(t.GetSeconds()))
	h.number(uint64(t.GetNanos()))
}

func (h *fingerprinter) snapshot(s *ledgerv1.AccountSnapshot) {
	if s == nil {
		h.text("")
		return
	}
	h.text("set")
	h.number(s.GetSequence())
	for _, text := range []string{s.GetBalance(), s.GetHeld(), s.GetFloor(), s.GetUnit(), s.GetCeiling(), s.GetStatus()} {
		h.text(text)
	}
}
