package producer

import (
	"errors"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// receive hands replies to those who wait, until the client closes. The partition is shared with other clients, whose
// replies are skipped by their key alone wherever possible.
func (c *Client) receive() {
	defer c.wg.Done()
	for {
		fetches := c.kafka.PollFetches(c.closing)
		if c.closing.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			// Retriable errors never come up here. What was sent stays valid; its outcomes become unknown by timeout.
			if !errors.Is(err, kgo.ErrClientClosed) {
				c.logger.Warn("cannot read replies", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
			}
		})
		fetches.EachRecord(c.received)
	}
}

func (c *Client) received(record *kgo.Record) {
	c.mu.Lock()
	_, ours := c.inFlight[string(record.Key)]
	c.mu.Unlock()
	if !ours {
		return
	}
	reply := &ledgerv1.Reply{}
	if err := proto.Unmarshal(record.Value, reply); err != nil {
		c.logger.Warn("skipped a reply that does not decode",
			zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset), zap.Error(err))
		return
	}
	// Another client may have sent the same id: its answer is addressed to it, and ours is still to come.
	if reply.GetReplyTo() != c.replyTo || reply.GetOutcome().GetStatus() == ledgerv1.Status_STATUS_UNSPECIFIED {
		return
	}
	c.answer(reply)
}
