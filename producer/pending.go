package producer

import (
	"context"
	"fmt"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"google.golang.org/protobuf/proto"
)

// Pending is a command that was sent. It ends with an outcome or with an *OutcomeUnknownError, at the latest when
// Config.OutcomeTimeout has passed since it was sent. It is safe for concurrent use.
type Pending struct {
	client  *Client
	command *ledgerv1.Command // as sent; never written after
	weight  int64             // slots held
	timer   *time.Timer       // set under client.mu before anyone else sees p
	ack     chan struct{}     // closed when the brokers answered, well or not
	done    chan struct{}     // closed when the fields below are set; read them after it alone

	outcome *ledgerv1.Outcome
	detail  string
	err     error

	// Under client.mu. The slots are given back when both are true: the record no longer lies in the Kafka client's
	// buffer, and p is no longer registered.
	settled      bool // done is closed
	written      bool // ack is closed
	unregistered bool
}

// ID is the command's id: what to look up, or to send again, when the outcome stays unknown.
func (p *Pending) ID() string { return p.command.GetCommandId() }

// Command is what was sent, the time of the first request included: send it again to learn an unknown outcome. Do not change it.
func (p *Pending) Command() *ledgerv1.Command { return p.command }

func (p *Pending) unknown(cause error) error {
	return &OutcomeUnknownError{CommandID: p.ID(), Command: p.command, Cause: cause}
}

// Done is closed when Wait would return at once.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait waits for the committed outcome, applied or rejected. When ctx ends first it returns an *OutcomeUnknownError, and
// a later Wait may still succeed. The outcome is the same for every call; do not change it.
func (p *Pending) Wait(ctx context.Context) (*ledgerv1.Outcome, error) {
	select {
	case <-p.done:
		return p.outcome, p.err
	default:
	}
	select {
	case <-p.done:
		return p.outcome, p.err
	case <-ctx.Done():
		return nil, p.unknown(context.Cause(ctx))
	}
}

// Detail says for a person what exactly was wrong with a rejected command. It is empty before Wait has returned an
// outcome, and for an applied one.
func (p *Pending) Detail() string {
	select {
	case <-p.done:
		return p.detail
	default:
		return ""
	}
}

// acked waits until the brokers have the command.
func (p *Pending) acked(ctx context.Context) error {
	select {
	case <-p.ack:
	case <-p.done: // answered, timed out or closed; an answer is as good as an acknowledgement
		return p.err
	case <-ctx.Done():
		return p.unknown(context.Cause(ctx))
	}
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// register enters p under its id. One id is in flight with one payload: a reply names nothing but the id, so with two
// payloads an answer could reach the wrong one.
func (c *Client) register(p *Pending) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return &NotSentError{CommandID: p.ID(), Cause: ErrClosed}
	}
	others := c.inFlight[p.ID()]
	if len(others) > 0 && !samePayload(others[0].command, p.command) {
		return &InvalidCommandError{
			CommandID: p.ID(), Reason: ledgerv1.Reason_REASON_COMMAND_ID_REUSED,
			Text: fmt.Sprintf("command id %q is in flight with another payload; choose a new id for a new request", p.ID()),
		}
	}
	c.inFlight[p.ID()] = append(others, p)
	p.timer = time.AfterFunc(c.cfg.OutcomeTimeout, func() {
		c.forget(p, p.unknown(ErrOutcomeTimeout))
	})
	return nil
}

// samePayload compares two commands as sent, without what describes the request alone.
func samePayload(a, b *ledgerv1.Command) bool {
	return proto.Equal(payload(a), payload(b))
}

func payload(cmd *ledgerv1.Command) *ledgerv1.Command {
	cmd = proto.CloneOf(cmd)
	cmd.RequestedAt, cmd.Source, cmd.ReplyTo, cmd.Traceparent = nil, "", "", ""
	return cmd
}

// produced takes note of the brokers' answer to the record of p. An error does not tell whether the record was written,
// after retries least of all, so the outcome is unknown.
func (c *Client) produced(p *Pending, err error) {
	if err != nil {
		c.forget(p, p.unknown(fmt.Errorf("send to Kafka: %w", err)))
	}
	c.mu.Lock()
	p.written = true
	free := p.unregistered
	c.mu.Unlock()
	close(p.ack)
	if free {
		c.slots.Release(p.weight)
	}
}

// answer gives the outcome to everybody who waits for the id. One reply stands for one record that was sent: the oldest
// is struck off, the others stay registered for the replies that are still to come, so that those cannot be taken for
// the answer to a later command that reuses the id.
func (c *Client) answer(reply *ledgerv1.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pendings := c.inFlight[reply.GetOutcome().GetCommandId()]
	if len(pendings) == 0 {
		return
	}
	for i, p := range pendings {
		outcome := reply.GetOutcome()
		if i > 0 {
			outcome = proto.CloneOf(outcome)
		}
		p.settle(outcome, reply.GetDetail(), nil)
	}
	c.unregister(pendings[0])
}

// forget ends the wait for p without an outcome. Without effect on a Pending that has one.
func (c *Client) forget(p *Pending, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.settle(nil, "", err)
	c.unregister(p)
}

// settle is called under client.mu; the first call wins.
func (p *Pending) settle(outcome *ledgerv1.Outcome, detail string, err error) {
	if p.settled {
		return
	}
	p.settled = true
	p.outcome, p.detail, p.err = outcome, detail, err
	close(p.done)
}

// unregister is called under mu. Calling it twice is harmless.
func (c *Client) unregister(p *Pending) {
	if p.unregistered {
		return
	}
	p.unregistered = true
	p.timer.Stop()
	id := p.ID()
	rest := c.inFlight[id]
	for i, other := range rest {
		if other == p {
			rest = append(rest[:i:i], rest[i+1:]...)
			break
		}
	}
	if len(rest) == 0 {
		delete(c.inFlight, id)
	} else {
		c.inFlight[id] = rest
	}
	if p.written {
		c.slots.Release(p.weight)
	}
}
