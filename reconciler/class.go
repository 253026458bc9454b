package reconciler

import "slices"

// Class is what kind of difference a break is. The words are part of the contract: programs switch on them.
type Class string

// The classes. What is repaired is repaired because the log is whole and says what should be.
const (
	// BalanceDiffers: Redis and the log have another balance, or hold, at the same sequence.
	BalanceDiffers Class = "BALANCE_DIFFERS"
	// TermsDiffer: the floor or the unit is another one than the account was opened with.
	TermsDiffer Class = "TERMS_DIFFER"
	// AccountMissingInRedis: the log opened the account before the reading began, and Redis does not have it.
	AccountMissingInRedis Class = "ACCOUNT_MISSING_IN_REDIS"
	// RedisBehind: the account's sequence in Redis is below what the log had before the reading began.
	// Without an account: Redis's head is below the log's; the ledger-writer replays the tail.
	RedisBehind Class = "REDIS_BEHIND"
	// RedisAhead: the account's sequence in Redis is above anything in the log.
	// Without an account: what Redis decided was never published.
	RedisAhead Class = "REDIS_AHEAD"
	// AccountUnknownToLog: Redis has an account of which the log has no event.
	AccountUnknownToLog Class = "ACCOUNT_UNKNOWN_TO_LOG"
	// AccountUnreadable: the record in Redis is not one that the ledger writes. The ledger-writer rebuilds the shard when it meets it.
	AccountUnreadable Class = "ACCOUNT_UNREADABLE"

	// ProjectionMissing: ClickHouse lacks positions that Kafka has.
	ProjectionMissing Class = "PROJECTION_MISSING"
	// ProjectionDuplicate: ClickHouse has positions more than once.
	ProjectionDuplicate Class = "PROJECTION_DUPLICATE"
	// ProjectionMismatch: ClickHouse has a position with another content than Kafka.
	ProjectionMismatch Class = "PROJECTION_MISMATCH"
	// ProjectionLag: ClickHouse was further behind Kafka than the policy allows, and then caught up.
	ProjectionLag Class = "PROJECTION_LAG"

	// LogGap: sequences of an account are missing in the log.
	LogGap Class = "LOG_GAP"
	// LogDuplicate: a sequence of an account is in the log at two positions.
	LogDuplicate Class = "LOG_DUPLICATE"
	// LogTruncated: Kafka's log ends before what ClickHouse has of it.
	LogTruncated Class = "LOG_TRUNCATED"
	// ChainBroken: an event in Kafka does not follow from the one before it, or its content is not what the chain says.
	ChainBroken Class = "CHAIN_BROKEN"
	// EventUnreadable: no row can be made of an event in Kafka (it has no business date, say). The projector stands still there.
	EventUnreadable Class = "EVENT_UNREADABLE"
	// EventContradictsCommand: an event moved another amount than its command asked for.
	EventContradictsCommand Class = "EVENT_CONTRADICTS_COMMAND"
	// BalanceChainBroken: balance_after is not the balance before plus the delta, and no repair of the account came later.
	BalanceChainBroken Class = "BALANCE_CHAIN_BROKEN"
	// FloorBroken: by the log, a debit took an account below its floor: Redis allowed money that was not there.
	FloorBroken Class = "FLOOR_BROKEN"
	// DuplicateEffect: one command id was applied at two positions.
	DuplicateEffect Class = "DUPLICATE_EFFECT"
	// PostingsNotZero: the postings of a currency do not add up to zero.
	PostingsNotZero Class = "POSTINGS_NOT_ZERO"
	// HoldDiffers: an open hold is not in Redis as the log says, or Redis has one that the log does not know.
	HoldDiffers Class = "HOLD_DIFFERS"
	// HoldStale: a hold is open for longer than the policy allows, or should have ended by itself.
	HoldStale Class = "HOLD_STALE"
	// TransitStale: money is in transit for longer than the policy allows.
	TransitStale Class = "TRANSIT_STALE"
	// DeadLettersUnattended: there are dead letters that nobody has attended to.
	DeadLettersUnattended Class = "DEAD_LETTERS_UNATTENDED"
)

// Action is what is done about a break.
type Action string

