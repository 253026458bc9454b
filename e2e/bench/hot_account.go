package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Load is what a load took.
type Load struct {
	PerSecond float64       // commands
	CPU       time.Duration // of this process: writer, load, and Kafka where it is embedded
	Redis     time.Duration // of Redis' CPU
}

// hotPath is the whole path on one account, with the writer, Kafka, Redis and the load on the same cores. Round by round Redis remembers, and the log holds,
// ever more.
type hotPath struct {
	*path
	hotLoad
	rdb   *redis.Client
	count int // debits of a round
	done  int
}

// startHot starts the writer and funds the account. End it with verify and close, or close alone.
func startHot(ctx context.Context, environ []string, rdb *redis.Client, count int) (*hotPath, error) {
	p, err := startPath(ctx, environ, 1, count)
	if err != nil {
		return nil, err
	}
	h := &hotPath{path: p, hotLoad: p.load(hotAccount), rdb: rdb, count: count}
	if err := h.fund(ctx, hotAccount); err != nil { // the writer owns its shards and is warm
		return nil, errors.Join(err, p.close())
	}
	return h, nil
}

// round measures from the first command in Kafka to the last event committed in Kafka.
func (h *hotPath) round(ctx context.Context) (Load, error) {
	records, err := h.records(h.count, func(n int) *ledgerv1.Command { return debit(h.done+n, hotAccount) })
	if err != nil {
		return Load{}, err
	}
	h.done += h.count
	return measure(ctx, h.rdb, h.count, func() error { return h.push(ctx, records, h.done+2) })
}

// verify reads every event back: linked, one per command, the balance right. It returns how many bytes they have.
func (h *hotPath) verify(ctx context.Context) (bytes int, err error) {
	found, err := h.verifyHot(ctx, h.path, hotAccount, h.done)
	return found.bytes, err
}

// hotRounds runs so many rounds and verifies them. It tells what each took.
func hotRounds(ctx context.Context, environ []string, rdb *redis.Client, count, rounds int, took func(round int, l Load)) (err error) {
	h, err := startHot(ctx, environ, rdb, count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for i := range rounds {
		load, err := h.round(ctx)
		if err != nil {
			return err
		}
		took(i+1, load)
	}
	_, err = h.verify(ctx)
	return err
}

// measure tells what a load of so many commands takes.
func measure(ctx context.Context, rdb *redis.Client, commands int, load func() error) (Load, error) {
	start, cpu := time.Now(), processCPU()
	before, err := redisCPU(ctx, rdb)
	if err != nil {
		return Load{}, err
	}
	if err := load(); err != nil {
		return Load{}, err
	}
	took := Load{PerSecond: float64(commands) / time.Since(start).Seconds(), CPU: processCPU() - cpu}
	after, err := redisCPU(ctx, rdb)
	took.Redis = after - before
	return took, err
}

// hotLoad loads one shard.
type hotLoad struct {
	client *kgo.Client
	shard  int32
	group  string
}

func (l hotLoad) record(c *ledgerv1.Command) (*kgo.Record, error) {
	value, err := proto.Marshal(c)
	now := time.Now() // the client would ask for it while it is measured
	return &kgo.Record{Topic: topics.Commands, Partition: l.shard, Key: []byte(c.GetAccount()), Value: value, Timestamp: now}, err
}

// fund opens an account with more than a run can use up.
func (l hotLoad) fund(ctx context.Context, account string) error {
	open, credit := openAndFund(account)
	if err := l.send(ctx, open, credit); err != nil {
		return err
	}
	return l.waitCommitted(ctx, 2)
}

// openAndFund are the first two commands of an account.
func openAndFund(account string) (open, credit *ledgerv1.Command) {
	open = command("open "+account, ledgerv1.Operation_OPERATION_OPEN, "")
	credit = command("fund "+account, ledgerv1.Operation_OPERATION_CREDIT, strconv.Itoa(hotFunds))
	open.Account, credit.Account = account, account
	return open, credit
}

func (l hotLoad) records(count int, make1 func(i int) *ledgerv1.Command) ([]*kgo.Record, error) {
	records := make([]*kgo.Record, count)
	for i := range records {
		var err error
		if records[i], err = l.record(make1(i)); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func (l hotLoad) send(ctx context.Context, commands ...*ledgerv1.Command) error {
	for _, c := range commands {
		r, err := l.record(c)
		if err != nil {
			return err
		}
		if err := l.client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// waitCommitted waits until the writer has committed that many commands of the shard: their events are committed with them.
func (l hotLoad) waitCommitted(ctx context.Context, offset int64) error {
	admin := kadm.NewClient(l.client)
	for {
		offsets, err := admin.FetchOffsets(ctx, l.group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // the writer has not joined yet
			return err
		}
		if at, ok := offsets.Lookup(topics.Commands, l.shard); ok && at.At >= offset {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("wait for %d commands: %w", offset, err)
		}
	}
}

// pause is between two looks, and well below what is measured. It ends with ctx.
func pause(ctx context.Context) error {
	select {
	case <-time.After(5 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verifyHot reads back what fund and debits of 1 left.
func (l hotLoad) verifyHot(ctx context.Context, p *path, account string, count int) (log, error) {
	open, credit := openAndFund(account)
	found, err := l.readBack(ctx, p.cfg.Kafka, count+2, func(i int) string {
		switch i {
		case 0:
			return open.GetCommandId()
		case 1:
			return credit.GetCommandId()
		}
		return debitID(i - 2)
	})
	if err != nil {
		return found, err
	}
	return found, found.books[account].debited(account, count)
}

// debited says what is wrong with an account that was opened, funded, and debited so many times by 1.
func (b *book) debited(account string, count int) error {
	if b == nil || b.balance != int64(hotFunds-count) || b.sequence != uint64(count+2) {
		return fmt.Errorf("account %s: %+v after %d debits", account, b, count)
	}
	return nil
}
