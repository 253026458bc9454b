package model

import "slices"

// Rule is one rule of the protocol that can be left out. The zero Rule leaves out nothing.
type Rule uint8

// The rules, in the order of the protocol.
const (
	nothing Rule = iota
	ApplyComparesChain
	ApplyComparesHead
	KeysBelongTogether
	OutOfSyncRecovers
	PublishOwnEntries
	OffsetsCarryGeneration
	NewGenerationDoubts
	CallbacksFirst
	TellAfterCommit
	AbortRecovers
	UnknownCommitInits
	TrimAfterCommit
	TrimNamesEntries
	TrimComparesChain
	OffsetRequiresStable
	InspectIsAtomic
	HeadBeforeLog
	WaitForStable
	ReadCommitted
	CompareChains
	OutboxLinks
	OutboxCommitsOffset
	ReplayIsConditional
	RewindToOffset
	RebuildRestoresOutcomes
	RebuildClearsOutbox
	RebuildReachesLogsEnd
	RebuildBeside
	BuildIsConditional
	LoadIsConditional
	IdleCheck
	IdleCheckSeesOutbox
	ScriptForgets
	TurnMovesHorizon
	ScriptChecksAge
	StatementCompared
	LookUpIsComplete
	CompletenessFirst
	MarginForClocks
	FutureWaits
	FirstSeenKept
	RebuildKeepsWindow
	ForgottenIsPrefix
	LoadTurnsLast
	OldBucketBelongs
)

func (m *Model) without(r Rule) bool { return m.variant.Rule == r }

// Variant is the protocol with one rule left out, and the faults that show why it is there.
type Variant struct {
	Name string
	Rule Rule
	// Number of the rule as comments in ledger-writer have it.
	Number int
	// What is done instead.
	What string
	// Bounds in which it breaks: command ids, commands of one call, faults as ParseFaults reads them, whether the shard forgets.
	Commands     int
	CallCommands int
	Faults       string
	Forgets      bool
}

