package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/projector"
	"github.com/hotledger/hotledger/projector/export"
)

// exportCommand is projector export. cfg is resolved from the flags of the whole tree.
func exportCommand(cfg *projector.Config) *cobra.Command {
	var format, file, from, to string
	command := &cobra.Command{
		Use:   "export",
		Short: "Write the books for hledger, beancount, a spreadsheet or a data tool",
		Long: `Writes what ClickHouse has. hledger and beancount get whole books, in which each balance that the ledger stated is asserted; csv, ndjson
and parquet are the postings, with the columns of finance.postings.`,
		Example: `  projector export --format hledger | hledger -f - balance
  projector export --format beancount -o books.beancount && bean-check books.beancount
  projector export --format csv --from 2026-11-01 --to 2026-12-01 -o november.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Resolve(cmd, "projector", cfg, os.Environ()); err != nil {
				return err
			}
			options := export.Options{Format: export.Format(format)}
			for _, bound := range []struct {
				flag, text string
				into       *time.Time
			}{{"from", from, &options.From}, {"to", to, &options.To}} {
				if bound.text == "" {
					continue
				}
				var err error
				if *bound.into, err = time.Parse(time.DateOnly, bound.text); err != nil {
					return fmt.Errorf("--%s %q: want a date such as 2026-11-30", bound.flag, bound.text)
				}
			}
			if err := options.Validate(); err != nil {
				return err
			}
			return toFile(file, cmd.OutOrStdout(), func(out io.Writer) error { return export.Run(cmd.Context(), cfg.ClickHouse, options, out) })
		},
	}
	command.Flags().StringVar(&format, "format", string(export.Hledger), "hledger, beancount, csv, ndjson or parquet")
	command.Flags().StringVarP(&file, "output", "o", "-", "file to write, - for standard output; it is there whole or not at all")
	command.Flags().StringVar(&from, "from", "", "first business date; csv, ndjson and parquet alone")
	command.Flags().StringVar(&to, "to", "", "business date to end before; csv, ndjson and parquet alone")
	return command
}

// toFile writes beside the file and renames at the end, so that nobody takes half an export for a whole one.
func toFile(name string, stdout io.Writer, write func(io.Writer) error) (err error) {
	if name == "-" {
		return write(stdout)
	}
	part, err := os.Create(name + ".part") //nolint:gosec // the caller's own file
	if err != nil {
		return err
	}
	if err := errors.Join(write(part), part.Close()); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return os.Rename(part.Name(), name)
}
