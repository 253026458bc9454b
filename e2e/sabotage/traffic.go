package sabotage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

const (
	hotAccounts = 6
	inFlight    = 64
)

func hot(i int) string { return fmt.Sprintf("hot-%d", i) }

// traffic works on the hot accounts as fast as the ledger takes it, until the returned func is called, which says how many commands had an
// outcome: credits and debits, and holds, captures, releases and transfers among them. Outcomes that are lost in a recovery are nobody's
// concern here: the auditor's tests are about them.
func (s *suite) traffic(ctx context.Context) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	sent := 0      // written by the goroutine, read after it has ended
	wg.Go(func() { // ends with ctx
		var pending []*producer.Pending
		for i := 0; ctx.Err() == nil; i++ {
			p, err := s.client.Send(ctx, hotCommand(i))
			if err != nil {
				continue
			}
			if pending = append(pending, p); len(pending) < inFlight {
				continue
			}
			for _, p := range pending {
				if _, err := p.Wait(ctx); err == nil {
					sent++
				}
			}
			pending = pending[:0]
		}
	})
	return sync.OnceValue(func() int { cancel(); wg.Wait(); return sent })
}

// hotCommand is the i-th command of the traffic. Of twenty, three are about a hold, which the third ends, and one is a transfer.
func hotCommand(i int) *ledgerv1.Command {
	//nolint:gosec // a workload, not a secret
	amount := fmt.Sprint(1 + rand.IntN(900))
	c := &ledgerv1.Command{CommandId: fmt.Sprintf("hot-%d", i), Account: hot(i / 20 % hotAccounts), Currency: "EUR", Amount: amount}
	switch i % 20 {
	case 3:
		c.Operation, c.CommandId = ledgerv1.Operation_OPERATION_HOLD, fmt.Sprintf("hold-%d", i/20)
	case 9:
		c.Operation, c.HoldId, c.Amount = ledgerv1.Operation_OPERATION_CAPTURE, fmt.Sprintf("hold-%d", i/20), "1"
	case 15:
		c.Operation, c.HoldId, c.Amount = ledgerv1.Operation_OPERATION_RELEASE, fmt.Sprintf("hold-%d", i/20), ""
	case 17:
		c.Operation, c.CounterAccount = ledgerv1.Operation_OPERATION_TRANSFER, hot((i/20+1)%hotAccounts)
	default:
		//nolint:gosec // a workload, not a secret
		c.Account, c.Operation = hot(rand.IntN(hotAccounts)), ledgerv1.Operation_OPERATION_CREDIT
		if i%2 == 1 {
			c.Operation = ledgerv1.Operation_OPERATION_DEBIT // often refused
		}
	}
	return c
}
