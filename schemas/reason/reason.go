// Package reason is the catalogue of rejections: for each, the word to switch on, what it means, and what the caller can do.
package reason

import (
	"strings"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// Entry is one line of the catalogue.
type Entry struct {
	// Code is the word that logs, tables, JSON and ClickHouse use: "INSUFFICIENT_FUNDS". "" for an applied command.
	Code string
	// Text says what was wrong, in one sentence.
	Text string
	// NextStep says what the caller can do about it, in the imperative.
	NextStep string
}

// NewID ends the next step after a rejection that was recorded. One command id has one outcome for ever, so whatever the caller changes or
// repeats goes out under a new one.
const NewID = " Send it under a new command id: this id keeps this outcome for ever."

var catalogue = map[ledgerv1.Reason]Entry{
	ledgerv1.Reason_REASON_UNSPECIFIED: {
		Text:     "The command was applied.",
		NextStep: "Do nothing; a retry under the same command id gets this same outcome.",
	},
	ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN: {
		Text:     "The account was never opened.",
		NextStep: "Open the account first, or check its id letter by letter." + NewID,
	},
	ledgerv1.Reason_REASON_ACCOUNT_EXISTS: {
		Text:     "The account is open already; its terms were not changed.",
		NextStep: "Use the account as it is; if another command opened it with other terms, choose another account id." + NewID,
	},
	ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS: {
		Text:     "The amount is more than what is available: balance less held less floor. Or the new floor is above balance less held.",
		NextStep: "Credit the account first, or ask for less." + NewID,
	},
	ledgerv1.Reason_REASON_CURRENCY_MISMATCH: {
		Text:     "The account is in another currency than the command.",
		NextStep: "Use the account's own currency, or another account; the ledger never converts." + NewID,
	},
	ledgerv1.Reason_REASON_LIMIT_EXCEEDED: {
		Text:     "The balance would be above the account's ceiling, or is above the new one; or an amount, a limit or the balance after it has more than 18 digits in minor units.",
		NextStep: "Ask for less, raise the ceiling, or split the amount over several accounts." + NewID,
	},
	ledgerv1.Reason_REASON_SEQUENCE_MISMATCH: {
		Text:     "The account is not at the sequence that the command expects: something else changed it in between.",
		NextStep: "Read the account again, decide again on what it says now, and ask with its new sequence." + NewID,
	},
	ledgerv1.Reason_REASON_DEADLINE_PASSED: {
		Text:     "The command was decided after its deadline, so nothing was done.",
		NextStep: "If it is still wanted, ask again with a later deadline." + NewID,
	},
	ledgerv1.Reason_REASON_COMMAND_ID_REUSED: {
		Text:     "The command id is known with another payload. The first outcome stands; this command was not looked at.",
		NextStep: "Choose a new command id for a new request; for a retry, send exactly what was sent the first time.",
	},
	ledgerv1.Reason_REASON_INVALID_COMMAND_ID: {
		Text:     "The command id is not 1 to 128 bytes (of a hold, transfer or reversal 119) of UTF-8 without control characters, or starts with \"@\".",
		NextStep: "Choose an id within these limits, such as a UUID, and send the command again.",
	},
	ledgerv1.Reason_REASON_INVALID_OPERATION: {
		Text:     "The operation is missing, not known to this ledger, or does not go with the fields that were sent.",
		NextStep: "Set the operation, and only the fields that belong to it." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_ACCOUNT: {
		Text:     "The account id is not 1 to 128 bytes of UTF-8 without control characters, or names an external account (\"@...\").",
		NextStep: "Use the id of a controlled account; an external account can only be the counter account." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT: {
		Text:     "The counter account is malformed, is the account itself, or is not of the kind that the operation takes.",
		NextStep: "Name an external account (\"@...\") as the other side of the posting, or leave it out to mean \"@world\"; of a transfer, the account that gets the amount." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_AMOUNT: {
		Text:     "The amount is not a whole number of minor units above zero, or the operation takes none.",
		NextStep: "Send digits alone, without sign, point or leading zero: 12.50 USD is \"1250\"." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_CURRENCY: {
		Text:     "The currency is neither an ISO 4217 code nor a custom unit with its exponent.",
		NextStep: "Send a code such as \"USD\", or a custom unit such as \"POINTS/0\"." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_FLOOR: {
		Text:     "The floor is not \"0\" or a negative whole number of minor units.",
		NextStep: "Leave the floor out for \"0\", or send an overdraft such as \"-500000\"." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_REPAIR: {
		Text:     "The repair does not say in full what the log says and which break asks for it.",
		NextStep: "Let the reconciler issue repairs; if it did, report this as a defect of the ledger." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_TEXT: {
		Text:     "A text field or the metadata is longer than allowed, or not UTF-8.",
		NextStep: "Shorten or correct the field that the detail names." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_TIME: {
		Text:     "A time is not one, or the effective time or the end of a hold is not between 1900 and 2200.",
		NextStep: "Correct the field that the detail names; times are seconds since 1970 and nanoseconds." + NewID,
	},
	ledgerv1.Reason_REASON_ACCOUNT_FROZEN: {
		Text:     "The account is frozen in the direction in which the money would move.",
		NextStep: "Ask whoever froze the account, or have it unfrozen." + NewID,
	},
	ledgerv1.Reason_REASON_ACCOUNT_CLOSED: {
		Text:     "The account is closed, for good.",
		NextStep: "Use another account." + NewID,
	},
	ledgerv1.Reason_REASON_ACCOUNT_NOT_EMPTY: {
		Text:     "The account has a balance or holds, so it cannot be closed.",
		NextStep: "Release or capture its holds and move its balance away, then close it." + NewID,
	},
	ledgerv1.Reason_REASON_HOLD_UNKNOWN: {
		Text:     "The account has no such hold, or nothing is left of it: it was captured or released, or its time was over.",
		NextStep: "Check the account and the hold's id, or hold the amount again." + NewID,
	},
	ledgerv1.Reason_REASON_HOLD_EXCEEDED: {
		Text:     "The amount is more than what is left of the hold.",
		NextStep: "Ask for what is left, by leaving the amount out, or debit the rest on its own." + NewID,
	},
	ledgerv1.Reason_REASON_HOLD_EXPIRED: {
		Text:     "The hold's time is over, or was over before it began.",
		NextStep: "Hold the amount again, with a later end or none." + NewID,
	},
	ledgerv1.Reason_REASON_NOT_REVERSIBLE: {
		Text:     "The command cannot be undone on this account, or not by that much: it is unknown here or too long ago, moved nothing, is itself a reversal or return, is the near end of a transfer, or less is left of it.",
		NextStep: "Check the account and the command's id (a transfer is reversed on the account that received it), or book the opposite as a command of its own." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_CEILING: {
		Text:     "The ceiling is not \"0\" or a positive whole number of minor units.",
		NextStep: "Send digits alone such as \"500000\"; to have no ceiling leave it out of open, and send \"none\" in set_limits." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_HOLD: {
		Text:     "The id of the hold is missing or malformed.",
		NextStep: "Name the hold by the command id that opened it." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_REVERSAL: {
		Text:     "What is to be reversed is missing, malformed, or the reversal itself.",
		NextStep: "Name the command to undo by the id that its caller sent it under." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_LEGS: {
		Text:     "The legs are more than 100, do not add up to the amount, or one of them is malformed.",
		NextStep: "Correct the leg that the detail names; each has an external account and an amount above zero." + NewID,
	},
	ledgerv1.Reason_REASON_INVALID_DIRECTION: {
		Text:     "What is to be frozen or unfrozen is missing, or not known to this ledger.",
		NextStep: "Set the direction to debit, credit or both." + NewID,
	},
}

// Of returns the entry of a reason. For a reason that this build does not know (sent by a newer one) the code is the number.
func Of(r ledgerv1.Reason) Entry {
	if entry, ok := catalogue[r]; ok {
		entry.Code = code(r)
		return entry
	}
	return Entry{
		Code:     r.String(),
		Text:     "This build does not know the reason.",
		NextStep: "Update the client, then look the reason up again.",
	}
}

func code(r ledgerv1.Reason) string {
	if r == ledgerv1.Reason_REASON_UNSPECIFIED {
		return ""
	}
	return strings.TrimPrefix(r.String(), "REASON_")
}
