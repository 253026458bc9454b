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

// traffic credits and debits the hot accounts as fast as the ledger takes it, until the returned func is called, which says how many
// commands had an outcome. Outcomes that are lost in a recovery are nobody's concern here: the auditor's tests are about them.
func (s *suite) traffic(ctx context.Context) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	sent := 0      // written by the goroutine, read after it has ended
	wg.Go(func() { // ends with ctx
		var pending []*producer.Pending
		for i := 0; ctx.Err() == nil; i++ {
			//nolint:gosec // a workload, not a secret
			account, amount := hot(rand.IntN(hotAccounts)), 1+rand.IntN(900)
			c := &ledgerv1.Command{
				CommandId: fmt.Sprintf("hot-%d", i), Account: account, Currency: "EUR", Amount: fmt.Sprint(amount),
				Operation: ledgerv1.Operation_OPERATION_CREDIT,
			}
			if i%2 == 1 {
				c.Operation = ledgerv1.Operation_OPERATION_DEBIT // often refused
			}
			p, err := s.client.Send(ctx, c)
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
