package transfer

import "slices"

// Rule is one rule that can be left out, or several, a bit each. The zero Rule leaves out nothing.
type Rule uint32

// The rules.
const (
	DerivedNotBefore Rule = 1 << iota
	DerivedNotAfter
	DerivedIsAsOld
	IDsAreDeterministic
	RefusalReturnsAgain
	TransferCreditsAgain
	FarEndTells
	ReturnTells
	ReturnAlwaysApplied
	NothingFromReused
	ReusedCreditReturns
	ReturnNamesOrigin
	FarEndDecides
	NearEndStays
	RebuildRestoresHolds
	ReplayRestoresHolds
	RebuildRestoresTotals
	ReplayRestoresTotals
	HeldIsNotAvailable
	HoldLimitsCaptures
	TotalsLimitReversals
	CaptureChecksExpiry
	HoldsReadFromRedis

	nothing Rule = 0
)

// Variant is the protocol with one rule left out, and where it breaks.
type Variant struct {
	Name   string
	Rule   Rule
	What   string // is done instead
	Plan   string
	Faults string
}

// Variants are all wrong protocols.
var Variants = []Variant{
	{"derived-before-commit", DerivedNotBefore, "derived commands are sent when Redis has decided", "refused", "0"},
	{"derived-after-commit", DerivedNotAfter, "derived commands are sent after the commit", "crossing", "crash=1"},
	{"derived-id-fresh", IDsAreDeterministic, "each derived command has an id of its own", "crossing", "crash=1"},
	{"derived-asked-now", DerivedIsAsOld, "a derived command counts as first asked for when it is derived, each time", "crossing", "retry=1,clock=1,forget=1"},
	{"refusal-returns-once", RefusalReturnsAgain, "a credit whose refusal is remembered derives no return", "refused", "retry=1"},
	{"transfer-credits-once", TransferCreditsAgain, "a transfer that is remembered derives no credit", "crossing", "retry=1"},
	{"near-end-tells", FarEndTells, "the caller is told when the near end has applied the transfer", "refused", "0"},
	{"refusal-told-by-far-end", ReturnTells, "the far end tells the caller that it refused", "refused", "0"},
	{"return-can-be-refused", ReturnAlwaysApplied, "a return obeys freezes and limits", "refused", "0"},
	{"derived-from-reused", NothingFromReused, "a command that was refused as COMMAND_ID_REUSED derives what the first one did", "changed", "0"},
	{"reused-credit-stays", ReusedCreditReturns, "a credit whose id another transfer has used is dropped", "senders", "0"},
	{"return-id-of-callers-id", ReturnNamesOrigin, "a return's id is made of the caller's id alone", "returns", "0"},
	{"returned-by-timer", FarEndDecides, "the near end returns a transfer of which it has not heard in time", "crossing", "clock=1"},
	{"near-end-reversible", NearEndStays, "a transfer can be reversed at its near end", "reversed", "0"},
	{"rebuild-without-holds", RebuildRestoresHolds, "a rebuild restores accounts and outcomes, not holds", "held", "wipe=1"},
	{"replay-without-holds", ReplayRestoresHolds, "a replay leaves holds as they were", "held", "rollback=1"},
	{"rebuild-without-totals", RebuildRestoresTotals, "a rebuild does not restore how much was reversed", "undone", "wipe=1"},
	{"replay-without-totals", ReplayRestoresTotals, "a replay leaves totals as they were", "undone", "rollback=1"},
	{"held-is-available", HeldIsNotAvailable, "what is held can be spent", "held", "0"},
	{"captures-beyond-hold", HoldLimitsCaptures, "a capture takes what it asks for", "released", "0"},
	{"reversals-beyond-original", TotalsLimitReversals, "each reversal is held against the original alone", "undone", "0"},
	{"expiry-by-owner-alone", CaptureChecksExpiry, "the script captures holds after their end", "held", "clock=1"},
	{"expiry-by-memory-alone", HoldsReadFromRedis, "after a recovery the owner knows no holds", "held", "crash=1,clock=1"},
}

// VariantNamed finds a variant.
func VariantNamed(name string) (Variant, bool) {
	i := slices.IndexFunc(Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return Variant{}, false
	}
	return Variants[i], true
}
