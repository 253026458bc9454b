package limits

import (
	"errors"
	"fmt"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

// repairTerms checks a repair. What the log says will be written to Redis, so it must be an account that the ledger itself could have made.
// What was seen is compared and never written, so it may be as broken as Redis was.
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
	for _, id := range [...]struct{ field, id string }{
		{"run_id", terms.GetRunId()},
		{"break_id", terms.GetBreakId()},
	} {
		if err := ValidID(id.id); err != nil {
			return invalid, fmt.Errorf("repair.%s: %w", id.field, err)
		}
	}
	seen := terms.GetSeen()
	for _, text := range [...]textLimit{
		{"generation", terms.GetGeneration(), IDBytesMax},
		{"seen.balance", seen.GetBalance(), IDBytesMax},
		{"seen.held", seen.GetHeld(), IDBytesMax},
		{"seen.floor", seen.GetFloor(), IDBytesMax},
		{"seen.unit", seen.GetUnit(), IDBytesMax},
	} {
		if err := validText(text.text, text.bytesMax); err != nil {
			return invalid, fmt.Errorf("repair.%s: %w", text.field, err)
		}
	}
	return 0, nil
}

func validSnapshot(log *ledgerv1.AccountSnapshot) error {
	if log.GetSequence() == 0 {
		return errors.New("sequence 0; an account starts at 1, when it is opened")
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
	floor, err := money.ParseMinor(log.GetFloor())
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	if floor > 0 {
		return errors.New("floor: above zero")
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
