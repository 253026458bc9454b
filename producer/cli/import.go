package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/producer/importer"
	"github.com/spf13/cobra"
)

type importFlags struct {
	file, statements, idPrefix, output string
	overdrafts, units                  []string
	dryRun, openAccounts               bool
}

func newImport(connect connector) *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Send a file of commands, or bank statements",
		Long: `Send a file of commands, or bank statements, and count what became of them.

A CSV file of commands has the columns command_id, op, account, and those that its operations need of: ` + strings.Join(importer.OptionalColumns, ", ") + `.
Amounts are in major units (12.50); legs are written @fees=0.30;@shop=12.20.

A file that ends in .ndjson or .jsonl holds one ledger.v1.Command per line, in Protobuf's JSON, amounts in minor units ("1250").

With --statements, FILE holds the entries (statement, line, date, direction, amount) of statements (statement, account,
currency, opening_balance, closing_balance, entries).

Bad lines are reported on standard error with their number and reason, good ones go on. Command ids follow from the file,
so importing it again changes nothing: what went in before counts as already known.

Exit status: 0 all lines are in the ledger, 4 not all, 5 an outcome is unknown (run it again), 1 error, 2 usage.`,
		Example: `  producer import --dry-run commands.csv
  producer import --open-accounts --overdraft Liabilities:=-1000000.00 commands.csv
  producer import --open-accounts --overdraft bank-=-10000000 --unit DEM=DEM/2 --statements statements.csv entries.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("import takes one file, got %d; see producer import --help", len(args))
			}
			f.file = args[0]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, connect) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.statements, "statements", "", "file with the statements that the entries in FILE.csv belong to")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read and check everything, connect to nothing")
	flags.BoolVar(&f.openAccounts, "open-accounts", false, "open each account before its first command, and before the first transfer to it")
	flags.StringArrayVar(&f.overdrafts, "overdraft", nil, "PREFIX=FLOOR: floor, in major units, of accounts opened with this prefix; repeatable")
	flags.StringArrayVar(&f.units, "unit", nil, "CODE=UNIT: how to read a currency that ISO 4217 does not list, as in DEM=DEM/2; repeatable")
	flags.StringVar(&f.idPrefix, "id-prefix", "statement:", "begins the command ids of statements; files with the same statement numbers need different ones")
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *importFlags) run(cmd *cobra.Command, connect connector) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	rows, err := f.rows()
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.check(cmd, rows)
	}
	total, err := count(rows)
	if err != nil {
		return err
	}
	client, err := connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	progress := newProgress(cmd.ErrOrStderr(), total)
	summary, err := importer.Run(cmd.Context(), client, rows, progress.result)
	progress.end()
	if printErr := printSummary(cmd.OutOrStdout(), f.output, summary); err == nil {
		err = printErr
	}
	if err != nil {
		return exitCode(err)
	}
	return verdict(summary)
}

// verdict is nil where everything went in.
func verdict(s importer.Summary) error {
	if s.Clean() {
		return nil
	}
	return run.WithExitCode(fmt.Errorf("not everything went in as the file says: %d rejected, %d bad, %d balances differ",
		s.Rejected, s.Bad, s.Differed), exitRejected)
}

// check is the dry run.
func (f *importFlags) check(cmd *cobra.Command, rows importer.Rows) error {
	var good, bad int
	for _, err := range rows {
		var line *importer.LineError
		switch {
		case errors.As(err, &line):
			bad++
			cmd.PrintErrln(line)
		case err != nil:
			return err
		default:
			good++
		}
	}
	var err error
	if f.output == outputJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]int{"commands": good, "bad": bad})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d commands would be sent, %d lines are bad\n", good, bad)
	}
	if err == nil && bad > 0 {
		err = run.WithExitCode(fmt.Errorf("%d lines are bad", bad), exitRejected)
	}
	return err
}

// count reads the file once to know how long it is. What is wrong with it is told by the second reading.
func count(rows importer.Rows) (int, error) {
	n := 0
	for _, err := range rows {
		var line *importer.LineError
		if err != nil && !errors.As(err, &line) {
			return 0, err
		}
		n++
	}
	return n, nil
}

// rows can be read several times: each opens the files anew.
func (f *importFlags) rows() (importer.Rows, error) {
	options := importer.Options{File: f.file, StatementsFile: f.statements, IDPrefix: f.idPrefix, Units: map[string]string{}}
	for _, s := range f.units {
		code, unit, ok := strings.Cut(s, "=")
		if !ok || code == "" || unit == "" {
			return nil, usagef("--unit %.80q: want CODE=UNIT, as in DEM=DEM/2", s)
		}
		options.Units[code] = unit
	}
	var overdrafts []importer.Overdraft
	for _, s := range f.overdrafts {
		o, err := importer.ParseOverdraft(s)
		if err != nil {
			return nil, usagef("--%v", err)
		}
		overdrafts = append(overdrafts, o)
	}
	for _, name := range []string{f.file, f.statements} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err != nil {
			return nil, err
		} else if !info.Mode().IsRegular() {
			return nil, usagef("%s is no regular file; it is read twice", name)
		}
	}
	rows := f.read(options)
	if f.openAccounts {
		rows = importer.OpenAccounts(rows, overdrafts)
	} else if len(overdrafts) > 0 {
		return nil, usagef("--overdraft goes with --open-accounts: a floor is set when the account is opened")
	}
	return rows, nil
}

func (f *importFlags) read(options importer.Options) importer.Rows {
	return func(yield func(importer.Row, error) bool) {
		file, err := os.Open(f.file)
		if err != nil {
			yield(importer.Row{}, err)
			return
		}
		defer file.Close() //nolint:errcheck // only read
		switch ending := strings.ToLower(filepath.Ext(f.file)); {
		case f.statements != "":
		case ending == ".ndjson" || ending == ".jsonl":
			importer.ReadNDJSON(file, options)(yield)
			return
		default:
			importer.ReadCommands(file, options)(yield)
			return
		}
		statements, err := os.Open(f.statements)
		if err != nil {
			yield(importer.Row{}, err)
			return
		}
		defer statements.Close() //nolint:errcheck // only read
		importer.ReadStatements(statements, file, options)(yield)
	}
}

type summaryJSON struct {
	Applied      int `json:"applied"`
	AlreadyKnown int `json:"already_known"`
	Rejected     int `json:"rejected"`
	Bad          int `json:"bad"`
	Unknown      int `json:"unknown"`
	Agreed       int `json:"balances_agreed"`
	Differed     int `json:"balances_differed"`
}

func printSummary(w io.Writer, output string, s importer.Summary) error {
	if output == outputJSON {
		return json.NewEncoder(w).Encode(summaryJSON(s))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(n int, what string) { _, _ = fmt.Fprintf(table, "%d\t %s\n", n, what) } // Flush reports the error
	line(s.Applied, "applied")
	line(s.AlreadyKnown, "already known")
	line(s.Rejected, "rejected")
	line(s.Bad, "bad lines")
	line(s.Unknown, "unknown")
	if s.Agreed+s.Differed > 0 {
		line(s.Agreed, "closing balances agree")
		line(s.Differed, "closing balances differ")
	}
	return table.Flush()
}
