package e2e

import (
	"math/rand/v2"
	"testing"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/e2e/workload"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// load is a workload whose seed the test prints.
type load struct{ *workload.Workload }

func newWorkload(t *testing.T, shards int) load {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return load{workload.New(seed, shards)}
}

// send produces n records of the workload in their order.
func (l load) send(t *testing.T, cfg kafka.Config, n int) (poisoned int) {
	t.Helper()
	poisoned, err := l.Send(t.Context(), cfg, n)
	if err != nil {
		t.Fatal(err)
	}
	return poisoned
}

// open opens half of the accounts of the workload through the ledger's own client.
func (l load) open(t *testing.T, whole *whole) {
	t.Helper()
	for _, c := range l.Opening() {
		outcome, err := whole.client.Submit(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
			t.Fatalf("%s: %v", c.GetCommandId(), outcome)
		}
	}
}
