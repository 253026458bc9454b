package importer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/producer/importer"
)

// Whatever a file holds, each line is a command that the client would send, or is reported with its number.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{
		header + "c,2013-08-16,transfer,a,b,30.5,USD\n", "\xef\xbb\xbf" + header, "\xff\xfe", "", "\n\n\n", `"`, header + `"` + "\n\"", header + "\r,\r\n",
		"op,command_id,account,currency,floor,ceiling,amount\nopen,c,a,EUR,-5,100,\nset_limits,c,a,,,none,\ndebit,c,a,,,,1\n",
		"op,command_id,account,currency,amount,legs\ndebit,c,a,EUR,3,@x=1.50;@y=z=1.5\ndebit,c,a,EUR,3,;;=\ndebit,c,a,,3,@x=1\n",
		"op,command_id,account,hold_id,expires_at,deadline,requested_at,reverses,allow_overdraft,direction,expected_sequence\n" +
			"hold,c,a,,0001-01-01,9999-12-31,x,,,,\ncapture,c,a,h,,,,,,,\nreverse,c,a,,,,,d,true,,\nfreeze,c,a,,,,,,,both,18446744073709551616\n",
		`{"command_id":"c","operation":"OPERATION_CLOSE","account":"a"}`, `{"commandId":"c","operation":13,"account":"a","origin":{"outcome":{}}}`, `{"legs":[null]}`, "{}\n[]\nnull\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for form, rows := range map[string]importer.Rows{
			"CSV":    importer.ReadCommands(strings.NewReader(text), importer.Options{}),
			"NDJSON": importer.ReadNDJSON(strings.NewReader(text), importer.Options{}),
			"opened": importer.OpenAccounts(importer.ReadCommands(strings.NewReader(text), importer.Options{}), []importer.Overdraft{{Prefix: "a", Floor: "-1"}}),
		} {
			before := 0
			for row, err := range rows {
				var line *importer.LineError
				switch {
				case err != nil && !errors.As(err, &line):
					continue // the file as a whole; nothing comes after it
				case row.Line < before:
					t.Fatalf("%s: line %d after line %d", form, row.Line, before)
				case err == nil && producer.Check(row.Command) != nil:
					t.Fatalf("%s: line %d gives %v: %v", form, row.Line, row.Command, producer.Check(row.Command))
				case err != nil && (line.Text == "" || line.Line != row.Line):
					t.Fatalf("%s: line %d: %v", form, row.Line, line)
				}
				before = row.Line
			}
		}
	})
}
