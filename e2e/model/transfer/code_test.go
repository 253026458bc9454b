package transfer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/e2e/auditor"
	"github.com/hotledger/hotledger/e2e/model/explore"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// TestTheCodeComesToWhatTheModelComesTo: a real ledger is asked for all plans at once. Meanwhile it loses its Redis, and the holds and deadlines of every
// other plan end. What its logs say of a plan at last, and what its callers are told, is one of the ends that the model comes to. Then everybody asks
// again, and hears the same.
func TestTheCodeComesToWhatTheModelComesTo(t *testing.T) {
	t.Parallel()
	l, plans := begin(t), plansOfTheCode(t)
	var openings, commands, more []*ledgerv1.Command
	for n, p := range plans {
		openings = append(openings, p.openings(n)...)
	}
	l.send(t, openings)
	ends := [...]time.Time{time.Now().Add(time.Hour), time.Now().Add(time.Second)}
	for n, p := range plans {
		commands = append(commands, p.requests(n, first, ends[n%2])...)
		more = append(more, p.requests(n, again, ends[n%2])...)
	}
	l.send(t, commands)
	if err := l.Redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	l.quiet(t)
	l.holdsEnd(t, ends[1])
	l.send(t, more)
	l.quiet(t)

	logs, told := l.logs(t), l.told(t)
	different := 0
	for n, p := range plans {
		for _, request := range []uint8{first, again} {
			end := endText(logs[n], told[n][request])
			if !p.ends[end] && different < 3 {
				different++
				t.Errorf("plan %s, request %d: the code comes to\n%s\nthe model to\n%s", p.Name, request, end, strings.Join(slices.Sorted(maps.Keys(p.ends)), "\nor\n"))
			}
		}
	}
	t.Logf("%d plans, %d commands and as many again", len(plans), len(commands))
}

// planned is a plan with what the model comes to.
type planned struct {
	Plan
	ends map[string]bool
}

// plansOfTheCode are those that the code is held against. In every other one, the clock moves to where holds end.
func plansOfTheCode(t *testing.T) []planned {
	t.Helper()
	plans := slices.AppendSeq(slices.Collect(Sequences(3, false)), Sequences(2, true))
	var chosen []planned
	for _, p := range append(plans, Plans...) {
		clock := uint8(len(chosen) % 2 * holdEnds)
		chosen = append(chosen, planned{p, endsOf(t, p, nothing, clock)})
	}
	return chosen
}

// ends notes the states in which all is quiet at a time.
type ends struct {
	*Model
	clock uint8
	texts map[string]bool
}

func endsOf(t *testing.T, p Plan, without Rule, clock uint8) map[string]bool {
	t.Helper()
	budget, err := explore.ParseFaults(fmt.Sprintf("clock=%d", clock), faultNames[:])
	must(t, err)
	e := ends{&Model{plan: p, faults: budget, variant: Variant{Rule: without}}, clock, map[string]bool{}}
	if r := explore.Explore(t.Context(), e, explore.Options{StatesMax: statesMax}); r.Cut {
		t.Fatalf("plan %s is not visited wholly", p.Name)
	}
	return e.texts
}

func (e ends) Check(*State) explore.Violation { return "" }

func (e ends) CheckQuiet(s *State) explore.Violation {
	if s.now < e.clock {
		return ""
	}
	var logs [shards][]string
	var told [commandsMax]string
	for i := range s.shards {
		for _, event := range s.shards[i].past() {
			prefix := [...]string{asked: "", credited: "@credit/", returned: "@return/", expired: "@expire/"}[event.kind]
			if event.kind == returned && e.command(event.Record).verb == reverse {
				prefix = "@undo/"
			}
			logs[i] = append(logs[i], eventLine(prefix+e.idText(e.command(event.Record).id), accountText(event.account), reasonNames[event.reason],
				fmt.Sprint(event.delta), fmt.Sprint(event.held), fmt.Sprint(event.left)))
		}
	}
	for n := range e.plan.commands {
		told[n] = reasonNames[s.told[n]]
	}
	e.texts[endText(logs, told)] = true
	return ""
}

func eventLine(id, account, reason, delta, held, left string) string {
	return fmt.Sprintf("%s on %s: %s %s, %s held, %s left of the hold", id, account, reason, delta, held, left)
}

