package e2e

import (
	"testing"

	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/sandbox"
)

func TestALedgerBehindSentinelsSurvivesWhatBefallsItsMaster(t *testing.T) {
	t.Parallel()
	w := setupOn(t, stack.Options{Topology: stack.Sentinel})
	s := w.engines.Sentinel
	master := func(t *testing.T) *sandbox.Redis {
		master, err := s.Master(bounded(t))
		must(t, err)
		return master
	}
	w.survive(t, replicated{
		master:     master,
		replicas:   func(t *testing.T) []*sandbox.Redis { return others(s.Nodes(), master(t)) },
		failover:   func(t *testing.T) { must(t, s.Failover(bounded(t))) },
		awaitOther: func(t *testing.T, before *sandbox.Redis) { must(t, s.AwaitFailover(bounded(t), before)) },
		awaitWhole: func(t *testing.T) {
			for _, node := range others(s.Nodes(), master(t)) {
				must(t, s.AwaitReplica(bounded(t), node))
			}
		},
	})
}
