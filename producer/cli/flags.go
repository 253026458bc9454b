package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// submitFlags are those of all operations; each has only some.
type submitFlags struct {
	operation ledgerv1.Operation
	changed   func(flag string) bool

	id, account, reference, description, requested string
	metadata                                       map[string]string
	deadline, effective, output                    string
	expectedSequence                               uint64

	amount, currency, counter, to string
	legs                          []string
	floor, ceiling, direction     string
	hold, expires, reverses       string
	allowOverdraft                bool
}

// bind gives a subcommand the flags that every one has, and those of its own.
func (f *submitFlags) bind(flags *pflag.FlagSet, own []string) {
	flags.StringVar(&f.account, "account", "", "the account that changes")
	flags.StringVar(&f.id, "id", "", "command id; give the same one to retry (default: a new UUID, printed)")
	flags.StringVar(&f.reference, "reference", "", "your own reference")
	flags.StringVar(&f.description, "description", "", "free text")
	flags.StringToStringVar(&f.metadata, "metadata", nil, "KEY=VALUE; repeatable")
	flags.StringVar(&f.deadline, "deadline", "", "not applied after: a time (2026-01-31T12:00:00Z) or a duration from the first request (30s)")
	flags.StringVar(&f.effective, "effective", "", "when the business says it happened: 2026-01-31 or 2026-01-31T12:00:00Z")
	flags.Uint64Var(&f.expectedSequence, "expected-sequence", 0, "apply only if the account stands at this sequence")
	flags.StringVar(&f.requested, "requested-at", "", "retry: when it was first asked for (default: the time in the id if it has one, else now)")
	for _, name := range own {
		f.bindOwn(flags, name)
	}
}

func (f *submitFlags) bindOwn(flags *pflag.FlagSet, name string) {
	part, counter := "", "@world"
	switch f.operation {
	case ledgerv1.Operation_OPERATION_CAPTURE:
		part, counter = " (default: all that is left)", "the one of the hold"
	case ledgerv1.Operation_OPERATION_RELEASE, ledgerv1.Operation_OPERATION_REVERSE:
		part = " (default: all that is left)"
	default:
	}
	switch name {
	case "amount":
		flags.StringVar(&f.amount, name, "", "in major units: 12.50"+part)
	case "currency":
		flags.StringVar(&f.currency, name, "", "ISO 4217 code, or a custom unit with its number of decimals (POINTS/0)")
	case "counter-account":
		flags.StringVar(&f.counter, name, "", "the other side, an external account (default: "+counter+")")
	case "to":
		flags.StringVar(&f.to, name, "", "the account that gets the amount")
	case "leg":
		flags.StringArrayVar(&f.legs, name, nil, "COUNTER_ACCOUNT=AMOUNT: one part of the amount, instead of --counter-account; repeatable")
	case "floor":
		flags.StringVar(&f.floor, name, "", "the lowest balance allowed, in major units: 0 or negative")
	case "ceiling":
		flags.StringVar(&f.ceiling, name, "", "the highest balance that a credit may lead to, in major units, or none")
	case "expires":
		flags.StringVar(&f.expires, name, "", "released by itself after: a time, or a duration from the first request (168h)")
	case "hold":
		flags.StringVar(&f.hold, name, "", "the command id of the hold")
	case "command":
		flags.StringVar(&f.reverses, name, "", "the id of the command to undo; a transfer is undone on the account that received it")
	case "allow-overdraft":
		flags.BoolVar(&f.allowOverdraft, name, false, "take the money back even if the balance falls below the floor")
	case "direction":
		flags.StringVar(&f.direction, name, "", "debit, credit or both")
	default:
		panic("no such flag: " + name)
	}
}

// command makes the command. What the ledger itself would refuse is left to the SDK, which has the words for it.
func (f *submitFlags) command(now time.Time) (*ledgerv1.Command, error) {
	command := &ledgerv1.Command{
		CommandId: f.id, Operation: f.operation, Account: f.account, CounterAccount: f.counter + f.to, Currency: f.currency, // one of the two
		Reference: f.reference, Description: f.description, Metadata: f.metadata, HoldId: f.hold,
	}
	if f.id == "" {
		command.CommandId = producer.NewCommandID()
	}
	if f.changed("expected-sequence") {
		command.ExpectedSequence = &f.expectedSequence
	}
	if f.changed("command") {
		command.Reverse = &ledgerv1.ReverseTerms{CommandId: f.reverses, AllowOverdraft: f.allowOverdraft}
	}
	if f.changed("direction") {
		word := "DIRECTION_" + strings.ToUpper(f.direction)
		if command.Direction = ledgerv1.Direction(ledgerv1.Direction_value[word]); command.Direction == ledgerv1.Direction_DIRECTION_UNSPECIFIED {
			return nil, usagef("--direction %q: want debit, credit or both", f.direction)
		}
	}
	if err := f.times(command, now); err != nil {
		return nil, err
	}
	return command, f.amounts(command)
}

