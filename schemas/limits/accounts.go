package limits

import (
	"errors"
	"fmt"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
)

func accounts(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	account := cmd.GetAccount()
	if err := ValidID(account); err != nil {
		return ledgerv1.Reason_REASON_INVALID_ACCOUNT, fmt.Errorf("account: %w", err)
	}
	if External(account) {
		return ledgerv1.Reason_REASON_INVALID_ACCOUNT,
			fmt.Errorf("account: %q is external and can only be the counter account; name the controlled account here", account)
	}
	if err := counterAccount(cmd); err != nil {
		return ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, fmt.Errorf("counter account: %w", err)
	}
	return 0, nil
}

func counterAccount(cmd *ledgerv1.Command) error {
	op, counter := cmd.GetOperation(), cmd.GetCounterAccount()
	switch taken := shapes[op].counter; {
	case taken == never && counter != "":
		return fmt.Errorf("%s has none; leave it out", OperationName(op))
	case taken == required && counter == "":
		return errors.New("missing; name the account that gets the amount")
	case counter == "":
		return nil
	case op != ledgerv1.Operation_OPERATION_TRANSFER:
		return validCounter(op, cmd.GetCommandId(), counter)
	case counter == cmd.GetAccount():
		return fmt.Errorf("%q is the account itself; name the one that gets the amount", counter)
	case External(counter):
		return validCounter(op, cmd.GetCommandId(), counter)
	}
	return ValidID(counter)
}

// validCounter checks the other side of a posting.
func validCounter(op ledgerv1.Operation, commandID, counter string) error {
	if err := ValidID(counter); err != nil {
		return err
	}
	if !External(counter) {
		// Its own balance would not move: only Redis moves a controlled account, and a command has one.
		return fmt.Errorf("%q is controlled; name an external account (\"@...\"), or transfer to it", counter)
	}
	if counter == Transit && !Derived(commandID) && op != ledgerv1.Operation_OPERATION_ADJUST {
		return fmt.Errorf("%q is for amounts that are being transferred; name another external account", counter)
	}
	return nil
}

func amount(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_AMOUNT
	op, digits := cmd.GetOperation(), cmd.GetAmount()
	switch taken := shapes[op].amount; {
	case taken == never && digits != "":
		return invalid, fmt.Errorf("amount: %s moves no money; leave it out", OperationName(op))
	case taken != required && digits == "":
		return 0, nil
	}
	v, err := money.ParseMinor(digits)
	switch {
	case errors.Is(err, money.ErrTooLarge):
		return ledgerv1.Reason_REASON_LIMIT_EXCEEDED, fmt.Errorf("amount: %w", err)
	case err != nil:
		return invalid, err
	case v == 0:
		return invalid, errors.New("amount \"0\": nothing would move; give at least \"1\"")
	case v < 0 && op != ledgerv1.Operation_OPERATION_ADJUST:
		return invalid, fmt.Errorf("amount %q: has a sign; the operation says the direction", digits)
	}
	return 0, nil
}

func currency(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if cmd.GetCurrency() == "" && shapes[cmd.GetOperation()].currency != required {
		return 0, nil // the account knows
	}
	if _, err := money.ParseUnit(cmd.GetCurrency()); err != nil {
		return ledgerv1.Reason_REASON_INVALID_CURRENCY, fmt.Errorf("currency: %w", err)
	}
	return 0, nil
}

// legs checks a split: as many as allowed, each to an external account, together the amount.
func legs(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_LEGS
	switch n := len(cmd.GetLegs()); {
	case n == 0:
		return 0, nil
	case n > LegsMax:
		return invalid, fmt.Errorf("legs: %d of them; at most %d are allowed", n, LegsMax)
	case cmd.GetCounterAccount() != "":
		return invalid, errors.New("legs: each has its counter account; leave counter_account out")
	case cmd.GetAmount() == "":
		return invalid, errors.New("legs: missing what they add up to; give the amount")
	}
	total, err := money.ParseMinor(cmd.GetAmount())
	if err != nil {
		return ledgerv1.Reason_REASON_INVALID_AMOUNT, err // amount has seen to it
	}
	rest := total
	for i, leg := range cmd.GetLegs() {
		if err := validCounter(cmd.GetOperation(), cmd.GetCommandId(), leg.GetCounterAccount()); err != nil {
			return invalid, fmt.Errorf("legs[%d]: counter account: %w", i, err)
		}
		v, err := money.ParseMinor(leg.GetAmount())
		switch {
		case err != nil:
			return invalid, fmt.Errorf("legs[%d]: %w", i, err)
		case v <= 0:
			return invalid, fmt.Errorf("legs[%d]: amount %q: not above zero", i, leg.GetAmount())
		case v > rest: // before it is subtracted: a hundred amounts of 18 digits do not fit an int64
			return invalid, fmt.Errorf("legs: they add up to more than the amount %q", cmd.GetAmount())
		}
		rest -= v
	}
	if rest != 0 {
		return invalid, fmt.Errorf("legs: they add up to %q, not to the amount %q", money.FormatMinor(total-rest), cmd.GetAmount())
	}
	return 0, nil
}
