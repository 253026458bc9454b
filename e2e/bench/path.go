package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/metrics"
	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// path is the whole path in this process: writers that run, and a client that loads and reads back.
type path struct {
	cfg    writer.Config
	client *kgo.Client
	cancel context.CancelFunc
	ended  []chan error
}

// startPath starts writers, and a client that takes up to buffered commands at once. Close ends both.
func startPath(ctx context.Context, environ []string, writers, buffered int) (_ *path, err error) {
	p := &path{cancel: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	running, cancel := context.WithCancel(ctx)
	p.cancel = cancel
	for i := range writers {
		p.cfg = writer.Config{}
		if err := config.Load("ledger-writer", &p.cfg, nil, append([]string{"LEDGER_WRITER_INSTANCE_ID=bench-" + strconv.Itoa(i)}, environ...)); err != nil {
			return p, err
		}
		w, err := writer.New(p.cfg, zap.NewNop(), prometheus.NewRegistry(), metrics.NewHealth())
		if err != nil {
			return p, err
		}
		ended := make(chan error, 1)
		p.ended = append(p.ended, ended)
		go func() { ended <- w.Run(running) }() // ends with close
	}
	if p.client, err = kafka.NewClient(p.cfg.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(buffered+2)); err != nil {
		return p, err
	}
	if _, err := kafka.EnsureTopics(ctx, p.cfg.Kafka, p.client); err != nil {
		return p, err
	}
	return p, p.awaitMembers(ctx, writers)
}

func (p *path) close() error {
	p.cancel()
	var problems []error
	for _, ended := range p.ended {
		problems = append(problems, <-ended)
	}
	if p.client != nil {
		p.client.Close()
	}
	return errors.Join(problems...)
}

// awaitMembers waits until so many writers share the shards. A fresh broker has no coordinator at first.
func (p *path) awaitMembers(ctx context.Context, writers int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	admin := kadm.NewClient(p.client)
	for {
		groups, err := admin.DescribeGroups(ctx, p.cfg.Group)
		if g := groups[p.cfg.Group]; err == nil && g.State == "Stable" && len(g.Members) == writers {
			return nil
		}
		if ended := pause(ctx); ended != nil {
			return fmt.Errorf("wait for %d writers: %w", writers, errors.Join(ended, err))
		}
	}
}

// load is the shard of an account, loaded from outside.
func (p *path) load(account string) hotLoad {
	return p.shard(topics.ShardOf(account, p.cfg.Kafka.Shards))
}

func (p *path) shard(number int) hotLoad {
	return hotLoad{client: p.client, shard: int32(number), group: p.cfg.Group}
}

// push hands records over and waits until the writer has committed so many commands of the shard in all.
func (l hotLoad) push(ctx context.Context, records []*kgo.Record, committed int) error {
	for _, r := range records {
		l.client.Produce(ctx, r, nil) // a lost one shows in the count
	}
	return l.waitCommitted(ctx, int64(committed))
}

// book is an account as the log leaves it.
type book struct {
	balance  int64
	sequence uint64
}

// log is what readBack found: the accounts, and how many bytes its events have.
type log struct {
	books map[string]*book
	bytes int
}

// readBack reads that many events of the shard. Each must be linked to the one before, be the one of the command that was sent in its place (by
// number, from 0), and change its account from where the one before left it.
func (l hotLoad) readBack(ctx context.Context, cfg kafka.Config, count int, sent func(i int) string) (log, error) {
	found := log{books: map[string]*book{}}
	reader, err := kafka.NewClient(cfg, zap.NewNop(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Events: {l.shard: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return found, err
	}
	defer reader.Close()
	link := lua.FirstLink
	for link.Position < uint64(count) {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return found, err
		}
		for _, r := range fetches.Records() {
			e := &ledgerv1.Event{}
			if err := proto.Unmarshal(r.Value, e); err != nil {
				return found, err
			}
			o := e.GetOutcome()
			if expected := sent(int(link.Position)); o.GetCommandId() != expected {
				return found, fmt.Errorf("event %d is of %s, sent was %s", o.GetPosition(), o.GetCommandId(), expected)
			}
			if link, err = lua.LinkAfter(link, e); err != nil {
				return found, err
			}
			if !found.take(o) {
				return found, fmt.Errorf("event %d of %s is wrong", o.GetPosition(), o.GetCommandId())
			}
			found.bytes += len(r.Value) + len(r.Key)
		}
	}
	return found, nil
}

// take books an outcome; false where it does not follow from the account as it was.
func (l log) take(o *ledgerv1.Outcome) bool {
	b := l.books[o.GetAccount()]
	if b == nil {
		b = &book{}
		l.books[o.GetAccount()] = b
	}
	delta, err := strconv.ParseInt(o.GetDelta(), 10, 64)
	b.balance, b.sequence = b.balance+delta, b.sequence+1
	return err == nil && o.GetStatus() == ledgerv1.Status_STATUS_APPLIED &&
		o.GetAfter().GetBalance() == strconv.FormatInt(b.balance, 10) && o.GetAfter().GetSequence() == b.sequence
}
