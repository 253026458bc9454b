package importer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/producer"
	"github.com/hotledger/hotledger/producer/importer"
	"github.com/hotledger/hotledger/producer/internal/answering"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
)

// logEndsAt puts one event at each of the positions into the log.
func logEndsAt(t *testing.T, desk *answering.Desk, positions ...uint64) {
	t.Helper()
	for shard, position := range positions {
		value, err := proto.Marshal(&ledgerv1.Event{Outcome: &ledgerv1.Outcome{Position: position}})
		if err != nil {
			t.Fatal(err)
		}
		desk.Write(true, &kgo.Record{Topic: topics.Events, Partition: int32(shard), Value: value})
	}
}

func commands(lines ...string) importer.Rows {
	return importer.ReadCommands(strings.NewReader(header+strings.Join(lines, "\n")), importer.Options{File: "f.csv"})
}

func reject(outcome *ledgerv1.Outcome, why ledgerv1.Reason) {
	outcome.Status, outcome.Reason = ledgerv1.Status_STATUS_REJECTED, why
}

func TestResultsComeInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	logEndsAt(t, desk, 10, 10, 10)
	desk.Serve([]uint64{10, 10, 10}, func(cmd *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		if cmd.GetAccount() == "poor" {
			reject(outcome, ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS)
		}
	})
	lines := make([]string, 0, 500)
	want := importer.Summary{}
	for i := range 500 {
		account := fmt.Sprintf("account-%d", i%7)
		switch i % 50 {
		case 3:
			account, want.Rejected = "poor", want.Rejected+1
		case 4:
			account, want.Bad = "", want.Bad+1
		default:
			want.Applied++
		}
		lines = append(lines, fmt.Sprintf("id-%d,2020-01-01,debit,%s,,1,USD", i, account))
	}
	line := 1
	summary, err := importer.Run(t.Context(), desk.Client(nil), commands(lines...), func(r importer.Result) {
		line++
		if r.Row.Line != line {
			t.Errorf("line %d at place %d", r.Row.Line, line)
		}
		if (r.Status == importer.Applied) != (r.Text == "") {
			t.Errorf("%s with text %q", r.Status, r.Text)
		}
	})
	if err != nil || summary != want {
		t.Fatalf("%+v, %v, want %+v", summary, err, want)
	}
}

func TestWhatWasDecidedBeforeIsAlreadyKnown(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	logEndsAt(t, desk, 10, 10, 10)
	first := map[string]uint64{}
	desk.Serve([]uint64{10, 10, 10}, func(cmd *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		switch cmd.GetCommandId() {
		case "old":
			outcome.Position = 10
		case "twice":
			if first["twice"] == 0 {
				first["twice"] = outcome.GetPosition()
			}
			outcome.Position = first["twice"]
		case "open:b":
			reject(outcome, ledgerv1.Reason_REASON_ACCOUNT_EXISTS)
		}
	})
	rows := importer.OpenAccounts(commands(
		"old,2020-01-01,debit,a,,1,USD", "new,2020-01-01,debit,a,,1,USD", "twice,2020-01-01,debit,a,,1,USD",
		"twice,2020-01-01,debit,a,,1,USD", "other,2020-01-01,debit,b,,1,USD"), nil)
	summary, err := importer.Run(t.Context(), desk.Client(nil), rows, nil)
	if want := (importer.Summary{Applied: 4, AlreadyKnown: 3}); err != nil || summary != want {
		t.Fatalf("%+v, %v, want %+v", summary, err, want)
	}
}

func TestARefusedTransferIsARejectedLine(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	desk.Serve([]uint64{0, 0, 0}, func(cmd *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		if cmd.GetCommandId() == "t-1" {
			reject(outcome, ledgerv1.Reason_REASON_ACCOUNT_FROZEN)
		}
	})
	rows := importer.OpenAccounts(commands("t-1,2020-01-01,transfer,a,b,1,USD", "t-2,2020-01-01,transfer,a,c,1,USD", "d,2020-01-01,debit,b,,1,USD"), nil)
	summary, err := importer.Run(t.Context(), desk.Client(nil), rows, nil)
	// Three openings, the second transfer and the debit.
	if want := (importer.Summary{Applied: 5, Rejected: 1}); err != nil || summary != want || summary.Clean() {
		t.Fatalf("%+v, %v, want %+v", summary, err, want)
	}
}

