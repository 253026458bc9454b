package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// workload draws commands as careless and hostile callers would send them: one account gets half of the traffic; ids repeat, with the
// same payload and with others; amounts, currencies and names are sometimes nonsense.
type workload struct {
	random   *rand.Rand
	shards   int
	accounts int
	sent     []*ledgerv1.Command
}

func newWorkload(t *testing.T, shards int) *workload {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &workload{random: rand.New(rand.NewPCG(seed, 0)), shards: shards, accounts: 40}
}

func (w *workload) account() string {
	if w.random.IntN(2) == 0 {
		return "hot"
	}
	return "account-" + strconv.Itoa(w.random.IntN(w.accounts))
}

// one of the texts.
func (w *workload) one(texts ...string) string { return texts[w.random.IntN(len(texts))] }

func (w *workload) command() *ledgerv1.Command {
	if len(w.sent) > 0 && w.random.IntN(20) == 0 {
		again := proto.Clone(w.sent[w.random.IntN(len(w.sent))]).(*ledgerv1.Command)
		if w.random.IntN(3) == 0 && again.GetOperation() != ledgerv1.Operation_OPERATION_OPEN {
			again.Amount = strconv.Itoa(1 + w.random.IntN(1000))
		}
		return again
	}
	c := &ledgerv1.Command{
		CommandId: fmt.Sprintf("c-%d", len(w.sent)), Account: w.account(), Currency: "EUR", Amount: strconv.Itoa(1 + w.random.IntN(5000)),
		Operation: ledgerv1.Operation_OPERATION_DEBIT, Reference: "order " + strconv.Itoa(len(w.sent)),
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

// record puts a command on its partition.
func (w *workload) record(c *ledgerv1.Command) *kgo.Record {
	value, err := proto.Marshal(c)
	if err != nil {
		panic(err) // a message of ours
	}
	partition := topics.ShardOf(c.GetAccount(), w.shards)
	return &kgo.Record{Topic: topics.Commands, Partition: int32(partition), Key: []byte(c.GetAccount()), Value: value}
}

// poison is no command, or one without a name.
func (w *workload) poison() *kgo.Record {
	r := &kgo.Record{Topic: topics.Commands, Partition: int32(w.random.IntN(w.shards))}
	switch w.random.IntN(4) {
	case 0:
		r.Value = []byte(`{"command_id":"json","amount":12.5}`)
	case 1:
		r.Value = nil
	case 2:
		r = w.record(&ledgerv1.Command{CommandId: w.one("", "with\x00control", string(make([]byte, 200))), Account: "hot", Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: "1", Currency: "EUR"})
	case 3:
		r = w.record(&ledgerv1.Command{CommandId: "c-truncated", Account: "hot", Operation: ledgerv1.Operation_OPERATION_DEBIT, Amount: "1", Currency: "EUR"})
		r.Value = r.Value[:len(r.Value)-1]
	}
	return r
}

// send produces n records of the workload in their order.
func (w *workload) send(t *testing.T, cfg kafka.Config, n int) (poisoned int) {
	t.Helper()
	client, err := kafka.NewClient(cfg, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, 0, n)
	for range n {
		if w.random.IntN(50) == 0 {
			records = append(records, w.poison())
			poisoned++
			continue
		}
		records = append(records, w.record(w.command()))
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return poisoned
}

// open opens half of the accounts of the workload, and the hot one, through the ledger's own client, with room to move.
func (w *workload) open(t *testing.T, whole *whole) {
	t.Helper()
	for i := -1; i < w.accounts/2; i++ {
		account := "hot"
		if i >= 0 {
			account = "account-" + strconv.Itoa(i)
		}
		for _, c := range []*ledgerv1.Command{
			{CommandId: "open-" + account, Operation: ledgerv1.Operation_OPERATION_OPEN, Account: account, Currency: "EUR"},
			{CommandId: "fund-" + account, Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: account, Currency: "EUR", Amount: "100000"},
		} {
			outcome, err := whole.client.Submit(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
				t.Fatalf("%s: %v", c.GetCommandId(), outcome)
			}
		}
	}
}
