package limits

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// What the ledger-writer asks for itself goes by an id made of the command that it comes from, so that asking twice is asking once.
const (
	creditPrefix = "@credit/"
	returnPrefix = "@return/"
	undoPrefix   = "@undo/"
	expirePrefix = "@expire/"
)

// CreditID is the id of the credit that brings a transfer to its far end.
func CreditID(transferID string) string { return creditPrefix + transferID }

// ReturnID is the id of the return that puts back what a transfer took that was refused at its far end.
func ReturnID(transferID string) string { return returnPrefix + transferID }

// UndoID is the id of the return that puts back what the reversal of a transfer took. It names the account of the reversal as well: a caller's id
// is one command per shard, and here those of several shards can meet, and with those of transfers.
func UndoID(reversalID, account string) string {
	sum := sha256.Sum256([]byte(account))
	return undoPrefix + hex.EncodeToString(sum[:undoAccountBytes]) + "/" + reversalID
}

// undoAccountBytes of a hash stand for an account.
const undoAccountBytes = 6

// ExpireID is the id of the release of a hold whose time is over.
func ExpireID(holdID string) string { return expirePrefix + holdID }

// Derived tells whether an id is one that the ledger-writer gives. A caller's never is.
func Derived(commandID string) bool { return strings.HasPrefix(commandID, "@") }

// CallersID returns the id that a derived one is made of, and every other id as it is.
func CallersID(commandID string) string {
	if _, id, ok := strings.Cut(strings.TrimPrefix(commandID, undoPrefix), "/"); ok && strings.HasPrefix(commandID, undoPrefix) {
		return id
	}
	for _, prefix := range [...]string{creditPrefix, returnPrefix, expirePrefix} {
		if id, ok := strings.CutPrefix(commandID, prefix); ok {
			return id
		}
	}
	return commandID
}

// Recordable tells whether an outcome can be recorded for a command, were it a rejection: only under an id that is the caller's own, or the
// very one that the ledger derives. Else a caller could spend the id of a transfer's credit before the ledger uses it.
func Recordable(cmd *ledgerv1.Command) bool {
	return commandID(cmd) == nil && ValidID(cmd.GetAccount()) == nil
}

// commandID checks the id, and that it is the caller's own or goes with what the ledger derives under such an id.
func commandID(cmd *ledgerv1.Command) error {
	id := cmd.GetCommandId()
	if err := ValidID(id); err != nil {
		return err
	}
	if Derived(id) {
		return derived(cmd)
	}
	switch cmd.GetOperation() {
	case ledgerv1.Operation_OPERATION_HOLD, ledgerv1.Operation_OPERATION_TRANSFER, ledgerv1.Operation_OPERATION_REVERSE:
		if len(id) > ParentIDBytesMax {
			return fmt.Errorf("%d bytes long; that of a %s has at most %d, since the ledger makes others of it",
				len(id), OperationName(cmd.GetOperation()), ParentIDBytesMax)
		}
	default:
	}
	return nil
}

// derived checks that a command with an "@" id is one that the ledger-writer makes.
func derived(cmd *ledgerv1.Command) error {
	id, op := cmd.GetCommandId(), cmd.GetOperation()
	var want string
	switch {
	case strings.HasPrefix(id, creditPrefix) && op == ledgerv1.Operation_OPERATION_CREDIT:
		want = CreditID(cmd.GetOrigin().GetCommandId())
	case strings.HasPrefix(id, returnPrefix) && op == ledgerv1.Operation_OPERATION_RETURN:
		want = ReturnID(cmd.GetOrigin().GetCommandId())
	case strings.HasPrefix(id, undoPrefix) && op == ledgerv1.Operation_OPERATION_RETURN:
		want = UndoID(cmd.GetOrigin().GetCommandId(), cmd.GetOrigin().GetAccount())
	case strings.HasPrefix(id, expirePrefix) && op == ledgerv1.Operation_OPERATION_RELEASE:
		want = ExpireID(cmd.GetHoldId())
	default:
		return fmt.Errorf("%.40q starts with \"@\", which is for what the ledger itself asks for; choose another", id)
	}
	if id != want {
		return fmt.Errorf("%.40q is not the one that the ledger derives, %.40q", id, want)
	}
	return nil
}

// origin checks that the commands that come from another one say from which, and no others.
func origin(cmd *ledgerv1.Command) (ledgerv1.Reason, error) {
	const invalid = ledgerv1.Reason_REASON_INVALID_OPERATION
	op, from := cmd.GetOperation(), cmd.GetOrigin()
	comesFrom := Derived(cmd.GetCommandId()) && op != ledgerv1.Operation_OPERATION_RELEASE
	switch {
	case !comesFrom && op == ledgerv1.Operation_OPERATION_RETURN:
		return invalid, errors.New("operation: return is the ledger's own; to take a transfer back, reverse it")
	case !comesFrom && from != nil:
		return invalid, errors.New("operation: origin is the ledger's own; leave it out")
	case !comesFrom:
		return 0, nil
	case ValidID(from.GetCommandId()) != nil || Derived(from.GetCommandId()):
		return invalid, fmt.Errorf("operation: origin.command_id %.40q is not a caller's", from.GetCommandId())
	case ValidID(from.GetAccount()) != nil || External(from.GetAccount()) || from.GetAccount() == cmd.GetAccount():
		return invalid, fmt.Errorf("operation: origin.account %.40q is not another controlled account", from.GetAccount())
	case op == ledgerv1.Operation_OPERATION_CREDIT && from.GetReason() != ledgerv1.Reason_REASON_UNSPECIFIED:
		return invalid, errors.New("operation: origin.reason goes with a return")
	case cmd.GetCounterAccount() != Transit || len(cmd.GetLegs()) > 0:
		return ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, fmt.Errorf("counter account: %.40q; what was in transfer comes from %q", cmd.GetCounterAccount(), Transit)
	}
	return 0, nil
}
