package importer

import (
	"context"

	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// accountsMin is how many accounts are kept in mind before those whose commands are all decided are dropped.
const accountsMin = 10_000

// order keeps the order of the file where the ledger alone would not. The commands of one account are decided in the order in which they are
// sent; but what is transferred to it arrives by way of another account's shard. So a transfer waits for what its far end was sent before, and
// what the far end is sent next waits for the transfer. A reversal may give back to an account that the file does not name: all wait for it.
// What a refused transfer gives back may come after its account's next command.
type order struct {
	own      map[string]*producer.Pending   // the last command of each account
	arriving map[string][]*producer.Pending // transfers to each account since its last command
	reversal *producer.Pending              // the last command, if it was one
	sweepAt  int
}

func newOrder() *order {
	return &order{own: map[string]*producer.Pending{}, arriving: map[string][]*producer.Pending{}, sweepAt: accountsMin}
}

// wait returns when the command may be sent. The error is that of an outcome which stays unknown.
func (o *order) wait(ctx context.Context, cmd *ledgerv1.Command) error {
	pendings := o.arriving[cmd.GetAccount()]
	delete(o.arriving, cmd.GetAccount())
	if far := farEnd(cmd); far != "" && o.own[far] != nil {
		pendings = append(pendings, o.own[far])
	}
	if o.reversal != nil {
		pendings = append(pendings, o.reversal)
		o.reversal = nil
	}
	for _, p := range pendings {
		if _, err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sent takes note of a command that is on its way.
func (o *order) sent(cmd *ledgerv1.Command, p *producer.Pending) {
	o.own[cmd.GetAccount()] = p
	if far := farEnd(cmd); far != "" {
		o.arriving[far] = append(o.arriving[far], p)
	}
	if cmd.GetOperation() == ledgerv1.Operation_OPERATION_REVERSE {
		o.reversal = p
	}
	if len(o.own)+len(o.arriving) >= o.sweepAt {
		o.sweep()
	}
}

// sweep drops what is decided, and nothing depends on any more.
func (o *order) sweep() {
	for account, p := range o.own {
		if decided(p) {
			delete(o.own, account)
		}
	}
	for account, pendings := range o.arriving {
		open := pendings[:0]
		for _, p := range pendings {
			if !decided(p) {
				open = append(open, p)
			}
		}
		if o.arriving[account] = open; len(open) == 0 {
			delete(o.arriving, account)
		}
	}
	o.sweepAt = max(accountsMin, 2*(len(o.own)+len(o.arriving)))
}

func decided(p *producer.Pending) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// farEnd is the other controlled account that a command changes; "" for all but transfers.
func farEnd(cmd *ledgerv1.Command) string {
	if cmd.GetOperation() != ledgerv1.Operation_OPERATION_TRANSFER || limits.External(cmd.GetCounterAccount()) {
		return ""
	}
	return cmd.GetCounterAccount()
}