// The ledger forgets ids after a while, and looks up those that were asked for before.
func TestEveryImportOfAFileSaysTheSameFirstRequest(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	asked := map[string][]string{}
	desk.Serve([]uint64{0, 0, 0}, func(cmd *ledgerv1.Command, _ *ledgerv1.Outcome) {
		asked[cmd.GetCommandId()] = append(asked[cmd.GetCommandId()], cmd.GetRequestedAt().AsTime().Format(time.DateOnly))
	})
	text := "command_id,op,account,currency,amount,date,requested_at\npast,debit,a,USD,1,2020-02-03,\nold,debit,a,USD,1,1980-01-01,\n" +
		"to come,debit,a,USD,1,2190-01-01,\nsaid,debit,a,USD,1,2020-01-01,2021-01-01\nnone,debit,a,USD,1,,\n"
	for range 2 {
		rows := importer.OpenAccounts(importer.ReadCommands(strings.NewReader(text), importer.Options{}), nil)
		if _, err := importer.Run(t.Context(), desk.Client(nil), rows, nil); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{
		"past": "2020-02-03", "old": "2000-01-01", "to come": "2000-01-01", "said": "2021-01-01", "none": "2000-01-01", "open:a": "2000-01-01",
	} {
		if got := asked[id]; len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%s: %v, want twice %s", id, got, want)
		}
	}
}

func TestClosingBalanceIsComparedWithTheLedgers(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	desk.Serve([]uint64{0, 0, 0}, func(_ *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		outcome.After = &ledgerv1.AccountState{Balance: "100", Unit: "EUR/2"}
	})
	rows := importer.ReadStatements(strings.NewReader(statementsHeader+"1,a,EUR,0,1,1\n2,b,EUR,0,2,1\n"),
		strings.NewReader(entriesHeader+"1,1,2020-01-01,credit,1\n2,1,2020-01-01,credit,2\n"), importer.Options{})
	summary, err := importer.Run(t.Context(), desk.Client(nil), rows, nil)
	if want := (importer.Summary{Applied: 2, Agreed: 1, Differed: 1}); err != nil || summary != want || summary.Clean() {
		t.Fatalf("%+v, %v, want %+v", summary, err, want)
	}
}

func TestImportEndsAtAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	client := desk.Client(func(c *producer.Config) { c.OutcomeTimeout = 50 * time.Millisecond })
	summary, err := importer.Run(t.Context(), client, commands("t-1,2020-01-01,transfer,a,b,1,USD", "x,2020-01-01,debit,b,,1,USD"), nil)
	if !errors.Is(err, producer.ErrOutcomeUnknown) || summary != (importer.Summary{Unknown: 1}) {
		t.Fatalf("%+v, %v", summary, err)
	}
}

func TestReusedIDIsRejected(t *testing.T) {
	t.Parallel()
	desk := answering.Open(t)
	first := map[string]string{}
	desk.Serve([]uint64{0, 0, 0}, func(cmd *ledgerv1.Command, outcome *ledgerv1.Outcome) {
		if amount, ok := first[cmd.GetCommandId()]; ok && amount != cmd.GetAmount() {
			reject(outcome, ledgerv1.Reason_REASON_COMMAND_ID_REUSED)
			outcome.Position = 0
		}
		first[cmd.GetCommandId()] = cmd.GetAmount()
	})
	summary, err := importer.Run(t.Context(), desk.Client(nil), commands("x,2020-01-01,debit,a,,1,USD", "x,2020-01-01,debit,a,,2,USD"), nil)
	if want := (importer.Summary{Applied: 1, Rejected: 1}); err != nil || summary != want {
		t.Fatalf("%+v, %v", summary, err)
	}
}
