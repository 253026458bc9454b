package reconciler

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
)

// Class is what kind of difference a break is. The words are part of the contract: programs switch on them.
type Class string

// The classes. What can be repaired is so because the log is whole and says what Redis should hold.
const (
	// BalanceDiffers: Redis and the log have another balance, or hold, at the same sequence. Repaired.
	BalanceDiffers Class = "BALANCE_DIFFERS"
	// TermsDiffer: the floor or the unit is another one than the account was opened with. Repaired.
	TermsDiffer Class = "TERMS_DIFFER"
	// AccountMissingInRedis: the log opened the account before the reading began, and Redis does not have it. Repaired.
	AccountMissingInRedis Class = "ACCOUNT_MISSING_IN_REDIS"
	// RedisBehind: the account's sequence in Redis is below what the log had before the reading began. Repaired.
	// Without an account: Redis's head is below the log's; the ledger-writer replays the tail.
	RedisBehind Class = "REDIS_BEHIND"
	// RedisAhead: the account's sequence in Redis is above anything in the log. Repaired.
	RedisAhead Class = "REDIS_AHEAD"
	// AccountUnknownToLog: Redis has an account of which the log has no event.
	AccountUnknownToLog Class = "ACCOUNT_UNKNOWN_TO_LOG"
	// AccountUnreadable: the record in Redis is not one that the ledger writes. The ledger-writer rebuilds the shard when it meets it.
	AccountUnreadable Class = "ACCOUNT_UNREADABLE"
	// LogGap: positions of a shard, or sequences of an account, are missing in ClickHouse.
	LogGap Class = "LOG_GAP"
	// LogDuplicate: a position of a shard, or a sequence of an account, is in ClickHouse more than once.
	LogDuplicate Class = "LOG_DUPLICATE"
)

// Classes lists all of them.
func Classes() []Class {
	return []Class{
		BalanceDiffers, TermsDiffer, AccountMissingInRedis, RedisBehind, RedisAhead,
		AccountUnknownToLog, AccountUnreadable, LogGap, LogDuplicate,
	}
}

// Action is what is done about a break.
type Action string

// The actions.
const (
	// Repair: Redis is rewritten to match the log, by a command.
	Repair Action = "repair"
	// Stop: nothing automatic; a person looks at the detail.
	Stop Action = "stop"
)

// Standing is an account at a sequence, amounts in minor units.
type Standing struct {
	Sequence uint64
	Balance  *big.Int
	Held     *big.Int
	Floor    *big.Int
	Unit     string // "USD/2"; empty where unknown
}

// record is the standing in the words of a Redis record; "-" where there is none.
func (s *Standing) record() string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s %d %s %s", s.Balance, s.Held, s.Sequence, s.Floor, s.Unit)
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
	// Compensation is nil unless Action is Repair and the run came to issue it (or would have, in a dry run).
	Compensation *Compensation

	generation string // of the shard's keys in Redis when they were read
	complete   bool   // the log's sequences of the account are 1 to the last, each once
	anchor     uint64 // BALANCE_DIFFERS, TERMS_DIFFER: the account's last repair at or below what was seen, else 1
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
	switch {
	case b.relative():
		balance := new(big.Int).Sub(b.Redis.Balance, b.Log.Balance)
		held := new(big.Int).Sub(b.Redis.Held, b.Log.Held)
		evidence = append(evidence, fmt.Sprint(b.anchor), balance.String(), held.String(),
			b.Redis.Floor.String(), b.Redis.Unit, b.Log.Floor.String(), b.Log.Unit)
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
