package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// replicated is a Redis with replicas, as the test that breaks it sees it: the part that holds the busiest shard.
type replicated struct {
	master     func(t *testing.T) *sandbox.Redis
	replicas   func(t *testing.T) []*sandbox.Redis
	failover   func(t *testing.T)                        // in good order
	awaitOther func(t *testing.T, before *sandbox.Redis) // until another node is the master
	awaitWhole func(t *testing.T)                        // until everybody that runs has its part and its data
}

// look is how often a wait looks.
const look = 20 * time.Millisecond

// busy is the shard of the account that half of the commands are for.
var busy = topics.ShardOf("hot", 4)

// under sends commands while disturb does its work, then waits until everything is decided and audits.
func (w *whole) under(t *testing.T, l load, disturb func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- w.pour(ctx, l) }() // ends with ctx
	w.advance(t)
	start := time.Now()
	disturb()
	t.Logf("disturbed for %s", time.Since(start).Round(time.Millisecond))
	w.advance(t)
	stop()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	w.awaitDecided(t)
	w.awaitRedis(t)
	t.Logf("decided %s after it began", time.Since(start).Round(time.Millisecond))
	w.audit(t)
}

// pour sends five hundred commands a second until ctx ends.
func (w *whole) pour(ctx context.Context, l load) error {
	const each, piece = 50 * time.Millisecond, 25
	client, err := kafka.NewClient(w.Writer.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	ticker := time.NewTicker(each)
	defer ticker.Stop()
	for {
		records, _ := l.Draw(piece)
		if err := client.ProduceSync(context.WithoutCancel(ctx), records...).FirstErr(); err != nil {
			return fmt.Errorf("send commands: %w", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// advance waits until the busy shard has decided some more commands.
func (w *whole) advance(t *testing.T) {
	t.Helper()
	const more = 200
	ctx := bounded(t)
	var goal uint64
	for {
		positions, err := w.client.Positions(ctx)
		if ctx.Err() != nil {
			t.Fatalf("wait until shard %d goes on to position %d: %v", busy, goal, err)
		}
		if err == nil && goal == 0 {
			goal = positions[busy] + more
		}
		if err == nil && positions[busy] >= goal {
			return
		}
		time.Sleep(look)
	}
}

// awaitRedis waits until Redis is where the log is. After a failover of a shard that has become idle, that takes an idle check.
func (w *whole) awaitRedis(t *testing.T) {
	t.Helper()
	ctx, store := bounded(t), lua.New(w.Redis)
	for {
		behind, err := w.behind(ctx, store)
		if err == nil && behind == "" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("wait until Redis is where the log is: %s %v", behind, err)
		}
		time.Sleep(look)
	}
}

// behind names a shard whose Redis and log differ, if there is one.
func (w *whole) behind(ctx context.Context, store *lua.Store) (string, error) {
	positions, err := w.client.Positions(ctx)
	if err != nil {
		return "", err
	}
	for shard, position := range positions {
		state, err := store.Inspect(ctx, shard)
		if err != nil {
			return "", err
		}
		if state.Condition != lua.Whole || state.Head.Position != position || len(state.Outbox) != 0 {
			return fmt.Sprintf("shard %d is at %s with %d entries in its outbox, the log at %d", shard, state.Head, len(state.Outbox), position), nil
		}
	}
	return "", nil
}

// bounded is a context for waits, far longer than what any of them takes.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// replicationFaults are what every Redis with replicas must survive. They run one after the other on one ledger.
var replicationFaults = []struct {
	name    string
	disturb func(t *testing.T, w *whole, r replicated)
}{
	{"a master hands over", func(t *testing.T, _ *whole, r replicated) {
		r.failover(t)
		r.awaitWhole(t)
	}},
	{"a master dies and a replica that lags takes over", func(t *testing.T, w *whole, r replicated) {
		master, replicas := r.master(t), r.replicas(t)
		for _, replica := range replicas {
			must(t, replica.Detach(t.Context()))
		}
		w.advance(t) // what only the master has
		master.Kill()
		r.awaitOther(t, master)
		for _, replica := range replicas {
			must(t, replica.Attach(t.Context()))
		}
		w.advance(t)
		must(t, master.Restart(t.Context()))
		r.awaitWhole(t)
	}},
	{"a master is cut off, comes back and is written to", func(t *testing.T, w *whole, r replicated) {
		master := r.master(t)
		must(t, master.Pause())
		r.awaitOther(t, master)
		w.advance(t)
		must(t, master.Resume())
		t.Logf("a zombie's write: %v", w.forge(t, master))
		r.awaitWhole(t)
	}},
	{"a master is wiped", func(t *testing.T, _ *whole, r replicated) {
		client := goredis.NewClient(&goredis.Options{Addr: r.master(t).Addr()})
		defer func() { _ = client.Close() }()
		must(t, client.FlushAll(t.Context()).Err())
	}},
	{"a master restarts empty and wipes its replicas", func(t *testing.T, w *whole, r replicated) {
		master := r.master(t)
		master.Kill()
		must(t, master.Restart(t.Context()))
		w.advance(t)
		r.awaitWhole(t)
	}},
}

// survive runs the faults under load, each followed by an audit.
func (w *whole) survive(t *testing.T, r replicated) {
	t.Helper()
	w.serve(t)
	l := newWorkload(t, 4)
	l.open(t, w)
	for _, fault := range replicationFaults {
		if !t.Run(fault.name, func(t *testing.T) { w.under(t, l, func() { fault.disturb(t, w, r) }) }) {
			return // what follows would stand on a broken ledger
		}
	}
}

// forge lets a writer that nobody fenced decide a command on one server, whatever the log says.
func (w *whole) forge(t *testing.T, server *sandbox.Redis) error {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	store := lua.New(client)
	state, err := store.Inspect(t.Context(), busy)
	if err != nil {
		return err
	}
	c := &ledgerv1.Command{CommandId: "forged-" + t.Name(), Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: "hot", Amount: "1000000", Currency: "EUR"}
	body, err := proto.Marshal(c)
	must(t, err)
	return store.Apply(t.Context(), lua.Call{Shard: busy, Expected: state.Head, Now: time.Now(), Commands: []lua.Command{
		{Command: c, Fingerprint: lua.FingerprintOf(c), Body: body},
	}}).Err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// others are the nodes without one of them.
func others(nodes []*sandbox.Redis, one *sandbox.Redis) []*sandbox.Redis {
	return slices.DeleteFunc(nodes, func(n *sandbox.Redis) bool { return n == one })
}