func endText(logs [shards][]string, told [commandsMax]string) string {
	return fmt.Sprintf("log 0: %s\nlog 1: %s\ntold: %s", strings.Join(logs[0], "; "), strings.Join(logs[1], "; "), strings.TrimSpace(strings.Join(told[:], " ")))
}

// ledger is a real one.
type ledger struct{ *stack.Ledger }

func begin(t *testing.T) ledger {
	t.Helper()
	engines, err := stack.Start(t.Context(), stack.Options{Shards: shards, Kafka: true, Redis: true, Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, engines.Close()) })
	l, err := stack.Connect(engines, zap.NewNop(), "LEDGER_WRITER_INSTANCE_ID="+t.Name())
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	must(t, l.EnsureTopics(t.Context()))
	_, err = l.StartWriter()
	must(t, err)
	return ledger{l}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l ledger) send(t *testing.T, commands []*ledgerv1.Command) {
	t.Helper()
	client, err := kafka.NewClient(l.Writer.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	defer client.Close()
	records := make([]*kgo.Record, len(commands))
	for i, c := range commands {
		value, err := proto.Marshal(c)
		must(t, err)
		records[i] = &kgo.Record{Topic: topics.Commands, Partition: topics.PartitionOf(c.GetAccount(), shards), Key: []byte(c.GetAccount()), Value: value}
	}
	must(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

func (l ledger) records(t *testing.T, topic string) map[int32][]*kgo.Record {
	t.Helper()
	records, err := auditor.Ledger{Kafka: l.Writer.Kafka}.Records(t.Context(), topic)
	must(t, err)
	return records
}

// quiet waits until all commands are decided, those too that are derived meanwhile.
func (l ledger) quiet(t *testing.T) {
	t.Helper()
	client, err := kafka.NewClient(l.Writer.Kafka, zap.NewNop())
	must(t, err)
	defer client.Close()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		behind := ""
		commands := l.records(t, topics.Commands)
		committed, err := kadm.NewClient(client).FetchOffsetsForTopics(t.Context(), l.Writer.Group, topics.Commands)
		must(t, err)
		for shard, records := range commands {
			if at, _ := committed.Lookup(topics.Commands, shard); at.At <= records[len(records)-1].Offset {
				behind += fmt.Sprintf("shard %d is at %d of %d; ", shard, at.At, records[len(records)-1].Offset)
			}
		}
		if behind == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(behind)
		}
	}
}

// holdsEnd waits until no hold is open that ends at a time.
func (l ledger) holdsEnd(t *testing.T, at time.Time) {
	t.Helper()
	store := lua.New(l.Redis)
	for shard := range shards {
		for deadline := time.Now().Add(2 * time.Minute); ; {
			holds, _, err := store.Holds(t.Context(), shard, 0, 1_000_000)
			must(t, err)
			if !slices.ContainsFunc(holds, func(h lua.Hold) bool { return !h.ExpiresAt.After(at) }) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("holds of shard %d are open after their end", shard)
			}
		}
	}
	l.quiet(t)
}

// logs are the events of each plan's commands, in each shard.
func (l ledger) logs(t *testing.T) map[int][shards][]string {
	t.Helper()
	logs := map[int][shards][]string{}
	for shard, records := range l.records(t, topics.Events) {
		for _, r := range records {
			e := &ledgerv1.Event{}
			must(t, proto.Unmarshal(r.Value, e))
			n, line := lineOf(t, e.GetOutcome())
			if line != "" {
				log := logs[n]
				log[shard] = append(log[shard], line)
				logs[n] = log
			}
		}
	}
	return logs
}

// told is what the callers of each plan hear, by request and command. Who hears two things hears both.
func (l ledger) told(t *testing.T) map[int][nobody][commandsMax]string {
	t.Helper()
	told := map[int][nobody][commandsMax]string{}
	for _, records := range l.records(t, topics.Replies) {
		for _, r := range records {
			reply := &ledgerv1.Reply{}
			must(t, proto.Unmarshal(r.Value, reply))
			var n, command int
			var request uint8
			_, err := fmt.Sscanf(reply.GetReplyTo(), "%d %d %d", &n, &command, &request)
			must(t, err)
			heard := told[n]
			if reason := reasonOf(reply.GetOutcome()); heard[request][command] != reason {
				heard[request][command] += reason
			}
			told[n] = heard
		}
	}
	return told
}
