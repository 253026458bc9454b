package limits

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The range of an effective time. ClickHouse's DateTime64 starts in 1900; the upper end is what tells a plausible time from
// milliseconds that were sent as seconds.
var (
	EffectiveTimeMin = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	EffectiveTimeMax = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Command checks everything about a command that can be told without the account: ids, operation, amount, currency, terms, texts, times.
// It returns REASON_UNSPECIFIED and nil for a good one. Otherwise the reason to reject it with, and an error whose text names the field
// and what to write instead. The first problem is the one reported, in the order in which a caller fills a command in.
//
// A number of more than 18 digits is LIMIT_EXCEEDED, like a balance beyond them; every other bad amount is INVALID_AMOUNT.
func Command(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if err := ValidID(cmd.GetCommandId()); err != nil {
		return ledgerv1.Reason_REASON_INVALID_COMMAND_ID, fmt.Errorf("command id: %w", err)
	}
	for _, check := range []func(*ledgerv1.Command) (ledgerv1.Reason, error){
		operation, accounts, amount, currency, openTerms, repairTerms, texts, times,
	} {
		if r, err := check(cmd); err != nil {
			return r, err
		}
	}
	return ledgerv1.Reason_REASON_UNSPECIFIED, nil
}

func operation(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_OPERATION
	op := cmd.GetOperation()
	switch op {
	case ledgerv1.Operation_OPERATION_OPEN, ledgerv1.Operation_OPERATION_DEBIT,
		ledgerv1.Operation_OPERATION_CREDIT, ledgerv1.Operation_OPERATION_REPAIR:
	case ledgerv1.Operation_OPERATION_UNSPECIFIED:
		return invalid, errors.New("operation: missing; set open, debit or credit")
	default:
		return invalid, fmt.Errorf("operation: %d is not known to this ledger; set open, debit or credit", op)
	}
	if cmd.GetOpen() != nil && op != ledgerv1.Operation_OPERATION_OPEN {
		return invalid, errors.New("operation: terms of opening go with open alone; leave them out")
	}
	if cmd.GetRepair() != nil && op != ledgerv1.Operation_OPERATION_REPAIR {
		return invalid, errors.New("operation: terms of a repair go with repair alone; leave them out")
	}
	return 0, nil
}

func accounts(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	account, counter := cmd.GetAccount(), cmd.GetCounterAccount()
	if err := ValidID(account); err != nil {
		return ledgerv1.Reason_REASON_INVALID_ACCOUNT, fmt.Errorf("account: %w", err)
	}
	if External(account) {
		return ledgerv1.Reason_REASON_INVALID_ACCOUNT,
			fmt.Errorf("account: %q is external and can only be the counter account; name the controlled account here", account)
	}
	if counter == "" {
		return 0, nil
	}
	if err := ValidID(counter); err != nil {
		return ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, fmt.Errorf("counter account: %w", err)
	}
	if !External(counter) {
		// Its own balance would not move: only Redis moves a controlled account, and a command has one.
		return ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT,
			fmt.Errorf("counter account: %q is controlled; name an external account (\"@...\"), or leave it out for %q", counter, World)
	}
	return 0, nil
}

func amount(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_AMOUNT
	if op := cmd.GetOperation(); op != ledgerv1.Operation_OPERATION_DEBIT && op != ledgerv1.Operation_OPERATION_CREDIT {
		if cmd.GetAmount() != "" {
			return invalid, errors.New("amount: neither open nor repair moves money; leave it out")
		}
		return 0, nil
	}
	v, err := money.ParseMinor(cmd.GetAmount())
	switch {
	case errors.Is(err, money.ErrTooLarge):
		return ledgerv1.Reason_REASON_LIMIT_EXCEEDED, fmt.Errorf("amount: %w", err)
	case err != nil:
		return invalid, err
	case v < 0:
		return invalid, fmt.Errorf("amount %q: has a sign; the operation says the direction", cmd.GetAmount())
	case v == 0:
		return invalid, errors.New("amount \"0\": nothing would move; give at least \"1\"")
	}
	return 0, nil
}

func currency(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if cmd.GetCurrency() == "" && cmd.GetOperation() == ledgerv1.Operation_OPERATION_REPAIR {
		return 0, nil // the snapshot of the log names the unit
	}
	if _, err := money.ParseUnit(cmd.GetCurrency()); err != nil {
		return ledgerv1.Reason_REASON_INVALID_CURRENCY, fmt.Errorf("currency: %w", err)
	}
	return 0, nil
}

func openTerms(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	floor := cmd.GetOpen().GetFloor()
	if floor == "" {
		return 0, nil
	}
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

// textLimit is one text field of a command and how long it may be.
type textLimit struct {
	field    string
	text     string
	bytesMax int
}

func texts(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_TEXT
	for _, limit := range [...]textLimit{
		{"reference", cmd.GetReference(), ReferenceBytesMax},
		{"description", cmd.GetDescription(), DescriptionBytesMax},
		{"source", cmd.GetSource(), RequestTextBytesMax},
		{"reply_to", cmd.GetReplyTo(), RequestTextBytesMax},
		{"traceparent", cmd.GetTraceparent(), RequestTextBytesMax},
	} {
		if err := validText(limit.text, limit.bytesMax); err != nil {
			return invalid, fmt.Errorf("%s: %w", limit.field, err)
		}
	}
	if n := len(cmd.GetMetadata()); n > MetadataEntriesMax {
		return invalid, fmt.Errorf("metadata: %d entries; at most %d are allowed", n, MetadataEntriesMax)
	}
	for key, value := range cmd.GetMetadata() {
		if err := validText(key+value, MetadataEntryBytesMax); err != nil {
			return invalid, fmt.Errorf("metadata entry %.40q: %w", key, err)
		}
		if !utf8.ValidString(key) {
			return invalid, fmt.Errorf("metadata entry %.40q: the key is not UTF-8", key)
		}
	}
	return 0, nil
}

func validText(text string, bytesMax int) error {
	if len(text) > bytesMax {
		return fmt.Errorf("%d bytes long; at most %d are allowed", len(text), bytesMax)
	}
	if !utf8.ValidString(text) {
		return errors.New("not UTF-8")
	}
	return nil
}

// times checks that a time is one, and that an effective time is plausible.
func times(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_TIME
	for _, field := range [...]struct {
		name string
		time *timestamppb.Timestamp
	}{
		{"effective_time", cmd.GetEffectiveTime()},
		{"deadline", cmd.GetDeadline()},
		{"requested_at", cmd.GetRequestedAt()},
	} {
		if field.time == nil {
			continue
		}
		if err := field.time.CheckValid(); err != nil {
			return invalid, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	if effective := cmd.GetEffectiveTime(); effective != nil {
		if t := effective.AsTime(); t.Before(EffectiveTimeMin) || !t.Before(EffectiveTimeMax) {
			return invalid, fmt.Errorf("effective_time: %s is not between %d and %d; are these seconds since 1970?",
				t.Format(time.RFC3339), EffectiveTimeMin.Year(), EffectiveTimeMax.Year())
		}
	}
	return 0, nil
}
