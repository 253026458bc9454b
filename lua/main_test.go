package lua

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"

	"github.com/hotledger/hotledger/sandbox"
)

// addrs of the Redis that the tests share; written by TestMain before any test runs.
var addrs []string

// lastShard: every test takes shard numbers of its own, far above those of a real ledger, so that all can use one Redis at once.
var lastShard atomic.Int64

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	lastShard.Store(int64(1+rand.IntN(1000)) << 20)
	stop := func() error { return nil }
	if list := os.Getenv("REDIS_ADDRS"); list != "" {
		addrs = strings.Split(list, ",")
	} else {
		server, err := sandbox.StartRedis(context.Background(), sandbox.RedisOptions{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		addrs, stop = []string{server.Addr()}, server.Stop
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func client(t testing.TB, protocol int, addrs ...string) redis.UniversalClient {
	t.Helper()
	const patience = time.Minute // the machine may be busy; no test is about timeouts
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, MaxRetries: -1, Protocol: protocol,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// bench is one shard of its own, at Genesis, and the head that its writer believes in.
type bench struct {
	testing.TB
	rdb   redis.UniversalClient
	store *Store
	shard int
	head  Head
	link  Link // of the last event
	now   time.Time
	ids   int
	// history is the log of a shard whose outbox a rebuild clears, by calls.
	history [][]*ledgerv1.Event
}

func setup(t testing.TB) *bench {
	t.Helper()
	return setupOn(t, client(t, 3, addrs...))
}

func setupOn(t testing.TB, rdb redis.UniversalClient) *bench {
	t.Helper()
	b := &bench{TB: t, rdb: rdb, store: New(rdb), shard: int(lastShard.Add(1)), head: Genesis, link: FirstLink, now: time.UnixMilli(1_700_000_000_000)}
	t.Cleanup(func() { rdb.Unlink(context.Background(), b.keys()...) })
	b.rebuild("g1")
	return b
}

func (b *bench) keys() []string { return append(LiveKeys(b.shard), buildKeys(b.shard)...) }

// rebuild makes the live keys anew from these events, one call at a time; the last one ends a call.
func (b *bench) rebuild(generation string, events ...*ledgerv1.Event) {
	b.Helper()
	build, err := b.store.BeginBuild(b.Context(), b.shard, generation)
	b.ok(err)
	for _, call := range calls(events) {
		b.ok(build.Add(b.Context(), call))
	}
	b.ok(build.Swap(b.Context()))
}

// calls cuts events where calls end.
func calls(events []*ledgerv1.Event) [][]*ledgerv1.Event {
	var all [][]*ledgerv1.Event
	begun := 0
	for i, e := range events {
		if _, ends := PointOf(e); ends {
			all, begun = append(all, events[begun:i+1]), i+1
		}
	}
	if begun < len(events) {
		all = append(all, events[begun:])
	}
	return all
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// id is a new command id.
func (b *bench) id() string {
	b.ids++
	return fmt.Sprintf("c%d", b.ids)
}

// open takes "floor" or "floor:ceiling".
func (b *bench) open(account, limits string) *ledgerv1.Command {
	floor, ceiling, _ := strings.Cut(limits, ":")
	return &ledgerv1.Command{CommandId: b.id(), Operation: ledgerv1.Operation_OPERATION_OPEN, Account: account, Currency: "USD",
		Open: &ledgerv1.OpenTerms{Floor: floor, Ceiling: ceiling}}
}

func (b *bench) debit(account, amount string) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: b.id(), Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: account, Amount: amount, Currency: "USD"}
}

func (b *bench) credit(account, amount string) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: b.id(), Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: account, Amount: amount, Currency: "USD"}
}

// changed is a copy of a command with something about it changed.
func changed(c *ledgerv1.Command, change func(*ledgerv1.Command)) *ledgerv1.Command {
	c = proto.CloneOf(c)
	change(c)
	return c
}

// received is the command as the writer has it after reading it from Kafka.
func received(t testing.TB, c *ledgerv1.Command) Command {
	t.Helper()
	body, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return Command{Command: c, Fingerprint: FingerprintOf(c), Body: body}
}

func (b *bench) call(commands ...*ledgerv1.Command) Call {
	b.Helper()
	call := Call{Shard: b.shard, Expected: b.head, Now: b.now}
	for _, c := range commands {
		call.Commands = append(call.Commands, received(b, c))
	}
	return call
}

// apply runs one call and believes in its head.
func (b *bench) apply(commands ...*ledgerv1.Command) []Decision {
	b.Helper()
	return b.run(b.call(commands...))
}

func (b *bench) run(call Call) []Decision {
	b.Helper()
	r := b.store.Apply(b.Context(), call)
	b.ok(r.Err)
	b.head = r.Head
	for i, d := range r.Decisions {
		if d.Kind == Decided {
			var err error
			_, b.link, err = b.link.Event(call.Commands[i], d)
			b.ok(err)
		}
	}
	return r.Decisions
}

// expect holds one call's decisions against their short form (said).
func (b *bench) expect(commands []*ledgerv1.Command, want ...string) {
	b.Helper()
	b.said(b.apply(commands...), want...)
}

func (b *bench) said(decisions []Decision, want ...string) {
	b.Helper()
	got := make([]string, len(decisions))
	for i, d := range decisions {
		got[i] = said(d)
	}
	if !slices.Equal(got, want) {
		b.Errorf("decided\n  %s\nnot\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// said is a decision as "[remembered |reused ]<word> <delta> <balance>@<sequence>", or "-" for an account that does not exist.
func said(d Decision) string {
	kind := map[Kind]string{Decided: "", Remembered: "remembered ", Reused: "reused "}[d.Kind]
	word := "applied"
	if d.Outcome.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		word = reasonWord(d.Outcome.GetReason())
	}
	after := "-"
	if a := d.Outcome.GetAfter(); a != nil {
		after = fmt.Sprintf("%s@%d", a.GetBalance(), a.GetSequence())
	}
	return kind + word + " " + d.Outcome.GetDelta() + " " + after
}

func list(commands ...*ledgerv1.Command) []*ledgerv1.Command { return commands }

// record is the account's text in Redis, "" if it has none.
func (b *bench) record(account string) string {
	b.Helper()
	return b.rdb.HGet(b.Context(), AccountsKey(b.shard), account).Val()
}

// dump is every key of the shard for restore; a missing one is "".
func (b *bench) dump() map[string]string {
	b.Helper()
	dump := map[string]string{}
	for _, key := range b.keys() {
		text, err := b.rdb.Dump(b.Context(), key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			b.Fatal(err)
		}
		dump[key] = text
	}
	return dump
}

// content is every key of the shard, byte for byte. A hash is listed by field: the order in its DUMP changes when it is merely read.
func (b *bench) content() map[string]string {
	b.Helper()
	content := b.dump()
	for _, key := range b.keys() {
		if fields, err := b.rdb.HGetAll(b.Context(), key).Result(); err == nil && len(fields) > 0 {
			content[key] = fmt.Sprintf("%q", fields)
		}
	}
	return content
}

// restore puts the keys back to an older dump.
func (b *bench) restore(dump map[string]string) {
	b.Helper()
	for key, text := range dump {
		b.ok(b.rdb.Del(b.Context(), key).Err())
		if text != "" {
			b.ok(b.rdb.Restore(b.Context(), key, 0, text).Err())
		}
	}
}

// untouched runs something that has to leave every key of the shard as it is.
func (b *bench) untouched(what string, run func()) {
	b.Helper()
	before := b.content()
	run()
	if after := b.content(); !maps.Equal(before, after) {
		for key := range before {
			if before[key] != after[key] {
				b.Errorf("%s: changed %s", what, key)
			}
		}
	}
}

// whole reads the shard and fails unless it is whole and at the believed head.
func (b *bench) whole() State {
	b.Helper()
	state, err := b.store.Inspect(b.Context(), b.shard)
	b.ok(err)
	if state.Condition != Whole || state.Head != b.head {
		b.Fatalf("shard is %d (%s) at %s, expected whole at %s", state.Condition, state.Why, state.Head, b.head)
	}
	return state
}

// log is every event of the outbox, which is the whole log as long as nothing was trimmed.
func (b *bench) log() []*ledgerv1.Event {
	b.Helper()
	var events []*ledgerv1.Event
	for _, entry := range b.whole().Outbox {
		events = append(events, entry.Events...)
	}
	_, err := FirstLink.Append(events...)
	b.ok(err)
	return events
}

// point is where the believed log ends.
func (b *bench) point() Point { return Point{Head: b.head, Link: b.link} }

// moveTo makes the bench believe in another end of the log.
func (b *bench) moveTo(p Point) { b.head, b.link = p.Head, p.Link }

// args are the arguments of a call.
func (c Call) args(window time.Duration) []any {
	p, err := (&Store{}).Remembering(window).Prepare(c)
	if err != nil {
		panic(err) // a call that a test made
	}
	return p.send()
}

// result reads a reply.
func (c Call) result(reply []any) Result {
	a, err := (&Prepared{Call: c}).answer(reply)
	if err != nil {
		return Result{Err: err}
	}
	return a.Result()
}
