// Package workload draws commands as careless and hostile callers would send them. The same seed draws the same commands.
package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/chassis/kafka"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Workload is one stream of commands: one account gets half of the traffic; ids repeat, with the same payload and with others; amounts,
// currencies and names are sometimes nonsense; holds, reversals and transfers name what was there before, or never was. Not for use by several
// goroutines.
type Workload struct {
	random *rand.Rand
	shards int
	sent   []*ledgerv1.Command
	holds  []*ledgerv1.Command // of sent
	// ReplyTo goes on every command, so that the writers answer it in ledger.replies. Empty: they answer nobody.
	ReplyTo string
	// Strays puts some records on a partition that is not their account's.
	Strays bool
	// Expiring gives some holds no more than two seconds.
	Expiring bool
	// Stamped commands say when they were first asked for; their retries keep it.
	Stamped bool
}

const accounts = 40

// New starts a stream for a ledger of so many shards.
func New(seed uint64, shards int) *Workload {
	return &Workload{random: rand.New(rand.NewPCG(seed, 0)), shards: shards} //nolint:gosec // repeatable on purpose
}

// Opening opens half of the accounts, and the hot one, and funds them, with room to move.
func (w *Workload) Opening() []*ledgerv1.Command {
	var commands []*ledgerv1.Command
	for i := -1; i < accounts/2; i++ {
		account := "hot"
		if i >= 0 {
			account = "account-" + strconv.Itoa(i)
		}
		commands = append(commands,
			&ledgerv1.Command{CommandId: "open-" + account, Operation: ledgerv1.Operation_OPERATION_OPEN, Account: account, Currency: "EUR", ReplyTo: w.ReplyTo},
			&ledgerv1.Command{CommandId: "fund-" + account, Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: account, Currency: "EUR", Amount: "100000", ReplyTo: w.ReplyTo})
	}
	return commands
}

func (w *Workload) account() string {
	if w.random.IntN(2) == 0 {
		return "hot"
	}
	return w.other()
}

// other is an account with little traffic; half of them are open at the beginning.
func (w *Workload) other() string { return "account-" + strconv.Itoa(w.random.IntN(accounts)) }

// one of the texts.
func (w *Workload) one(texts ...string) string { return texts[w.random.IntN(len(texts))] }

// chance is true once in n.
func (w *Workload) chance(n int) bool { return w.random.IntN(n) == 0 }

func (w *Workload) amount(most int) string { return strconv.Itoa(1 + w.random.IntN(most)) }

func (w *Workload) command() *ledgerv1.Command {
	if len(w.sent) > 0 && w.chance(20) {
		return w.again()
	}
	c := &ledgerv1.Command{
		CommandId: fmt.Sprintf("c-%d", len(w.sent)), Account: w.account(), Currency: "EUR", Amount: w.amount(5000),
		Operation: ledgerv1.Operation_OPERATION_DEBIT, Reference: "order " + strconv.Itoa(len(w.sent)), ReplyTo: w.ReplyTo,
	}
	if w.chance(30) {
		c.CommandId += w.one("'", `\`, `"`, "{}", "%s", "é", "'; --", "$1")
	}
	if w.Stamped {
		c.RequestedAt = timestamppb.Now()
	}
	switch n := w.random.IntN(40); {
	case n < 3:
		c.Operation, c.Amount, c.Open = ledgerv1.Operation_OPERATION_OPEN, "", &ledgerv1.OpenTerms{Floor: w.one("0", "-1000", "-9007199254740993"), Ceiling: w.one("", "", "100000")}
	case n < 12:
		c.Operation = ledgerv1.Operation_OPERATION_CREDIT
	case n < 20:
		w.transfer(c)
	case n < 26:
		w.set(c)
	case n < 29:
		w.reversal(c)
	case n < 31:
		w.terms(c)
	}
	if w.chance(8) {
		w.spoil(c)
	}
	w.sent = append(w.sent, c)
	if c.GetOperation() == ledgerv1.Operation_OPERATION_HOLD {
		w.holds = append(w.holds, c)
	}
	return c
}

// again is a command that was sent before, sometimes with another payload.
func (w *Workload) again() *ledgerv1.Command {
	again := proto.CloneOf(w.sent[w.random.IntN(len(w.sent))])
	if w.chance(3) {
		again.Description = "another " + strconv.Itoa(w.random.IntN(1000))
	}
	return again
}

// Record puts a command on the partition of its account.
func (w *Workload) Record(c *ledgerv1.Command) *kgo.Record {
	value, err := proto.Marshal(c)
	if err != nil {
		panic(err) // a message of ours
	}
	partition := topics.ShardOf(c.GetAccount(), w.shards)
	return &kgo.Record{Topic: topics.Commands, Partition: int32(partition), Key: []byte(c.GetAccount()), Value: value}
}

// poison is no command, or one without a name of its own.
func (w *Workload) poison() *kgo.Record {
	r := &kgo.Record{Topic: topics.Commands, Partition: int32(w.random.IntN(w.shards))}
	debit := &ledgerv1.Command{CommandId: "c-truncated", Account: "hot", Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: "1", Currency: "EUR"}
	switch w.random.IntN(5) {
	case 0:
		r.Value = []byte(`{"command_id":"json","amount":12.5}`)
	case 1:
		r.Value = nil
	case 2:
		debit.CommandId = w.one("", "with\x00control", string(make([]byte, 200)))
		r = w.Record(debit)
	case 3:
		debit.CommandId = w.one("@credit/c-1", "@return/c-2", "@mine") // the ledger's own to give
		r = w.Record(debit)
	case 4:
		r = w.Record(debit)
		r.Value = r.Value[:len(r.Value)-1]
	}
	return r
}

// Draw draws the next n records, poison among them, in their order.
func (w *Workload) Draw(n int) (records []*kgo.Record, poisoned int) {
	records = make([]*kgo.Record, 0, n)
	for range n {
		if w.chance(50) {
			records = append(records, w.poison())
			poisoned++
			continue
		}
		r := w.Record(w.command())
		if w.Strays && w.chance(60) {
			r.Partition = (r.Partition + 1) % int32(w.shards)
		}
		records = append(records, r)
	}
	return records, poisoned
}

// Again draws n commands that were drawn before, unchanged, as a caller's late retry or a redelivery brings them.
func (w *Workload) Again(n int) []*kgo.Record {
	records := make([]*kgo.Record, 0, n)
	for range min(n, len(w.sent)) {
		records = append(records, w.Record(w.sent[w.random.IntN(len(w.sent))]))
	}
	return records
}

// Send draws the next n records and returns when the brokers have them, and how many were poison.
func (w *Workload) Send(ctx context.Context, cfg kafka.Config, n int) (poisoned int, err error) {
	records, poisoned := w.Draw(n)
	return poisoned, send(ctx, cfg, records)
}

// SendOpening sends what Opening draws.
func (w *Workload) SendOpening(ctx context.Context, cfg kafka.Config) error {
	var records []*kgo.Record
	for _, c := range w.Opening() {
		records = append(records, w.Record(c))
	}
	return send(ctx, cfg, records)
}

func send(ctx context.Context, cfg kafka.Config, records []*kgo.Record) error {
	client, err := kafka.NewClient(cfg, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("send commands: %w", err)
	}
	return nil
}