// Variants are all wrong protocols.
var Variants = []Variant{
	{"apply-by-position", ApplyComparesChain, 1, "apply compares the position alone", 2, 1, "rollback=1,delay=1,clock=1", false},
	{"apply-unconditional", ApplyComparesHead, 1, "apply compares nothing", 2, 1, "rebalance=1", false},
	{"lost-key-unnoticed", KeysBelongTogether, 2, "apply and inspect trust keys that do not carry the head", 2, 1, "key=1", false},
	{"adopt-redis-head", OutOfSyncRecovers, 4, "OUT_OF_SYNC: go on from Redis's head, without comparing it with the log", 2, 1, "rebalance=1", false},
	{"publish-whole-outbox", PublishOwnEntries, 5, "publish what stands in the outbox, not what the calls returned", 2, 1, "rollback=1", false},
	{"offsets-without-generation", OffsetsCarryGeneration, 6, "the offset commit is not checked against the group's generation", 2, 1, "rebalance=1", false},
	{"silent-newer-generation", NewGenerationDoubts, 6, "the client slips into a newer generation and goes on", 2, 1, "rebalance=2", false},
	{"generation-before-callbacks", CallbacksFirst, 6, "recover in a generation whose revoked and lost shards are not known yet", 2, 1, "rebalance=1", false},
	{"tell-before-commit", TellAfterCommit, 7, "callers are told when Redis has decided", 2, 1, "rollback=1,crash=1,clock=1", false},
	{"abort-goes-on", AbortRecovers, 8, "after an abort: rewind and go on from the believed head", 2, 1, "abort=1", false},
	{"unknown-goes-on", UnknownCommitInits, 8, "after an unknown commit: recover without InitProducerID", 2, 1, "unknown=1", false},
	{"trim-before-commit", TrimAfterCommit, 9, "trim when the events are published", 2, 1, "crash=1", false},
	{"trim-everything", TrimNamesEntries, 9, "trim all that stands in the outbox", 2, 1, "rebalance=1", false},
	{"trim-by-position", TrimComparesChain, 9, "trim entries by their position", 2, 1, "rollback=1,delay=1,clock=1", false},
	{"offset-not-stable", OffsetRequiresStable, 10, "fetch the offset while a transaction is open", 1, 1, "unknown=1,late=1", false},
	{"inspect-twice", InspectIsAtomic, 11, "read head and outbox in two calls", 2, 1, "rebalance=1", false},
	{"log-before-head", HeadBeforeLog, 12, "read the log first, then Redis's head", 2, 1, "rebalance=1", false},
	{"no-wait-for-stable", WaitForStable, 12, "read the log while a transaction is open", 2, 1, "rebalance=1", false},
	{"read-uncommitted", ReadCommitted, 12, "take the last event for committed", 2, 1, "rebalance=1", false},
	{"compare-positions", CompareChains, 13, "compare positions, not chains", 2, 1, "rollback=1,delay=1,clock=1", false},
	{"outbox-unlinked", OutboxLinks, 13, "ahead: publish the outbox without checking its links", 2, 2, "rollback=1,delay=1,clock=1", false},
	{"outbox-unfenced", OutboxCommitsOffset, 13, "ahead: publish the outbox without committing the offset", 2, 1, "rebalance=1", false},
	{"replay-unconditional", ReplayIsConditional, 13, "replay events whatever the head", 2, 1, "rebalance=1", false},
	{"no-rewind", RewindToOffset, 14, "go on polling where the consumer stood", 2, 1, "abort=1", false},
	{"rebuild-without-outcomes", RebuildRestoresOutcomes, 15, "rebuild accounts and head only", 2, 1, "wipe=1", false},
	{"rebuild-keeps-outbox", RebuildClearsOutbox, 15, "rebuild leaves the outbox as it was", 2, 1, "rollback=1,delay=1,clock=1", false},
	{"rebuild-short", RebuildReachesLogsEnd, 15, "rebuild to where ClickHouse is, not to the log's end", 2, 1, "wipe=1", false},
	{"rebuild-in-place", RebuildBeside, 16, "rebuild the live keys, one after the other", 2, 1, "wipe=1", false},
	{"build-unconditional", BuildIsConditional, 16, "fold onto a build whatever its head", 2, 1, "wipe=1,delay=1", false},
	{"load-unconditional", LoadIsConditional, 16, "load from ClickHouse into whatever build there is", 2, 1, "wipe=1,delay=1", false},
	{"no-idle-check", IdleCheck, 17, "an owner without commands does not look at Redis", 2, 1, "wipe=1", false},
	{"idle-check-by-head", IdleCheckSeesOutbox, 17, "the idle check compares the head and leaves the outbox alone", 2, 1, "rollback=1", false},
	{"forget-by-timer", ScriptForgets, 18, "a timer drops the older outcomes, not the script", 1, 1, "clock=2,skew=1,delay=1", true},
	{"turn-keeps-horizon", TurnMovesHorizon, 18, "outcomes are dropped, and the head does not say so", 2, 1, "clock=3", true},
	{"age-checked-by-writer", ScriptChecksAge, 18, "the writer compares a command's age with the horizon, the script does not", 1, 1, "clock=2,delay=1", true},
	{"statement-not-compared", StatementCompared, 18, "a look-up counts, however far back ClickHouse was", 2, 1, "clock=2,skew=1", true},
	{"look-up-incomplete", LookUpIsComplete, 18, "look ids up in a ClickHouse that lags", 2, 1, "clock=3", true},
	{"completeness-after-look-up", CompletenessFirst, 18, "ask for the ids first, then how far ClickHouse is", 2, 1, "clock=3", true},
	{"no-margin", MarginForClocks, 18, "the horizon leaves no margin for clocks that differ", 2, 1, "clock=3,skew=1", true},
	{"decide-the-future", FutureWaits, 18, "decide commands that were first seen later than the writer's clock can explain", 1, 2, "clock=1,jump=2", true},
	{"first-seen-refreshed", FirstSeenKept, 18, "a retry carries a new first-seen time", 2, 1, "clock=3", true},
	{"rebuild-forgets-more", RebuildKeepsWindow, 18, "a rebuild from ClickHouse restores fewer outcomes than its horizon says", 2, 1, "clock=3,wipe=1", true},
	{"rebuild-keeps-suffix", ForgottenIsPrefix, 18, "a rebuild forgets up to the last outcome before the horizon, not up to the first one after it", 2, 1, "skew=1,jump=1,wipe=1", true},
	{"load-turned-at-horizon", LoadTurnsLast, 18, "what a rebuild loads from ClickHouse counts as begun at the horizon", 2, 1, "clock=1,skew=1,wipe=1", true},
	{"lost-old-bucket-unnoticed", OldBucketBelongs, 2, "the older outcomes do not carry the head at which they were closed", 2, 1, "clock=2,key=1", true},
}

// VariantNamed finds a variant.
func VariantNamed(name string) (Variant, bool) {
	i := slices.IndexFunc(Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return Variant{}, false
	}
	return Variants[i], true
}
