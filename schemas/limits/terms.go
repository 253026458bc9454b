package limits

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

// NoCeiling takes the ceiling of an account away.
const NoCeiling = "none"

func openTerms(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	terms := cmd.GetOpen()
	if terms.GetFloor() != "" {
		if r, err := validFloor(terms.GetFloor()); err != nil {
			return r, err
		}
	}
	if terms.GetCeiling() != "" {
		return validCeiling(terms.GetCeiling())
	}
	return 0, nil
}

func limitTerms(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if cmd.GetOperation() != ledgerv1.Operation_OPERATION_SET_LIMITS {
		return 0, nil
	}
	terms := cmd.GetLimits()
	if terms == nil || terms.Floor == nil && terms.Ceiling == nil {
		return ledgerv1.Reason_REASON_INVALID_OPERATION, errors.New("operation: set_limits sets nothing; give limits.floor or limits.ceiling")
	}
	if terms.Floor != nil {
		if r, err := validFloor(terms.GetFloor()); err != nil {
			return r, err
		}
	}
	if terms.Ceiling != nil && terms.GetCeiling() != NoCeiling {
		return validCeiling(terms.GetCeiling())
	}
	return 0, nil
}

func validFloor(floor string) (ledgerv1.Reason, error) {
	v, err := money.ParseMinor(floor)
	switch {
	case errors.Is(err, money.ErrTooLarge):
		return ledgerv1.Reason_REASON_LIMIT_EXCEEDED, fmt.Errorf("floor: %w", err)
	case err != nil:
		return ledgerv1.Reason_REASON_INVALID_FLOOR, fmt.Errorf("floor: %w", err)
	case v > 0:
		return ledgerv1.Reason_REASON_INVALID_FLOOR,
			fmt.Errorf("floor %q: above zero; give \"0\", or a negative number of minor units for an overdraft", floor)
	}
	return 0, nil
}

func validCeiling(ceiling string) (ledgerv1.Reason, error) {
	v, err := money.ParseMinor(ceiling)
	switch {
	case errors.Is(err, money.ErrTooLarge):
		return ledgerv1.Reason_REASON_LIMIT_EXCEEDED, fmt.Errorf("ceiling: %w", err)
	case err != nil:
		return ledgerv1.Reason_REASON_INVALID_CEILING, fmt.Errorf("ceiling: %w", err)
	case v < 0:
		return ledgerv1.Reason_REASON_INVALID_CEILING, fmt.Errorf("ceiling %q: below zero; give \"0\" or more", ceiling)
	}
	return 0, nil
}

// holdTerms checks when a hold expires. Whether that is over already is for the writer's clock to say, but for a time that nobody set.
func holdTerms(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	at := cmd.GetHold().GetExpiresAt()
	if at == nil {
		return 0, nil
	}
	if err := plausible(at); err != nil {
		return ledgerv1.Reason_REASON_INVALID_TIME, fmt.Errorf("hold.expires_at: %w", err)
	}
	if at.AsTime().UnixMilli() <= 0 {
		return ledgerv1.Reason_REASON_HOLD_EXPIRED,
			fmt.Errorf("hold.expires_at: %s is over; leave it out for a hold without an end", at.AsTime().Format(time.RFC3339))
	}
	return 0, nil
}

func holdID(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_HOLD
	if shapes[cmd.GetOperation()].fields&holdIDField == 0 {
		return 0, nil
	}
	if err := validParent(cmd.GetHoldId()); err != nil {
		return invalid, fmt.Errorf("hold_id: %w", err)
	}
	return 0, nil
}

func reverseTerms(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if cmd.GetOperation() != ledgerv1.Operation_OPERATION_REVERSE {
		return 0, nil
	}
	const invalid = ledgerv1.Reason_REASON_INVALID_REVERSAL
	id := cmd.GetReverse().GetCommandId()
	if err := ValidID(id); err != nil {
		return invalid, fmt.Errorf("reverse.command_id: %w", err)
	}
	if Derived(id) {
		return invalid, fmt.Errorf("reverse.command_id: %.40q is the ledger's own; name the command as its caller sent it", id)
	}
	if id == cmd.GetCommandId() {
		return invalid, errors.New("reverse.command_id: is this command itself; name the one to undo")
	}
	return 0, nil
}

// validParent checks the id of a hold as another command names it.
func validParent(id string) error {
	if err := ValidID(id); err != nil {
		return err
	}
	if len(id) > ParentIDBytesMax || Derived(id) {
		return fmt.Errorf("%.40q is no hold's; give the command id of the hold", id)
	}
	return nil
}

func direction(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if shapes[cmd.GetOperation()].fields&directionField == 0 {
		return 0, nil
	}
	switch d := cmd.GetDirection(); d {
	case ledgerv1.Direction_DIRECTION_DEBIT, ledgerv1.Direction_DIRECTION_CREDIT, ledgerv1.Direction_DIRECTION_BOTH:
		return 0, nil
	case ledgerv1.Direction_DIRECTION_UNSPECIFIED:
		return ledgerv1.Reason_REASON_INVALID_DIRECTION, errors.New("direction: missing; set debit, credit or both")
	default:
		return ledgerv1.Reason_REASON_INVALID_DIRECTION, fmt.Errorf("direction: %d is not known; set debit, credit or both", d)
	}
}

// plausible tells what is wrong with a time that the business states.
func plausible(at *timestamppb.Timestamp) error {
	if err := at.CheckValid(); err != nil {
		return err
	}
	if t := at.AsTime(); t.Before(EffectiveTimeMin) || !t.Before(EffectiveTimeMax) {
		return fmt.Errorf("%s is not between %d and %d; are these seconds since 1970?",
			t.Format(time.RFC3339), EffectiveTimeMin.Year(), EffectiveTimeMax.Year())
	}
	return nil
}
