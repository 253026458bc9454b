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

	"github.com/hotledger/hotledger/chassis/kafka"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Workload is one stream of commands: one account gets half of the traffic; ids repeat, with the same payload and with others; amounts,
// currencies and names are sometimes nonsense. Not for use by several goroutines.
type Workload struct {
	random *rand.Rand
	shards int
	sent   []*ledgerv1.Command
	// ReplyTo goes on every command, so that the writers answer it in ledger.replies. Empty: they answer nobody.
	ReplyTo string
	// Strays puts some records on a partition that is not their account's.
	Strays bool
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
	return "account-" + strconv.Itoa(w.random.IntN(accounts))
}

// one of the texts.
func (w *Workload) one(texts ...string) string { return texts[w.random.IntN(len(texts))] }

func (w *Workload) command() *ledgerv1.Command {
	if len(w.sent) > 0 && w.random.IntN(20) == 0 {
		again := proto.CloneOf(w.sent[w.random.IntN(len(w.sent))])
		if w.random.IntN(3) == 0 && again.GetOperation() != ledgerv1.Operation_OPERATION_OPEN {
			again.Amount = strconv.Itoa(1 + w.random.IntN(1000))
		}
		return again
	}
	c := &ledgerv1.Command{
		CommandId: fmt.Sprintf("c-%d", len(w.sent)), Account: w.account(), Currency: "EUR", Amount: strconv.Itoa(1 + w.random.IntN(5000)),
		Operation: ledgerv1.Operation_OPERATION_DEBIT, Reference: "order " + strconv.Itoa(len(w.sent)), ReplyTo: w.ReplyTo,
	}
	switch w.random.IntN(20) {
	case 0:
		c.Operation, c.Amount, c.Open = ledgerv1.Operation_OPERATION_OPEN, "", &ledgerv1.OpenTerms{Floor: w.one("0", "-1000", "-9007199254740993")}
	case 1:
		c.Amount = w.one("nan", "1e3", "0x10", "-1", "0", "1.005", "1234567890123456789", "", " 5", "05", "９")
	case 2:
		c.Amount = w.one("9007199254740992", "9007199254740993", "999999999999999999", "1000000000")
	case 3:
		c.Currency = w.one("USD", "JPY")
	case 4:
		c.Account = w.one("never-opened", "a}b", "{a}", "}x", "@world")
	case 5:
		c.Operation = ledgerv1.Operation(w.random.IntN(2) * 99) // none, or one of a later version
	case 6, 7, 8, 9, 10, 11:
		c.Operation = ledgerv1.Operation_OPERATION_CREDIT
	}
	w.sent = append(w.sent, c)
	return c
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

// poison is no command, or one without a name.
func (w *Workload) poison() *kgo.Record {
	r := &kgo.Record{Topic: topics.Commands, Partition: int32(w.random.IntN(w.shards))}
	switch w.random.IntN(4) {
	case 0:
		r.Value = []byte(`{"command_id":"json","amount":12.5}`)
	case 1:
		r.Value = nil
	case 2:
		r = w.Record(&ledgerv1.Command{CommandId: w.one("", "with\x00control", string(make([]byte, 200))), Account: "hot", Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: "1", Currency: "EUR"})
	case 3:
		r = w.Record(&ledgerv1.Command{CommandId: "c-truncated", Account: "hot", Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: "1", Currency: "EUR"})
		r.Value = r.Value[:len(r.Value)-1]
	}
	return r
}

// Draw draws the next n records, poison among them, in their order.
func (w *Workload) Draw(n int) (records []*kgo.Record, poisoned int) {
	records = make([]*kgo.Record, 0, n)
	for range n {
		if w.random.IntN(50) == 0 {
			records = append(records, w.poison())
			poisoned++
			continue
		}
		r := w.Record(w.command())
		if w.Strays && w.random.IntN(60) == 0 {
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
	client, err := kafka.NewClient(cfg, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	records, poisoned := w.Draw(n)
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return 0, fmt.Errorf("send commands: %w", err)
	}
	return poisoned, nil
}
