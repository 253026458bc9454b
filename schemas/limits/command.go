package limits

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// The range of an effective time, and of the end of a hold. ClickHouse's DateTime64 starts in 1900; the upper end is what tells a plausible time from
// milliseconds that were sent as seconds.
var (
	EffectiveTimeMin = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	EffectiveTimeMax = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Command checks everything about a command that can be told without the account: ids, operation, amount, currency, terms, texts, times.
// It returns REASON_UNSPECIFIED and nil for a good one. Otherwise the reason to reject it with, and an error whose text names the field
// and what to write instead. The first problem is the one reported. Of a good command an outcome can be recorded (Recordable).
//
// A number of more than 18 digits is LIMIT_EXCEEDED, like a balance beyond them; every other bad amount is INVALID_AMOUNT.
func Command(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	if err := commandID(cmd); err != nil {
		return ledgerv1.Reason_REASON_INVALID_COMMAND_ID, fmt.Errorf("command id: %w", err)
	}
	for _, check := range checks {
		if r, err := check(cmd); err != nil {
			return r, err
		}
	}
	return ledgerv1.Reason_REASON_UNSPECIFIED, nil
}

// checks are in the order in which a caller fills a command in.
var checks = [...]func(*ledgerv1.Command) (ledgerv1.Reason, error){
	operation, origin, accounts, amount, currency, legs, openTerms, limitTerms, holdTerms, holdID, reverseTerms, direction, repairTerms, texts, times,
}

func operation(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_OPERATION
	op := cmd.GetOperation()
	if op == ledgerv1.Operation_OPERATION_UNSPECIFIED {
		return invalid, errors.New("operation: missing; set one, such as debit")
	}
	if !known(op) {
		return invalid, fmt.Errorf("operation: %d is not known to this ledger", op)
	}
	if field := stray(cmd, shapes[op].fields); field != "" {
		return invalid, fmt.Errorf("operation: %s does not take %s; leave it out", OperationName(op), field)
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

// times checks that a time is one, and that an effective time is plausible. The end of a hold goes with its terms.
func times(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_TIME
	for _, field := range [...]struct {
		name string
		time *timestamppb.Timestamp
	}{
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
		if err := plausible(effective); err != nil {
			return invalid, fmt.Errorf("effective_time: %w", err)
		}
	}
	return 0, nil
}
