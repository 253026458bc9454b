package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// ReadNDJSON reads a file of commands as they are on the wire: one ledger.v1.Command per line in Protobuf's JSON, with its field
// names in either spelling, amounts in minor units ("1250" is 12.50 USD). Empty lines are skipped. r is read once, line by line.
func ReadNDJSON(r io.Reader, options Options) Rows {
	return func(yield func(Row, error) bool) {
		// The JSON of a command is longer than the command: names, and bytes that are escaped.
		t := &table{in: bufio.NewReaderSize(r, 2*limits.CommandBytesMax)}
		if err := t.byteOrderMark(); err != nil {
			yield(Row{}, fmt.Errorf("read %s: %w", options.file(), err))
			return
		}
		for {
			text, tooLong, err := t.readLine()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Row{}, fmt.Errorf("read %s: %w", options.file(), err))
				return
			}
			if text == "" && !tooLong {
				continue
			}
			row := Row{File: options.file(), Line: t.line, Command: &ledgerv1.Command{}}
			if !yield(row.or(readJSON(text, tooLong, row.Command))) {
				return
			}
		}
	}
}

func readJSON(text string, tooLong bool, cmd *ledgerv1.Command) *problem {
	if tooLong {
		return problemf(ledgerv1.Reason_REASON_UNSPECIFIED, "longer than %d bytes", 2*limits.CommandBytesMax)
	}
	if err := protojson.Unmarshal([]byte(text), cmd); err != nil {
		return problemf(ledgerv1.Reason_REASON_UNSPECIFIED, "no command in Protobuf's JSON: %v", err)
	}
	return check(cmd)
}
