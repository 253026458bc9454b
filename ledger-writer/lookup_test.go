package writer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// forgetful is a ledger whose shard of "a" has forgotten some commands: a ClickHouse without rows, the events that there are, and a writer that is stopped.
func forgetful(t *testing.T) (l *ledger, conn driver.Conn, events map[string]*ledgerv1.Event) {
	t.Helper()
	l = setup(t, "LEDGER_WRITER_DEDUPE_WINDOW=1s")
	conn = l.archived(t, nil)
	l.cfg.RebuildFromClickHouse = false
	stop := l.run(t)
	b := neighbour("a")
	l.send(t, open("a"), open(b), credit("c", "a", "100"), debit("much", "a", "1000"), hold("h", "a", "10", 0), capture("x", "a", "h", "3"), reverse("r", "a", "c", "1"), grouped(credit("g", "a", "5"), "@x", "2", "@y", "3"), transfer("t", "a", b, "7"),
		transfer("u", "a", "unknown", "7"))
	l.audit(t)
	all := headOf(l.rows(t), uint32(topics.ShardOf("a", shards)))
	for i := 0; l.forgotten(t).Position < all; i++ { // as soon as something is forgotten, ClickHouse is asked about whatever comes
		l.send(t, credit(fmt.Sprintf("later-%d", i), "a", "1"))
		store(t, conn, l.missing(t, conn))
		l.quiet(t)
	}
	must(t, stop())
	events = l.audit(t)
	must(t, conn.Exec(t.Context(), "TRUNCATE TABLE events"))
	return l, conn, events
}

// forgotten is the last event whose outcome Redis does not remember, on the shard of "a".
func (l *ledger) forgotten(t *testing.T) lua.Head {
	t.Helper()
	var head lua.Head
	_, err := fmt.Sscanf(l.rdb.HGet(t.Context(), lua.HeadKey(topics.ShardOf("a", shards)), "forgotten").Val(), "%d %s", &head.Position, &head.Chain)
	must(t, err)
	return head
}

// missing are the events of the log that ClickHouse does not have.
func (l *ledger) missing(t *testing.T, conn driver.Conn) []row {
	t.Helper()
	stored := map[string]uint64{}
	rows, err := conn.Query(t.Context(), "SELECT toString(shard), max(position) FROM events GROUP BY shard")
	must(t, err)
	for rows.Next() {
		var shard string
		var position uint64
		must(t, rows.Scan(&shard, &position))
		stored[shard] = position
	}
	must(t, rows.Err())
	var missing []row
	for _, r := range l.rows(t) {
		if r.GetOutcome().GetPosition() > stored[fmt.Sprint(r.GetOutcome().GetShard())] {
			missing = append(missing, r)
		}
	}
	return missing
}

// again is a command as its caller sends it once more.
func again(events map[string]*ledgerv1.Event, id string) *ledgerv1.Command {
	c := proto.CloneOf(events[id].GetCommand())
	c.ReplyTo = "again"
	if c.GetRequestedAt() == nil {
		c.RequestedAt = events[id].GetOutcome().GetDecidedAt()
	}
	return c
}

var forgottenIDs = []string{"c", "much", "h", "x", "r", "g", "t", "u"}

func TestAForgottenCommandHasTheOutcomeThatClickHouseKnows(t *testing.T) {
	t.Parallel()
	l, conn, events := forgetful(t)
	store(t, conn, l.rows(t))
	w := l.writer(t)
	start(t, w)
	changed := again(events, "c")
	changed.Amount, changed.ReplyTo = "999", "changed"
	fresh := answered(credit("fresh", "a", "2"))
	fresh.RequestedAt = events["c"].GetOutcome().GetDecidedAt() // it was on its way for that long
	l.send(t, changed, fresh)
	for _, id := range forgottenIDs {
		l.send(t, again(events, id), again(events, id))
	}
	after := l.audit(t)
	if len(after) != len(events)+1 {
		t.Errorf("%d events and one became %d", len(events), len(after))
	}
	replies := l.replies(t)
	for _, id := range forgottenIDs {
		want := events[id].GetOutcome()
		n := 0
		for _, reply := range replies[id] {
			got := reply.GetOutcome()
			switch {
			case reply.GetReplyTo() == "changed":
				if got.GetReason() != ledgerv1.Reason_REASON_COMMAND_ID_REUSED || got.GetPosition() != want.GetPosition() {
					t.Errorf("told of %s with another payload: %v", id, got)
				}
				continue
			case id == "u" && (got.GetReason() != ledgerv1.Reason_REASON_ACCOUNT_UNKNOWN || got.GetStatus() != ledgerv1.Status_STATUS_REJECTED),
				id != "u" && !proto.Equal(got, want):
				t.Errorf("told of %s\n%v, not\n%v", id, got, want)
			}
			n++
		}
		if n != 2 {
			t.Errorf("%d replies to two deliveries of %s", n, id)
		}
	}
	if got := l.onlyFresh(t); got.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
		t.Errorf("told of fresh: %v", got)
	}
	if n := counted(t, w.metrics.lookedUp.WithLabelValues("known")); n < float64(len(forgottenIDs)) {
		t.Errorf("%v commands were found in ClickHouse", n)
	}
	if letters := l.letters(t); len(letters) != 1 {
		t.Errorf("%d dead letters, not the one of another payload", len(letters))
	}
}

