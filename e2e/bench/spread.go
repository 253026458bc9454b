package bench

import (
	"context"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kgo"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// spread loads all shards of a path: each command goes to the shard of its account.
type spread struct {
	path *path
	sent []idList // by shard
}

// idList is the ids of commands, in their order, without a pointer for the garbage collector to follow.
type idList struct {
	text []byte // one after the other
	ends []int
}

func (l *idList) add(id string) {
	l.text = append(l.text, id...)
	l.ends = append(l.ends, len(l.text))
}

func (l *idList) at(i int) string {
	begin := 0
	if i > 0 {
		begin = l.ends[i-1]
	}
	return string(l.text[begin:l.ends[i]])
}

func (p *path) spread() *spread { return &spread{path: p, sent: make([]idList, p.cfg.Kafka.Shards)} }

// records are the next commands, to be pushed.
func (s *spread) records(count int, make1 func(i int) *ledgerv1.Command) ([]*kgo.Record, error) {
	records := make([]*kgo.Record, count)
	for i := range records {
		c := make1(i)
		load := s.path.load(c.GetAccount())
		var err error
		if records[i], err = load.record(c); err != nil {
			return nil, err
		}
		s.sent[load.shard].add(c.GetCommandId())
	}
	return records, nil
}

// push hands records over and waits until the writers have committed all that were made.
func (s *spread) push(ctx context.Context, records []*kgo.Record) error {
	for _, r := range records {
		s.path.client.Produce(ctx, r, nil) // a lost one shows in the count
	}
	for shard := range s.sent {
		if err := s.path.shard(shard).waitCommitted(ctx, int64(len(s.sent[shard].ends))); err != nil {
			return err
		}
	}
	return nil
}

// readBack reads all events of all shards, and returns the accounts as they leave them.
func (s *spread) readBack(ctx context.Context) (map[string]*book, error) {
	books := map[string]*book{}
	for shard := range s.sent {
		ids := &s.sent[shard]
		found, err := s.path.shard(shard).readBack(ctx, s.path.cfg.Kafka, len(ids.ends), ids.at)
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
		maps.Copy(books, found.books)
	}
	return books, nil
}
