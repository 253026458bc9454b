package cli

import (
	"fmt"
	"time"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type submitFlags struct {
	id, operation, account, counter, amount, currency, floor string
	reference, description, deadline, effective, output      string
	expectedSequence                                         uint64
}

func newSubmit(connect connector) *cobra.Command {
	f := &submitFlags{}
	cmd := &cobra.Command{
		Use:   "submit",
		Short: "Send one command and print its outcome",
		Example: `  producer submit --operation debit --account alice --amount 12.50 --currency USD --id order-4711
  producer submit --operation open --account bob --currency EUR --floor -500.00 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("submit takes flags alone, not %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return submit(cmd, f, connect) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.operation, "operation", "", "open, debit or credit")
	flags.StringVar(&f.account, "account", "", "the account that changes")
	flags.StringVar(&f.currency, "currency", "", "ISO 4217 code, or a custom unit with its number of decimals (POINTS/0)")
	flags.StringVar(&f.amount, "amount", "", "in major units: 12.50")
	flags.StringVar(&f.counter, "counter-account", "", "the other side (default @world)")
	flags.StringVar(&f.floor, "floor", "", "open: the lowest balance allowed, in major units: 0 or negative")
	flags.StringVar(&f.id, "id", "", "command id; give the same one to retry (default: a new UUID, printed)")
	flags.StringVar(&f.reference, "reference", "", "your own reference")
	flags.StringVar(&f.description, "description", "", "free text")
	flags.StringVar(&f.deadline, "deadline", "", "not applied after: a time (2026-01-31T12:00:00Z) or a duration from now (30s)")
	flags.StringVar(&f.effective, "effective", "", "when the business says it happened: 2026-01-31 or 2026-01-31T12:00:00Z")
	flags.Uint64Var(&f.expectedSequence, "expected-sequence", 0, "apply only if the account stands at this sequence")
	outputFlag(cmd, &f.output)
	return cmd
}

func submit(cmd *cobra.Command, f *submitFlags, connect connector) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	for _, flag := range []string{"operation", "account", "currency"} {
		if !cmd.Flags().Changed(flag) {
			return usagef("--%s is missing; see producer submit --help", flag)
		}
	}
	command, err := f.command(cmd.Flags().Changed("expected-sequence"), time.Now())
	if err != nil {
		return err
	}
	client, err := connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	pending, err := client.Send(cmd.Context(), command)
	if err != nil {
		return exitCode(err)
	}
	if f.id == "" {
		cmd.PrintErrf("command id %s; repeat with --id %[1]s to retry\n", pending.ID())
	}
	outcome, err := pending.Wait(cmd.Context())
	if err != nil {
		return exitCode(err)
	}
	if err := printOutcome(cmd.OutOrStdout(), f.output, outcome, pending.Detail()); err != nil {
		return err
	}
	if outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
		entry := reason.Of(outcome.GetReason())
		return run.WithExitCode(fmt.Errorf("rejected: %s: %s %s", entry.Code, entry.Text, entry.NextStep), exitRejected)
	}
	return nil
}

// command makes the command. What the ledger itself would refuse is left to the SDK, which has the words for it.
func (f *submitFlags) command(withSequence bool, now time.Time) (*ledgerv1.Command, error) {
	command := &ledgerv1.Command{
		CommandId: f.id, Account: f.account, CounterAccount: f.counter, Currency: f.currency,
		Reference: f.reference, Description: f.description,
	}
	if f.id == "" {
		command.CommandId = producer.NewCommandID()
	}
	switch f.operation {
	case "open":
		command.Operation = ledgerv1.Operation_OPERATION_OPEN
	case "debit":
		command.Operation = ledgerv1.Operation_OPERATION_DEBIT
	case "credit":
		command.Operation = ledgerv1.Operation_OPERATION_CREDIT
	default:
		return nil, usagef("--operation %q: want open, debit or credit", f.operation)
	}
	invalid := func(why ledgerv1.Reason, err error) error {
		return exitCode(&producer.InvalidCommandError{CommandID: command.GetCommandId(), Reason: why, Text: err.Error()})
	}
	unit, err := money.ParseUnit(f.currency)
	if err != nil {
		return nil, invalid(ledgerv1.Reason_REASON_INVALID_CURRENCY, err)
	}
	if f.amount != "" {
		minor, err := money.ParseMajor(f.amount, unit)
		if err != nil {
			return nil, invalid(ledgerv1.Reason_REASON_INVALID_AMOUNT, err)
		}
		command.Amount = money.FormatMinor(minor)
	}
	if f.floor != "" {
		minor, err := money.ParseMajor(f.floor, unit)
		if err != nil {
			return nil, invalid(ledgerv1.Reason_REASON_INVALID_FLOOR, err)
		}
		command.Open = &ledgerv1.OpenTerms{Floor: money.FormatMinor(minor)}
	}
	if withSequence {
		command.ExpectedSequence = &f.expectedSequence
	}
	if command.Deadline, err = moment("--deadline", f.deadline, now); err != nil {
		return nil, err
	}
	if command.EffectiveTime, err = moment("--effective", f.effective, time.Time{}); err != nil {
		return nil, err
	}
	return command, nil
}

// moment reads a time, a day, or where now is set a duration from then. "" is nil.
func moment(flag, s string, now time.Time) (*timestamppb.Timestamp, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no time is a valid choice
	}
	if d, err := time.ParseDuration(s); err == nil && !now.IsZero() {
		return timestamppb.New(now.Add(d)), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return timestamppb.New(t), nil
		}
	}
	return nil, usagef("%s %q: want a time such as 2026-01-31T12:00:00Z", flag, s)
}
