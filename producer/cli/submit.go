package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/spf13/cobra"
)

// operation is a subcommand of submit.
type operation struct {
	of      ledgerv1.Operation
	short   string
	example string
	needs   []string // flags, beside --account
	may     []string
}

// operations are those of callers: what the reconciler or the ledger-writer alone asks for is not among them.
var operations = []operation{
	{ledgerv1.Operation_OPERATION_OPEN, "Open an account in one currency", "--account alice --currency USD --floor -500.00",
		[]string{"currency"}, []string{"floor", "ceiling"}},
	{ledgerv1.Operation_OPERATION_DEBIT, "Take an amount off the account", "--account alice --amount 12.50 --currency USD --id order-4711",
		[]string{"amount", "currency"}, []string{"counter-account", "leg"}},
	{ledgerv1.Operation_OPERATION_CREDIT, "Put an amount on the account", "--account alice --amount 100.00 --currency USD --counter-account @bank",
		[]string{"amount", "currency"}, []string{"counter-account", "leg"}},
	{ledgerv1.Operation_OPERATION_HOLD, "Set an amount aside", "--account alice --amount 80.00 --currency USD --expires 168h --id booking-77",
		[]string{"amount", "currency"}, []string{"counter-account", "expires"}},
	{ledgerv1.Operation_OPERATION_CAPTURE, "Debit what a hold has set aside", "--account alice --hold booking-77 --amount 75.20 --currency USD",
		[]string{"hold"}, []string{"amount", "currency", "counter-account", "leg"}},
	{ledgerv1.Operation_OPERATION_RELEASE, "Give back what a hold has set aside", "--account alice --hold booking-77",
		[]string{"hold"}, []string{"amount", "currency"}},
	{ledgerv1.Operation_OPERATION_TRANSFER, "Move an amount to another account of the ledger", "--account alice --to bob --amount 30.00 --currency USD",
		[]string{"to", "amount", "currency"}, nil},
	{ledgerv1.Operation_OPERATION_REVERSE, "Undo what a command did to the account", "--account alice --command order-4711 --amount 2.50 --currency USD",
		[]string{"command"}, []string{"amount", "currency", "allow-overdraft"}},
	{ledgerv1.Operation_OPERATION_SET_LIMITS, "Change floor or ceiling", "--account alice --ceiling none --floor -20.00 --currency USD",
		nil, []string{"floor", "ceiling", "currency"}},
	{ledgerv1.Operation_OPERATION_FREEZE, "Refuse debits, credits or both", "--account alice --direction debit",
		[]string{"direction"}, nil},
	{ledgerv1.Operation_OPERATION_UNFREEZE, "End what a freeze refuses", "--account alice --direction both",
		[]string{"direction"}, nil},
	{ledgerv1.Operation_OPERATION_CLOSE, "End an account that is empty and has no holds", "--account alice", nil, nil},
}

func newSubmit(connect connector) *cobra.Command {
	submit := &cobra.Command{
		Use:   "submit OPERATION",
		Short: "Send one command and print its outcome",
		Long: `Send one command and print its outcome.

What each operation is refused for: docs/commands.md. Amounts are in major units (12.50) and need the currency to be read in.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("submit what? See producer submit --help")
			}
			return usagef("unknown operation %q; see producer submit --help", args[0])
		},
	}
	for _, o := range operations {
		submit.AddCommand(newOperation(o, connect))
	}
	return submit
}

func newOperation(o operation, connect connector) *cobra.Command {
	f := &submitFlags{operation: o.of}
	name := limits.OperationName(o.of)
	cmd := &cobra.Command{
		Use:     word(name),
		Short:   o.short,
		Example: fmt.Sprintf("  producer submit %s %s", word(name), o.example),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s takes flags alone, not %q", word(name), args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range append([]string{"account"}, o.needs...) {
				if !cmd.Flags().Changed(flag) {
					return usagef("--%s is missing; see producer submit %s --help", flag, word(name))
				}
			}
			f.changed = cmd.Flags().Changed
			return submit(cmd, f, connect)
		},
	}
	if word(name) != name {
		cmd.Aliases = []string{name} // as in files and tables
	}
	f.bind(cmd.Flags(), slices.Concat(o.needs, o.may))
	for _, flag := range append([]string{"account"}, o.needs...) {
		cmd.Flags().Lookup(flag).Usage += " (required)"
	}
	outputFlag(cmd, &f.output)
	return cmd
}

func submit(cmd *cobra.Command, f *submitFlags, connect connector) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	command, err := f.command(time.Now())
	if err != nil {
		return err
	}
	if err := producer.Check(command); err != nil {
		return exitCode(err) // before anything is connected to
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
		cmd.PrintErrf("to retry, repeat with --id %q --requested-at %s\n", pending.ID(), pending.Command().GetRequestedAt().AsTime().Format(time.RFC3339Nano))
		return exitCode(err)
	}
	if err := printOutcome(cmd.OutOrStdout(), f.output, outcome, pending.Detail()); err != nil {
		return err
	}
	return rejection(outcome)
}

// rejection is nil for an applied command.
func rejection(outcome *ledgerv1.Outcome) error {
	if outcome.GetStatus() == ledgerv1.Status_STATUS_APPLIED {
		return nil
	}
	entry := reason.Of(outcome.GetReason())
	return run.WithExitCode(fmt.Errorf("rejected: %s: %s %s", entry.Code, entry.Text, entry.NextStep), exitRejected)
}

// invalid is a command that cannot be made of the flags.
func invalid(id string, why ledgerv1.Reason, err error) error {
	return exitCode(&producer.InvalidCommandError{CommandID: id, Reason: why, Text: err.Error()})
}
