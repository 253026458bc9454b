package limits

import (
	"strings"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// presence says whether an operation takes a field.
type presence uint8

const (
	never presence = iota
	optional
	required
)

// fields are those that belong to some operations alone.
type fields uint8

const (
	openField fields = 1 << iota
	repairField
	holdField
	holdIDField
	reverseField
	limitsField
	directionField
	legsField
)

// shape says which fields an operation takes. What every operation takes (texts, times, conditions) is not in it.
type shape struct {
	amount, currency, counter presence
	fields                    fields
}

var shapes = [...]shape{
	ledgerv1.Operation_OPERATION_OPEN:       {currency: required, fields: openField},
	ledgerv1.Operation_OPERATION_DEBIT:      {amount: required, currency: required, counter: optional, fields: legsField},
	ledgerv1.Operation_OPERATION_CREDIT:     {amount: required, currency: required, counter: optional, fields: legsField},
	ledgerv1.Operation_OPERATION_REPAIR:     {currency: optional, fields: repairField}, // its snapshot of the log names the unit
	ledgerv1.Operation_OPERATION_HOLD:       {amount: required, currency: required, counter: optional, fields: holdField},
	ledgerv1.Operation_OPERATION_CAPTURE:    {amount: optional, currency: optional, counter: optional, fields: holdIDField | legsField},
	ledgerv1.Operation_OPERATION_RELEASE:    {amount: optional, currency: optional, fields: holdIDField},
	ledgerv1.Operation_OPERATION_TRANSFER:   {amount: required, currency: required, counter: required},
	ledgerv1.Operation_OPERATION_REVERSE:    {amount: optional, currency: optional, fields: reverseField},
	ledgerv1.Operation_OPERATION_SET_LIMITS: {currency: optional, fields: limitsField},
	ledgerv1.Operation_OPERATION_FREEZE:     {currency: optional, fields: directionField},
	ledgerv1.Operation_OPERATION_UNFREEZE:   {currency: optional, fields: directionField},
	ledgerv1.Operation_OPERATION_CLOSE:      {currency: optional},
	ledgerv1.Operation_OPERATION_ADJUST:     {amount: required, currency: required, counter: optional},
	ledgerv1.Operation_OPERATION_RETURN:     {amount: required, currency: required, counter: required},
}

// known tells whether this build has an operation.
func known(op ledgerv1.Operation) bool {
	return op > ledgerv1.Operation_OPERATION_UNSPECIFIED && int(op) < len(shapes)
}

// OperationName returns the word that people and tables use: "set_limits".
func OperationName(op ledgerv1.Operation) string {
	return strings.ToLower(strings.TrimPrefix(op.String(), "OPERATION_"))
}

// stray returns the name of a field that a command has and its operation does not take; "" where there is none.
func stray(cmd *ledgerv1.Command, taken fields) string {
	for _, f := range [...]struct {
		name string
		set  bool
		of   fields
	}{
		{"open", cmd.GetOpen() != nil, openField},
		{"repair", cmd.GetRepair() != nil, repairField},
		{"hold", cmd.GetHold() != nil, holdField},
		{"hold_id", cmd.GetHoldId() != "", holdIDField},
		{"reverse", cmd.GetReverse() != nil, reverseField},
		{"limits", cmd.GetLimits() != nil, limitsField},
		{"direction", cmd.GetDirection() != ledgerv1.Direction_DIRECTION_UNSPECIFIED, directionField},
		{"legs", len(cmd.GetLegs()) > 0, legsField},
	} {
		if f.set && taken&f.of == 0 {
			return f.name
		}
	}
	return ""
}