func (l *ledger) onlyFresh(t *testing.T) *ledgerv1.Outcome {
	t.Helper()
	replies := l.replies(t)["fresh"]
	if len(replies) != 1 {
		t.Fatalf("replies to fresh: %v", replies)
	}
	return replies[0].GetOutcome()
}

// Commands that nobody can look up wait; they are neither decided nor lost.
func TestAForgottenCommandWaitsForAClickHouseThatCanTell(t *testing.T) {
	t.Parallel()
	shard := uint32(topics.ShardOf("a", shards))
	for name, rows := range map[string]func(all []row, forgotten uint64) []row{
		"empty": func([]row, uint64) []row { return nil },
		"behind": func(all []row, forgotten uint64) []row {
			return only(all, func(r row) bool {
				return r.GetOutcome().GetShard() != shard || r.GetOutcome().GetPosition() < forgotten
			})
		},
		"with a gap": func(all []row, _ uint64) []row {
			return only(all, func(r row) bool { return r.GetOutcome().GetCommandId() != "much" })
		},
		"with a row twice": func(all []row, _ uint64) []row {
			return append(append([]row{}, all...), only(all, func(r row) bool { return r.GetOutcome().GetCommandId() == "much" })...)
		},
		"of another history": func(all []row, forgotten uint64) []row {
			changed := append([]row{}, all...)
			for i, r := range changed {
				if r.GetOutcome().GetShard() == shard && r.GetOutcome().GetPosition() == forgotten {
					changed[i].Event = proto.CloneOf(r.Event)
					changed[i].Head[0]++
				}
			}
			return changed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, conn, events := forgetful(t)
			all := l.rows(t)
			store(t, conn, rows(all, l.forgotten(t).Position))
			w := l.writer(t)
			start(t, w)
			l.send(t, again(events, "c"), again(events, "h"), answered(credit("fresh", "a", "2")))
			until(t, "given up, and again", func() string {
				if n := counted(t, w.metrics.givenUp); n < 3 {
					return fmt.Sprintf("%v times", n)
				}
				return ""
			})
			if n := len(l.rows(t)); n != len(all) {
				t.Errorf("%d events became %d though nobody could tell", len(all), n)
			}
			must(t, conn.Exec(t.Context(), "TRUNCATE TABLE events"))
			store(t, conn, all)
			if after := l.audit(t); len(after) != len(events)+1 {
				t.Errorf("%d events and one became %d", len(events), len(after))
			}
			if got := l.onlyFresh(t); got.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
				t.Errorf("told of fresh: %v", got)
			}
		})
	}
}

// counted is the value of one counter.
func counted(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	must(t, reg.Register(c))
	families, err := reg.Gather()
	must(t, err)
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

func only(all []row, keep func(row) bool) []row {
	var kept []row
	for _, r := range all {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

func TestAForgottenCommandWaitsForAClickHouseThatIsAway(t *testing.T) {
	t.Parallel()
	l, conn, events := forgetful(t)
	all := l.rows(t)
	store(t, conn, all)
	there := l.cfg.ClickHouse.Addrs
	l.cfg.ClickHouse.Addrs = []string{"127.0.0.1:1"}
	w := l.writer(t)
	stop := start(t, w)
	l.send(t, again(events, "c"), answered(credit("fresh", "a", "2")))
	until(t, "given up", func() string {
		if counted(t, w.metrics.givenUp) == 0 {
			return "not"
		}
		return ""
	})
	must(t, stop())
	if n := len(l.rows(t)); n != len(all) {
		t.Errorf("%d events became %d though nobody could tell", len(all), n)
	}
	l.cfg.DedupeWindow = 0 // a writer that was told to ask nobody does not guess either
	w = l.writer(t)
	stop = start(t, w)
	until(t, "given up", func() string {
		if counted(t, w.metrics.givenUp) == 0 {
			return "not"
		}
		return ""
	})
	must(t, stop())
	l.cfg.ClickHouse.Addrs, l.cfg.DedupeWindow = there, time.Second
	l.run(t)
	if after := l.audit(t); len(after) != len(events)+1 {
		t.Errorf("%d events and one became %d", len(events), len(after))
	}
}

func TestWhatIsForgottenCannotBeReversed(t *testing.T) {
	t.Parallel()
	l, conn, events := forgetful(t)
	store(t, conn, l.rows(t))
	l.run(t)
	late := reverse("late", "a", "c", "1")
	late.RequestedAt = timestamppb.Now()
	l.send(t, late, capture("still", "a", "h", "2"))
	after := l.audit(t)
	if got := after["late"].GetOutcome().GetReason(); got != ledgerv1.Reason_REASON_NOT_REVERSIBLE {
		t.Errorf("reversal of a forgotten command: %s", got)
	}
	if got := after["still"].GetOutcome(); got.GetHold().GetRemaining() != "5" || len(after) != len(events)+2 {
		t.Errorf("capture of a hold whose outcome is forgotten: %v", got)
	}
	if key := lua.HeadKey(topics.ShardOf("a", shards)); strings.HasPrefix(l.rdb.HGet(t.Context(), key, "forgotten").Val(), "0 ") {
		t.Error("nothing was forgotten")
	}
}
