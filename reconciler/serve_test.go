package reconciler

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/twmb/franz-go/pkg/kadm"
)

func TestOfSeveralInstancesOneLeadsAndAnotherFollowsAtItsDeath(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	environ := []string{"RECONCILER_SCHEDULE=00:00", "RECONCILER_SWEEP_INTERVAL=1ms"}
	const leads, ended = "this instance leads", "reconciliation ended"
	first := w.start(environ, "serve")
	first.says(leads)
	first.says("business date is closed")
	second := w.start(environ, "serve")
	third := w.start(environ, "serve")
	w.awaitMembers(3)

	// Whoever leads sweeps; the others have nothing to say. The first may have handed over when they came.
	leader := func(among ...*process) *process {
		t.Helper()
		var found *process
		for found == nil && w.ctx.Err() == nil {
			for _, p := range among {
				if p.said(leads) > p.said("another instance leads") && p.said(ended) > 0 {
					found = p
				}
			}
		}
		return found
	}
	old := leader(first, second, third)
	var others []*process
	for _, p := range []*process{first, second, third} {
		if p != old {
			others = append(others, p)
		}
	}
	w.must(old.cmd.Process.Kill())
	next := leader(others...)
	if next == nil {
		t.Fatal("nobody follows")
	}
	// A drift is settled by the one that leads now.
	w.serve()
	w.forget("a4")
	next.says(`"breaks":1`)
	for _, p := range others {
		if p != next && p.said(ended) > 0 && p.said("another instance leads") == 0 {
			t.Error("two lead")
		}
	}
	var closed uint64
	w.query("SELECT count() FROM reconciliation_runs FINAL WHERE business_date IS NOT NULL AND verdict != 'could_not_tell'", &closed)
	if closed != 1 {
		t.Errorf("yesterday was closed by %d runs", closed)
	}
	w.must(next.cmd.Process.Signal(syscall.SIGTERM))
	if status := next.wait(); status != 0 {
		t.Errorf("it leaves with status %d", status)
	}
	if last := leader(others[0], others[1]); last == nil {
		t.Error("nobody follows the one that left")
	}
}

// awaitMembers waits until so many instances take part.
func (w *world) awaitMembers(n int) {
	w.t.Helper()
	admin := kadm.NewClient(w.kafka)
	for {
		groups, err := admin.DescribeGroups(w.ctx, leaderGroup)
		w.must(err)
		if g := groups[leaderGroup]; g.State == "Stable" && len(g.Members) == n {
			return
		}
	}
}

// manySlices is a ledger that a run with the smallest slices compares in several.
func (w *world) manySlices() {
	w.t.Helper()
	var commands []*ledgerv1.Command
	for i := range 4000 {
		account := fmt.Sprintf("account-%04d", i)
		commands = append(commands, open(account, "USD"))
		for n := range 9 {
			commands = append(commands, credit(account, int64(n+1), "USD"))
		}
	}
	w.submit(commands...)
}

type printed struct {
	RunID   string `json:"run_id"`
	Verdict Verdict
	Resumed bool
	Slices  int
	Breaks  uint64 `json:"breaks_found"`
}

func (p *process) report() printed {
	p.w.t.Helper()
	var r printed
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		p.w.t.Fatalf("%v:\n%s", err, &p.out)
	}
	return r
}

func TestARunThatWasStoppedGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.manySlices()
			w.serve()
			w.forget("account-0001")
			smallest := []string{"RECONCILER_SLICE_ROWS=8192"}
			args := []string{"run", "--business-date", "2026-11-29", "-o", "json"}
			// The first insert into this table is what the run is about to compare; each later one is a slice.
			const done = 2
			g := w.gate("reconciliation_slices", 1+done+1)
			g.stop(t, w.start(append(smallest, g.environ()...), args...), signal)

			second := w.gate("reconciliation_slices", 1000)
			p := w.start(append(smallest, second.environ()...), args...)
			if status := p.wait(); status != ExitBreaks {
				t.Fatalf("status %d:\n%s", status, &p.out)
			}
			r := p.report()
			// Inserts of the second life: what it is about to compare, and the slices that were not done.
			if !r.Resumed || r.Breaks != 1 || r.Slices < done+2 || second.seen != 1+r.Slices-done {
				t.Errorf("%d slices were compared after the stop: %+v", second.seen-1, r)
			}
			var closed, repairs uint64
			w.query("SELECT count() FROM reconciliation_runs FINAL", &closed)
			w.query("SELECT countIf(operation = 'repair') FROM events", &repairs)
			if closed != 1 || repairs != 1 {
				t.Errorf("%d runs and %d repairs in the evidence", closed, repairs)
			}

			// The day is closed: asked again, the run says what it said.
			again := w.start(smallest, args...)
			if status := again.wait(); status != ExitBreaks || again.report().RunID != r.RunID || w.commandsSent() != 1 {
				t.Errorf("status %d, %d commands:\n%s", status, w.commandsSent(), &again.out)
			}
		})
	}
}

func TestTheNightComesOnceADayByTheClockOfItsZone(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	n := &nights{zone: zone, at: 3*time.Hour + 10*time.Minute}
	var closed []string
	// Through both changes of the clock, minute by minute: 29 March has no 02:30, 25 October has two.
	for _, span := range [][2]string{{"2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"}, {"2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z"}} {
		now, _ := time.Parse(time.RFC3339, span[0])
		end, _ := time.Parse(time.RFC3339, span[1])
		for failed := false; now.Before(end); now = now.Add(time.Minute) {
			if date := n.due(now); date != "" {
				if failed = !failed; failed { // each first try cannot tell
					n.done(date, false)
					continue
				}
				n.done(date, true)
				closed = append(closed, date+" at "+now.In(zone).Format("15:04 MST"))
			}
		}
	}
	want := []string{
		"2026-03-27 at 03:15 CET", "2026-03-28 at 03:15 CEST", "2026-03-29 at 03:15 CEST",
		"2026-10-23 at 03:15 CEST", "2026-10-24 at 03:15 CET", "2026-10-25 at 03:15 CET",
	}
	if fmt.Sprint(closed) != fmt.Sprint(want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
}

func TestASweepReadsRedisNoFasterThanItMay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	many := make([]*ledgerv1.Command, 0, 3000)
	for i := range cap(many) {
		many = append(many, open(fmt.Sprintf("more%d", i), "USD"))
	}
	w.submit(many...)
	const perSecond = 2000
	report := w.mustRun(func(c *Config) { c.PageSize, c.AccountsPerSecond = 10, perSecond })
	// The last page is not waited for; shards are read side by side.
	if least := 900 * time.Millisecond / 2; report.Verdict != Clean || report.Phases["read"] < least {
		t.Errorf("about 1,000 accounts a shard were read in %s at %d a second: %s", report.Phases["read"], perSecond, dump(report))
	}
}
