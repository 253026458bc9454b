package chaos

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/hotledger/hotledger/e2e/auditor"
	"github.com/hotledger/hotledger/e2e/books"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/reconciler"
	"github.com/hotledger/hotledger/schemas/topics"
)

const (
	// quietMax bounds the wait for quiet: several times the longest chain of timeouts and backoffs.
	quietMax  = 2 * time.Minute
	quietLook = 200 * time.Millisecond
)

func (w *world) auditor() auditor.Ledger {
	return auditor.Ledger{
		Kafka: w.writerCfg.Kafka, Redis: w.rdb, ClickHouse: w.rows,
		Database: w.projectCfg.ClickHouse.Database, FinanceDatabase: w.projectCfg.ClickHouse.FinanceDatabase, Window: w.writerCfg.DedupeWindow,
	}
}

// awaitQuiet waits until every command is decided, every event projected, Redis at the end of the log and its outbox empty. The error says what
// was missing at last.
func (w *world) awaitQuiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quietMax)
	defer cancel()
	for {
		missing := w.missing(ctx)
		if missing == nil {
			return nil
		}
		select {
		case <-time.After(quietLook):
		case <-ctx.Done():
			return fmt.Errorf("not quiet within %s: %w", quietMax, missing)
		}
	}
}

// groups says who has which shards, in the broker's eyes.
func (w *world) groups(ctx context.Context) string {
	described, err := w.admin.DescribeGroups(ctx, w.writerCfg.Group, w.projectCfg.Group)
	text := fmt.Sprint(err)
	for _, g := range described.Sorted() {
		text += fmt.Sprintf("; %s is %s:", g.Group, g.State)
		for _, m := range g.Members {
			text += " " + m.MemberID
			if assigned, ok := m.Assigned.AsConsumer(); ok {
				for _, t := range assigned.Topics {
					text += fmt.Sprint(" ", t.Partitions)
				}
			}
		}
	}
	return text
}

// dump makes every service write its goroutines into its log, and end.
func (w *world) dump() {
	for _, s := range append(append([]*service{}, w.writers...), w.projectors...) {
		_, ended := s.leave(true)
		if s.running() {
			s.signal(syscall.SIGQUIT)
			select {
			case <-ended:
			case <-time.After(stopMax):
			}
		}
	}
}

func (w *world) missing(ctx context.Context) error {
	left, err := w.auditor().Undecided(ctx, w.writerCfg.Group)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d commands are not decided", left)
	}
	events, err := w.auditor().Records(ctx, topics.Events)
	if err != nil {
		return err
	}
	for shard := range int32(shards) {
		state, err := w.store.Inspect(ctx, int(shard))
		if err != nil {
			return err
		}
		n := uint64(len(events[shard]))
		if state.Condition != lua.Whole || state.Head.Position != n || len(state.Outbox) > 0 {
			return fmt.Errorf("shard %d: redis is %v at %s with %d outbox entries %s, the log has %d events", shard, state.Condition, state.Head, len(state.Outbox), state.Why, n)
		}
		var rows uint64
		if err := w.rows.QueryRow(ctx, fmt.Sprintf("SELECT max(position) FROM %s.events WHERE shard = ?", w.projectCfg.ClickHouse.Database), shard).Scan(&rows); err != nil {
			return fmt.Errorf("ask clickhouse: %w", err)
		}
		if rows < n {
			return fmt.Errorf("shard %d: clickhouse has position %d of %d", shard, rows, n)
		}
		if err := w.expiring(ctx, int(shard)); err != nil {
			return err
		}
	}
	return nil
}

// expiring says which hold is still to be released because its time is over, or will be soon.
func (w *world) expiring(ctx context.Context, shard int) error {
	const soon = time.Minute // the others end in another century
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, next, err := w.store.Holds(ctx, shard, cursor, 1000)
		if err != nil {
			return err
		}
		for _, h := range page {
			if !h.ExpiresAt.IsZero() && time.Until(h.ExpiresAt) < soon {
				return fmt.Errorf("hold %s of account %s ends at %s", h.ID, h.Account, h.ExpiresAt)
			}
		}
		cursor = next
	}
	return nil
}

// judge audits the ledger, and reconciles it once if it is quiet: otherwise the reconciler would wait for what does not come.
func (w *world) judge(ctx context.Context, quiet bool) *auditor.Verdict {
	verdict, err := w.auditor().Audit(ctx)
	if err != nil {
		w.complain("audit: %v", err)
		return &auditor.Verdict{}
	}
	for _, p := range verdict.Problems {
		w.complain("%s", p)
	}
	if !quiet {
		return verdict
	}
	if !verdict.Stranded() { // they want nothing in transit; the auditor knows what must be
		w.askOthers(ctx)
	}
	report, err := w.reconcileOnce(ctx, w.reconcile)
	if err != nil {
		w.complain("reconcile: %v", err)
		return verdict
	}
	if report.Verdict == reconciler.CouldNotTell {
		w.complain("the reconciler says: %v %s", report.Headline(), report.Why)
	}
	for _, b := range report.Breaks {
		if b.Class != reconciler.DeadLettersUnattended { // the workload sends poison on purpose
			w.complain("the last reconciliation: %s", describeBreak(b))
		}
	}
	return verdict
}

// askOthers lets hledger and beancount judge the books.
func (w *world) askOthers(ctx context.Context) {
	judge := books.Judge{Config: w.projectCfg.ClickHouse, ClickHouse: w.rows, Redis: w.rdb, Shards: shards}
	if _, err := judge.Check(ctx, w.dir); err != nil {
		w.complain("%v", err)
	}
}

var (
	found   = regexp.MustCompile(`"msg":"shard recovered from".*?"found":"(\w+)","why":"([^":]*)`)
	archive = regexp.MustCompile(`"msg":"rebuilding from clickhouse`)
	takenBy = regexp.MustCompile(`"verdict":"(\w+)"`)
)

// recoveries counts what the services say they found, from their logs.
func (w *world) recoveries() map[string]int {
	counts := map[string]int{}
	for _, s := range w.writers {
		text, _ := os.ReadFile(s.logFile) // one that never started has none
		for _, m := range found.FindAllStringSubmatch(string(text), -1) {
			name := m[1]
			if strings.HasPrefix(m[2], "fork") {
				name = "fork"
			}
			counts[name]++
		}
		if n := len(archive.FindAll(text, -1)); n > 0 {
			counts["from-clickhouse"] += n
		}
	}
	for _, s := range w.projectors {
		text, _ := os.ReadFile(s.logFile) // as above
		for _, m := range takenBy.FindAllStringSubmatch(string(text), -1) {
			counts["projector-"+m[1]]++
		}
	}
	return counts
}