// times reads the flags that are times. Durations count from the first request, so that a retry names the same moments.
func (f *submitFlags) times(command *ledgerv1.Command, now time.Time) error {
	asked := producer.FirstRequested(command.GetCommandId(), now)
	for _, field := range []struct {
		flag, text string
		from       bool // a duration will do
		set        func(time.Time)
	}{
		{"--requested-at", f.requested, false, func(t time.Time) { asked = t }},
		{"--effective", f.effective, false, func(t time.Time) { command.EffectiveTime = timestamppb.New(t) }},
		{"--deadline", f.deadline, true, func(t time.Time) { command.Deadline = timestamppb.New(t) }},
		{"--expires", f.expires, true, func(t time.Time) { command.Hold = &ledgerv1.HoldTerms{ExpiresAt: timestamppb.New(t)} }},
	} {
		if field.text == "" {
			continue
		}
		if d, err := time.ParseDuration(field.text); err == nil && field.from {
			field.set(asked.Add(d))
			continue
		}
		t, err := moment(field.text)
		if err != nil {
			return usagef("%s %q: want a time such as 2026-01-31T12:00:00Z", field.flag, field.text)
		}
		field.set(t)
	}
	command.RequestedAt = timestamppb.New(asked)
	return nil
}

// moment reads a time or a day.
func moment(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t, err = time.Parse(time.DateOnly, s)
	}
	return t, err
}

// amounts reads what is written in major units.
func (f *submitFlags) amounts(command *ledgerv1.Command) error {
	id := command.GetCommandId()
	var unit money.Unit
	if f.changed("currency") {
		var err error
		if unit, err = money.ParseUnit(f.currency); err != nil {
			return invalid(id, ledgerv1.Reason_REASON_INVALID_CURRENCY, err)
		}
	}
	minor := func(flag, text string, why ledgerv1.Reason) (string, error) {
		if unit.Code == "" {
			return "", usagef("--%s cannot be read without --currency", flag)
		}
		v, err := money.ParseMajor(text, unit)
		if errors.Is(err, money.ErrTooLarge) {
			why = ledgerv1.Reason_REASON_LIMIT_EXCEEDED
		}
		if err != nil {
			return "", invalid(id, why, fmt.Errorf("--%s: %w", flag, err))
		}
		return money.FormatMinor(v), nil
	}
	var err error
	if f.changed("amount") {
		if command.Amount, err = minor("amount", f.amount, ledgerv1.Reason_REASON_INVALID_AMOUNT); err != nil {
			return err
		}
	}
	for _, text := range f.legs {
		i := strings.LastIndex(text, "=")
		if i < 0 {
			return usagef("--leg %.80q: want COUNTER_ACCOUNT=AMOUNT, as in @fees=0.30", text)
		}
		amount, err := minor("leg", text[i+1:], ledgerv1.Reason_REASON_INVALID_LEGS)
		if err != nil {
			return err
		}
		command.Legs = append(command.Legs, &ledgerv1.Leg{CounterAccount: text[:i], Amount: amount})
	}
	return f.limits(command, minor)
}

// limits sets floor and ceiling, of an account that is opened or of one that is open.
func (f *submitFlags) limits(command *ledgerv1.Command, minor func(flag, text string, why ledgerv1.Reason) (string, error)) error {
	terms := &ledgerv1.LimitTerms{}
	if f.changed("floor") {
		floor, err := minor("floor", f.floor, ledgerv1.Reason_REASON_INVALID_FLOOR)
		if err != nil {
			return err
		}
		terms.Floor = proto.String(floor)
	}
	switch {
	case f.changed("ceiling") && f.ceiling == limits.NoCeiling:
		terms.Ceiling = proto.String(limits.NoCeiling)
	case f.changed("ceiling"):
		ceiling, err := minor("ceiling", f.ceiling, ledgerv1.Reason_REASON_INVALID_CEILING)
		if err != nil {
			return err
		}
		terms.Ceiling = proto.String(ceiling)
	}
	switch {
	case terms.Floor == nil && terms.Ceiling == nil:
	case f.operation == ledgerv1.Operation_OPERATION_OPEN:
		command.Open = &ledgerv1.OpenTerms{Floor: terms.GetFloor(), Ceiling: strings.TrimPrefix(terms.GetCeiling(), limits.NoCeiling)}
	default:
		command.Limits = terms
	}
	return nil
}

// word is how a name is written on a command line.
func word(name string) string { return strings.ReplaceAll(name, "_", "-") }
