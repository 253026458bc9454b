package limits

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

// SequenceMax is the last sequence that a repair may name: the script counts on from it, and its records hold 15 digits.
// No account gets near it by counting.
const SequenceMax = 99_999_999_999_999

// The shapes of what a repair compares Redis with. A unit is only as strict as what Redis can have been made to hold: it may differ
// from every known one, which is what is being repaired.
var (
	generationShape = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	seenUnitShape   = regexp.MustCompile(`^[A-Z0-9_]{1,16}/[0-9]{1,2}$`)
	seenStatusShape = regexp.MustCompile(`^[a-z_]{0,32}$`)
)

// statuses are those of an account. Empty stands for "active": snapshots older than statuses have none.
var statuses = []string{"", "active", "frozen_debit", "frozen_credit", "frozen", "closed"}

// repairTerms checks a repair. What the log says will be written to Redis, so it must be an account that the ledger itself could have made.
// What was seen is compared and never written, but it must be a record that can be read: one that cannot be is mended by a rebuild.
func repairTerms(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if cmd.GetOperation() != ledgerv1.Operation_OPERATION_REPAIR {
		return 0, nil
	}
	const invalid = ledgerv1.Reason_REASON_INVALID_REPAIR
	terms := cmd.GetRepair()
	if terms.GetLog() == nil {
		return invalid, errors.New("repair: missing what the log says; set repair.log")
	}
	if err := validSnapshot(terms.GetLog()); err != nil {
		return invalid, fmt.Errorf("repair.log: %w", err)
	}
	if seen := terms.GetSeen(); seen != nil {
		if err := readableSnapshot(seen); err != nil {
			return invalid, fmt.Errorf("repair.seen: %w", err)
		}
	}
	if !generationShape.MatchString(terms.GetGeneration()) {
		return invalid, fmt.Errorf("repair.generation: %.80q is not 1 to 64 letters, digits and hyphens; take it from the shard's head", terms.GetGeneration())
	}
	for _, id := range [...]struct{ field, id string }{
		{"run_id", terms.GetRunId()},
		{"break_id", terms.GetBreakId()},
	} {
		if err := ValidID(id.id); err != nil {
			return invalid, fmt.Errorf("repair.%s: %w", id.field, err)
		}
	}
	return 0, nil
}

// readableSnapshot tells what the script could not read in a record.
func readableSnapshot(s *ledgerv1.AccountSnapshot) error {
	if s.GetSequence() > SequenceMax {
		return fmt.Errorf("sequence %d; at most %d is possible", s.GetSequence(), uint64(SequenceMax))
	}
	for _, amount := range [...]struct{ field, digits string }{
		{"balance", s.GetBalance()}, {"held", s.GetHeld()}, {"floor", s.GetFloor()},
	} {
		if _, err := money.ParseMinor(amount.digits); err != nil {
			return fmt.Errorf("%s: %w", amount.field, err)
		}
	}
	if s.GetCeiling() != "" {
		if _, err := money.ParseMinor(s.GetCeiling()); err != nil {
			return fmt.Errorf("ceiling: %w", err)
		}
	}
	if !seenStatusShape.MatchString(s.GetStatus()) {
		return fmt.Errorf("status %.40q: not a word, such as %q", s.GetStatus(), "active")
	}
	if !seenUnitShape.MatchString(s.GetUnit()) {
		return fmt.Errorf("unit %.40q: not a code and its exponent, such as %q", s.GetUnit(), "USD/2")
	}
	return nil
}

func validSnapshot(log *ledgerv1.AccountSnapshot) error {
	if log.GetSequence() == 0 {
		return errors.New("sequence 0; an account starts at 1, when it is opened")
	}
	if log.GetSequence() > SequenceMax {
		return fmt.Errorf("sequence %d; at most %d is possible", log.GetSequence(), uint64(SequenceMax))
	}
	if _, err := money.ParseMinor(log.GetBalance()); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	held, err := money.ParseMinor(log.GetHeld())
	if err != nil {
		return fmt.Errorf("held: %w", err)
	}
	if held < 0 {
		return errors.New("held: below zero")
	}
	if _, err := validFloor(log.GetFloor()); err != nil {
		return err
	}
	if log.GetCeiling() != "" {
		if _, err := validCeiling(log.GetCeiling()); err != nil {
			return err
		}
	}
	if !slices.Contains(statuses, log.GetStatus()) {
		return fmt.Errorf("status %.40q: none of an account's", log.GetStatus())
	}
	unit, err := money.ParseUnit(log.GetUnit())
	if err != nil {
		return fmt.Errorf("unit: %w", err)
	}
	if unit.String() != log.GetUnit() {
		return fmt.Errorf("unit %q: write it with its exponent, %q", log.GetUnit(), unit)
	}
	return nil
}