// The actions.
const (
	// Wait: it passes by itself.
	Wait Action = "wait"
	// Repair: Redis or ClickHouse is rewritten to match the log. No journal entry.
	Repair Action = "repair"
	// Reversal: a second effect is taken back by a journal entry of its own, once two people agree.
	Reversal Action = "reversal"
	// Adjustment: a journal entry, which a person proposes and another one approves.
	Adjustment Action = "adjustment"
	// Release: a hold is given up, once two people agree.
	Release Action = "release"
	// Stop: nothing automatic; a person looks at the detail.
	Stop Action = "stop"
)

// Severity says how soon a person has to look.
type Severity string

// The severities, in rising order.
const (
	Info     Severity = "info"
	Medium   Severity = "medium"
	High     Severity = "high"
	Critical Severity = "critical"
)

var severities = []Severity{Info, Medium, High, Critical}

// worse is the higher of two severities.
func worse(a, b Severity) Severity {
	return severities[max(slices.Index(severities, a), slices.Index(severities, b), 0)]
}

// nature is what a class is by itself, before amount and age.
type nature struct {
	class  Class
	floor  Severity // the least that a break of the class counts as
	action Action   // what is done where nothing speaks against it
	words  string   // the cause in plain words
}

// natures are all classes, in the order of reports.
var natures = []nature{
	{ChainBroken, Critical, Stop, "an event of the log does not follow from the one before it"},
	{LogTruncated, Critical, Stop, "the log lost its end"},
	{LogGap, Critical, Stop, "the log lacks a change of an account"},
	{LogDuplicate, Critical, Stop, "the log has one change of an account twice"},
	{EventUnreadable, Critical, Stop, "an event of the log cannot be read"},
	{EventContradictsCommand, Critical, Stop, "an event moved another amount than was asked for"},
	{PostingsNotZero, Critical, Stop, "the two sides of all postings do not cancel out"},
	{DuplicateEffect, Critical, Reversal, "one command took effect twice"},
	{FloorBroken, Critical, Adjustment, "an account spent money that it did not have"},
	{RedisAhead, Critical, Repair, "Redis has changes that the log lacks"},
	{AccountUnknownToLog, Critical, Stop, "Redis has an account that nobody opened"},
	{BalanceChainBroken, High, Stop, "balances were reported wrongly for a time"},
	{BalanceDiffers, High, Repair, "Redis has another balance than the log"},
	{TermsDiffer, High, Repair, "Redis has another floor or currency than the account was opened with"},
	{AccountMissingInRedis, High, Repair, "Redis lost an account"},
	{RedisBehind, High, Repair, "Redis lost changes of an account"},
	{AccountUnreadable, High, Stop, "Redis has a record that cannot be read"},
	{ProjectionMissing, High, Repair, "ClickHouse lost rows"},
	{ProjectionDuplicate, High, Repair, "ClickHouse has rows twice"},
	{ProjectionMismatch, High, Repair, "ClickHouse has rows with another content than the log"},
	{HoldDiffers, High, Stop, "Redis has another hold than the log"},
	{HoldStale, Medium, Release, "a hold is open for too long"},
	{TransitStale, Medium, Adjustment, "money is in transit for too long"},
	{DeadLettersUnattended, Medium, Stop, "records that could not be decided wait for a person"},
	{ProjectionLag, Info, Wait, "ClickHouse was late"},
}

// Classes lists all of them.
func Classes() []Class {
	classes := make([]Class, len(natures))
	for i, n := range natures {
		classes[i] = n.class
	}
	return classes
}

func natureOf(c Class) nature {
	for _, n := range natures {
		if n.class == c {
			return n
		}
	}
	return nature{class: c, floor: Critical, action: Stop, words: string(c)}
}

// inRedis says that a repair of the class rewrites an account in Redis, by a command.
func (c Class) inRedis() bool {
	return slices.Contains([]Class{BalanceDiffers, TermsDiffer, AccountMissingInRedis, RedisBehind, RedisAhead}, c)
}

// inProjection says that a repair of the class rewrites rows in ClickHouse.
func (c Class) inProjection() bool {
	return slices.Contains([]Class{ProjectionMissing, ProjectionDuplicate, ProjectionMismatch}, c)
}
