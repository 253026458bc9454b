// Package limits says what a command may look like: the byte limits of ids and texts, and the full check of a command
// before it touches an account. The producer checks before it sends, the ledger-writer before it decides: the same function.
package limits

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits, in bytes of UTF-8 unless the name says otherwise.
const (
	// IDBytesMax limits command ids and accounts.
	IDBytesMax = 128
	// ParentIDBytesMax limits the id of a command that the ledger derives others from (hold, transfer, reverse): with a prefix in front of
	// it, it still is an id.
	ParentIDBytesMax = 105
	// ReferenceBytesMax limits the caller's reference.
	ReferenceBytesMax = 256
	// DescriptionBytesMax limits the description.
	DescriptionBytesMax = 1024
	// MetadataEntriesMax limits the number of metadata entries.
	MetadataEntriesMax = 32
	// MetadataEntryBytesMax limits the key and the value of one entry together.
	MetadataEntryBytesMax = 512
	// LegsMax limits the number of counter accounts that one amount is split over.
	LegsMax = 100
	// RequestTextBytesMax limits each text that describes the request and not its effect: source, reply address, trace context.
	RequestTextBytesMax = 256
	// CommandBytesMax limits a whole command on the wire. The readers of ledger.commands check it on the record's value, before they decode.
	CommandBytesMax = 64 << 10
)

// The external accounts that have a meaning to the ledger itself.
const (
	// World is the counter account of a command that names none.
	World = "@world"
	// Transit holds what has left one account of a transfer and has not reached the other: 0 when the ledger is quiet.
	Transit = "@transit"
	// Adjustments is the counter account of an adjustment that names none.
	Adjustments = "@adjustments"
)

// External tells whether an account is external: "@..." has no floor, is never in Redis, and exists only as the other side of a posting.
func External(account string) bool { return strings.HasPrefix(account, "@") }

// ValidID tells what is wrong with a command id or an account: an id is 1 to 128 bytes of UTF-8 without control characters.
// Everything else is allowed, braces, blanks and slashes too.
func ValidID(id string) error {
	switch {
	case id == "":
		return errors.New("empty; give 1 to 128 bytes")
	case len(id) > IDBytesMax:
		return fmt.Errorf("%d bytes long; at most %d are allowed", len(id), IDBytesMax)
	case !utf8.ValidString(id):
		return errors.New("not UTF-8")
	}
	if i := strings.IndexFunc(id, unicode.IsControl); i >= 0 {
		return fmt.Errorf("control character at byte %d; leave it out", i)
	}
	return nil
}
