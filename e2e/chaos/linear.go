package chaos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Histories of single accounts. Clients submit and wait, through the ledger's own library; what each saw, and when, must be explainable by
// one order of the operations that respects real time.

// operation kinds of a history.
const (
	opCredit = "credit"
	opDebit  = "debit"
	opRead   = "read" // of Redis
)

type input struct {
	kind   string
	amount int64
}

type output struct {
	known    bool // false: the client gave up waiting; the command may be decided at any time, or never
	applied  bool
	balance  int64
	sequence uint64
}

type standing struct {
	balance  int64
	sequence uint64
}

// accountModel is the account as its owner thinks of it: opened and funded, floor 0.
var accountModel = porcupine.Model{
	Init: func() any { return standing{balance: openingBalance, sequence: 2} },
	Step: func(state, in, out any) (bool, any) {
		before, asked, told := state.(standing), in.(input), out.(output)
		after, applied := before, false
		switch {
		case asked.kind == opCredit:
			after, applied = standing{before.balance + asked.amount, before.sequence + 1}, true
		case asked.kind == opDebit && before.balance >= asked.amount:
			after, applied = standing{before.balance - asked.amount, before.sequence + 1}, true
		}
		if !told.known {
			return true, after
		}
		return told.applied == applied && told.balance == after.balance && told.sequence == after.sequence, after
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

const (
	openingBalance    = 1000
	linearAccounts    = 2
	clientsPerAccount = 3
	checkMax          = 10 * time.Second // of one history
)

// historian runs the clients and keeps what they saw.
type historian struct {
	store *lua.Store
	reads bool // of Redis, which are only promised to hold while Redis forgets nothing
	start time.Time

	mu        sync.Mutex
	histories map[string][]porcupine.Operation
	clients   sync.WaitGroup
}

func account(i int) string { return fmt.Sprintf("history-%d", i) }

// open opens and funds the accounts, while nothing is wrong yet.
func (h *historian) open(ctx context.Context, client *producer.Client) error {
	for i := range linearAccounts {
		for _, c := range []*ledgerv1.Command{
			{CommandId: "open-" + account(i), Account: account(i), Operation: ledgerv1.Operation_OPERATION_OPEN, Currency: "EUR"},
			{CommandId: "fund-" + account(i), Account: account(i), Operation: ledgerv1.Operation_OPERATION_CREDIT, Amount: strconv.Itoa(openingBalance), Currency: "EUR"},
		} {
			o, err := client.Submit(ctx, c)
			for errors.Is(err, producer.ErrOutcomeUnknown) && ctx.Err() == nil { // the services are just starting
				o, err = client.Submit(ctx, c)
			}
			if err != nil || o.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
				return fmt.Errorf("%s: %v: %w", c.GetCommandId(), o, err)
			}
		}
	}
	return nil
}

// run starts the clients. They begin operations until ctx ends, and finish what they began.
func (h *historian) run(ctx context.Context, seed uint64, client *producer.Client) {
	for i := range linearAccounts * clientsPerAccount {
		random := rand.New(rand.NewPCG(seed, 100+uint64(i))) //nolint:gosec // repeatable on purpose
		h.clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				h.once(ctx, client, i, n, random)
				select {
				case <-time.After(time.Duration(random.IntN(120)) * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
}

func (h *historian) once(ctx context.Context, client *producer.Client, who, n int, random *rand.Rand) {
	name := account(who % linearAccounts)
	draw, amount := random.IntN(10), int64(1+random.IntN(600))
	if draw == 0 {
		amount = 999_999_999_999 // never there: the rejection tells the balance
	}
	asked := input{opDebit, amount}
	if draw >= 6 {
		asked.kind = opCredit
	}
	if draw == 5 && h.reads {
		asked = input{kind: opRead}
	}
	call := h.now()
	var told output
	if asked.kind == opRead {
		a, ok, err := h.store.Account(ctx, topics.ShardOf(name, shards), name)
		if err != nil || !ok {
			return // saw nothing
		}
		told = output{known: true, balance: a.Balance, sequence: a.Sequence}
	} else {
		told = submit(client, asked, name, fmt.Sprintf("h-%d-%d", who, n))
	}
	back := h.now()
	if !told.known {
		back = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.histories[name] = append(h.histories[name], porcupine.Operation{ClientId: who, Input: asked, Output: told, Call: call, Return: back})
}

// submitTries of one command, under one id, before a client gives up.
const submitTries = 4

func submit(client *producer.Client, asked input, name, id string) output {
	c := &ledgerv1.Command{
		CommandId: id, Account: name, Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: strconv.FormatInt(asked.amount, 10), Currency: "EUR",
		RequestedAt: timestamppb.Now(),
	}
	if asked.kind == opCredit {
		c.Operation = ledgerv1.Operation_OPERATION_CREDIT
	}
	for range submitTries {
		o, err := client.Submit(context.Background(), c)
		if errors.Is(err, producer.ErrOutcomeUnknown) {
			continue
		}
		if err != nil {
			return output{}
		}
		balance, _ := strconv.ParseInt(o.GetAfter().GetBalance(), 10, 64)
		return output{known: true, applied: o.GetStatus() == ledgerv1.Status_STATUS_APPLIED, balance: balance, sequence: o.GetAfter().GetSequence()}
	}
	return output{}
}

func (h *historian) now() int64 { return int64(time.Since(h.start)) }

// check holds the histories against the model. unknown counts operations without an answer.
func (h *historian) check() (operations, unknown int, problems []string) {
	for _, name := range []string{account(0), account(1)} {
		history := h.histories[name]
		operations += len(history)
		for _, op := range history {
			if !op.Output.(output).known {
				unknown++
			}
		}
		// A read that finds a debit refused changes nothing: the model has it already. Reads of Redis are told as unapplied.
		switch porcupine.CheckOperationsTimeout(accountModel, history, checkMax) {
		case porcupine.Illegal:
			problems = append(problems, fmt.Sprintf("the history of %s is not linearizable: %s", name, describe(history)))
		case porcupine.Unknown:
			problems = append(problems, fmt.Sprintf("the history of %s could not be checked within %s", name, checkMax))
		case porcupine.Ok:
		}
	}
	return operations, unknown, problems
}

// describe prints a history in the order of its calls; where it breaks is mostly seen by the sequences.
func describe(history []porcupine.Operation) string {
	sorted := slices.Clone(history)
	slices.SortFunc(sorted, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	text := ""
	for _, op := range sorted {
		back := "never"
		if op.Return != math.MaxInt64 {
			back = time.Duration(op.Return).Round(time.Millisecond).String()
		}
		text += fmt.Sprintf("\n      client %d %s..%s %+v -> %+v", op.ClientId, time.Duration(op.Call).Round(time.Millisecond), back, op.Input, op.Output)
	}
	return text
}
