package reconciler

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Standing is an account at a sequence, amounts in minor units.
type Standing struct {
	Sequence uint64
	Balance  *big.Int
	Held     *big.Int
	Terms
}

// Terms are what an account may do.
type Terms struct {
	Unit   string // "USD/2"; empty where unknown
	Limits string // "floor" or "floor:ceiling", minor units
	Status string // "active", "frozen_debit", "frozen_credit", "frozen", "closed"
}

// Floor is the lowest balance allowed.
func (t Terms) Floor() string { floor, _, _ := strings.Cut(t.Limits, ":"); return floor }

// Ceiling is the highest balance that a credit may lead to; empty for none.
func (t Terms) Ceiling() string { _, ceiling, _ := strings.Cut(t.Limits, ":"); return ceiling }

func (t Terms) String() string { return t.Limits + " " + t.Unit + " " + t.Status }

// record is the standing in one line: balance, held, sequence, floor and ceiling, unit, status; "-" where there is none.
func (s *Standing) record() string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s %d %s", s.Balance, s.Held, s.Sequence, s.Terms)
}

// Break is a difference between Redis and the log, or a broken invariant of the log.
type Break struct {
	// ID is derived from the evidence alone, not from the run: two runs that see the same break give it the same id.
	ID    string
	Class Class
	Shard int
	// Account is empty for a break of a whole shard.
	Account string
	// Redis is what was seen, nil where Redis has nothing. Log is what should be: at the sequence that was seen for
	// BALANCE_DIFFERS and TERMS_DIFFER, at the log's last one otherwise; nil where the log has nothing.
	Redis, Log *Standing
	Detail     string
	Action     Action
	Severity   Severity
	// Amount is what is at stake, signed minor units of Unit: what Redis has too much, or what an adjustment would book. nil where
	// the break is not about an amount.
	Amount *big.Int
	Unit   string
	// FirstSeen is when the first run found it: this one or an earlier one.
	FirstSeen time.Time
	// Settled says why the break needs nobody any more: a person accepted it, or its adjustment is booked. Empty while it does.
	Settled string
	// Compensation is nil unless Action is Repair and the run came to issue it (or would have, in a dry run).
	Compensation *Compensation

	// From and To are positions of the shard's log. Where events or rows are wrong, the first and the last of them. Where Redis is wrong, it agrees with
	// the log up to From, and does not at To, which is the end of what was compared if no event came in between. Both 0 where there is no place.
	From, To uint64
	// Accounts and Misstated are of wrong rows in ClickHouse: whose they are, accountsCountedMax at most, and what they say too much, by unit.
	Accounts  map[string]bool
	Misstated map[string]*misstated

	after, before uint64 // sequences of the account that From and To are the positions of; before is 0 where nothing came after
	cause         int    // number in the report

	hold       string   // of a HOLD_STALE
	generation string   // of the shard's keys in Redis when they were read
	complete   bool     // the log's sequences of the account are 1 to the last, each once
	evidence   []string // what the id is made of, where it is not an account in Redis against the log
	anchor     uint64   // BALANCE_DIFFERS, TERMS_DIFFER: the account's last repair at or below what was seen, else 1
}

// relative says that the repair is a difference and not a state: right at any later sequence too, so traffic need not stop.
func (b *Break) relative() bool { return b.Class == BalanceDiffers || b.Class == TermsDiffer }

// fingerprint is the evidence of a break.
//
// An id must be the same for every run that sees the same fault, or two runs would repair it twice. For an account that stands
// still, what was seen and what the log says are the same in both runs. On a hot account they are not: the first run sees it at
// sequence 100 and the second at 120, both 5.00 too high, and two repairs by -5.00 would be one too many. What is the same for both
// is the difference, and the last repair below it (the anchor): as long as the fault is not repaired, no repair of the account
// lies between the two readings; once it is, the anchor moves, and the same difference again is a new fault with a new id.
func (b *Break) fingerprint() string {
	evidence := []string{string(b.Class), fmt.Sprint(b.Shard), b.Account, b.generation}
	switch { // generation is empty where there is evidence of its own: the log's breaks outlive a recovery
	case b.relative():
		balance := new(big.Int).Sub(b.Redis.Balance, b.Log.Balance)
		held := new(big.Int).Sub(b.Redis.Held, b.Log.Held)
		evidence = append(evidence, fmt.Sprint(b.anchor), balance.String(), held.String())
		if b.Class == TermsDiffer { // else they agree, and may change from one run to the next
			evidence = append(evidence, fmt.Sprint(b.Redis.Terms), fmt.Sprint(b.Log.Terms))
		}
	case b.evidence != nil:
		evidence = append(evidence, b.evidence...)
	case b.Redis == nil && b.Log == nil:
		evidence = append(evidence, b.Detail)
	default:
		evidence = append(evidence, b.Redis.record(), b.Log.record())
	}
	var text strings.Builder
	for _, e := range evidence {
		fmt.Fprintf(&text, "%d:%s,", len(e), e)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:16])
}
