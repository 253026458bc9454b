package writer

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
)

// TestAnIDUsedOnTwoShardsLeavesNothingInTransit: each shard takes the id, and what they derive must not meet under one id.
func TestAnIDUsedOnTwoShardsLeavesNothingInTransit(t *testing.T) {
	t.Parallel()
	a, b := "a", "b"
	for i := 0; topics.ShardOf(b, shards) == topics.ShardOf(a, shards); i++ {
		b = fmt.Sprintf("b%d", i)
	}
	for name, commands := range map[string][]*ledgerv1.Command{
		"transfers to one account":            {transferOf("X", a, "c", "5"), transferOf("X", b, "c", "5")},
		"a transfer and another one's refund": {transferOf("S", a, b, "5"), reversalOf("X", b, "S"), transferOf("X", a, "nobody", "5")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := setup(t)
			l.run(t)
			l.send(t, open(a), open(b), open("c"), credit("k1", a, "10"), credit("k2", b, "10"))
			for _, c := range commands {
				l.send(t, c)
				l.quiet(t)
			}
			transit := 0
			for _, r := range l.read(t, topics.Events) {
				e := &ledgerv1.Event{}
				must(t, proto.Unmarshal(r.Value, e))
				for _, leg := range e.GetOutcome().GetLegs() {
					if n, _ := strconv.Atoi(leg.GetAmount()); leg.GetCounterAccount() == limits.Transit && strings.HasPrefix(e.GetOutcome().GetDelta(), "-") {
						transit += n
					} else if leg.GetCounterAccount() == limits.Transit {
						transit -= n
					}
				}
			}
			if transit != 0 {
				t.Errorf("%d are in transit for ever", transit)
			}
			for _, r := range l.read(t, topics.Replies) {
				reply := &ledgerv1.Reply{}
				must(t, proto.Unmarshal(r.Value, reply))
				if id := reply.GetOutcome().GetCommandId(); limits.Derived(id) {
					t.Errorf("a caller is told of %q", id)
				}
			}
		})
	}
}

func transferOf(id, from, to, amount string) *ledgerv1.Command {
	c := debit(id, from, amount)
	c.Operation, c.CounterAccount, c.ReplyTo = ledgerv1.Operation_OPERATION_TRANSFER, to, "caller"
	return c
}

func reversalOf(id, account, of string) *ledgerv1.Command {
	return &ledgerv1.Command{
		CommandId: id, Account: account, Operation: ledgerv1.Operation_OPERATION_REVERSE, ReplyTo: "caller", Reverse: &ledgerv1.ReverseTerms{CommandId: of},
	}
}
