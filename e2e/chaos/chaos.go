// Package chaos tries to break the ledger. Each seed starts a whole one on real engines, with the services in processes of their own, drives a
// skewed and hostile workload, and carries out faults that the seed draws; then everything is made healthy, and the independent auditor, the
// reconciler and a linearizability checker judge what is left. The same seed draws the same commands and faults again; the timing of threads and
// processes is the machine's, so a violation may need several tries to come back.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotledger/hotledger/e2e/auditor"
	"github.com/hotledger/hotledger/sandbox"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options of Run.
type Options struct {
	// Seeds to run: Seed, Seed+1, ... 0 = as many as Minutes allow.
	Seeds int
	// Seed is the first; 0 = drawn.
	Seed uint64
	// Kinds of faults that are drawn; empty = all.
	Kinds []Kind
	// Apache runs the real Apache Kafka. Faults that only the embedded one can produce are not drawn then; it is killed instead.
	Apache bool
	// KeepGoing after a violation.
	KeepGoing bool
	// Limit ends the run after the seed that is running then; 0 = none.
	Limit time.Duration
	// Keep leaves the logs of seeds without violations, too.
	Keep bool
	Out  io.Writer
}

// silent drops what the Redis library prints by itself: refused connections are what is tested here.
type silent struct{}

// Printf drops.
func (silent) Printf(context.Context, string, ...any) {}

// ErrViolation says that an invariant did not hold.
var ErrViolation = errors.New("an invariant was violated")

// Result sums up a run.
type Result struct{ Seeds, Violations int }

// seedMax bounds one seed in all.
const seedMax = 4 * time.Minute

// Run runs the seeds. The error is about the rig; violations are in the Result.
func Run(ctx context.Context, o Options) (Result, error) {
	var result Result
	for _, kind := range o.Kinds {
		if !slices.Contains(Kinds(), kind) {
			return result, fmt.Errorf("no kind of fault is called %q; there are %v", kind, Kinds())
		}
	}
	goredis.SetLogger(silent{})
	dir, err := os.MkdirTemp("", "hotledger-chaos-")
	if err != nil {
		return result, err
	}
	defer func() { _ = os.Remove(dir) }() // stays where logs are kept
	programs, err := build(ctx, dir)
	if err != nil {
		return result, err
	}
	defer func() { _, _ = os.Remove(programs.writer), os.Remove(programs.projector) }()
	rows, err := sandbox.StartClickHouse(ctx, sandbox.ClickHouseOptions{})
	if err != nil {
		return result, err
	}
	defer func() { _ = rows.Stop() }()
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) //nolint:gosec // which seed comes first matters to nobody
	}
	for start := time.Now(); o.Seeds == 0 || result.Seeds < o.Seeds; {
		seed := o.Seed + uint64(result.Seeds)
		violated, err := runSeed(ctx, o, seed, rows, programs, filepath.Join(dir, fmt.Sprint(seed)))
		if err != nil {
			return result, fmt.Errorf("seed %d: %w", seed, err)
		}
		result.Seeds++
		if violated {
			result.Violations++
		}
		if violated && !o.KeepGoing || o.Limit > 0 && time.Since(start) > o.Limit {
			break
		}
	}
	return result, nil
}

// runSeed runs one seed.
func runSeed(ctx context.Context, o Options, seed uint64, rows *sandbox.ClickHouse, programs binaries, dir string) (violated bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, seedMax, fmt.Errorf("a seed took longer than %s", seedMax))
	defer cancel()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, err
	}
	begin := time.Now()
	w, err := newWorld(ctx, Draw(seed, o.Apache, o.Kinds...), rows, programs, dir)
	if err != nil {
		return false, err
	}
	ended := sync.OnceFunc(w.end)
	defer ended()
	report, err := w.play(ctx)
	if err != nil {
		return false, err
	}
	ended() // before the logs are read or removed
	report.took = time.Since(begin)
	report.print(o.Out, w)
	if len(w.complaints) == 0 && !o.Keep {
		return false, os.RemoveAll(dir)
	}
	return len(w.complaints) > 0, nil
}

// report is what one seed did.
type report struct {
	verdict             *auditor.Verdict
	operations, unknown int
	hits                int // requests and answers that were spoiled
	quiet, took         time.Duration
	faults              map[Kind]int
	recoveries          map[string]int
}

// play is a seed from its first command to its verdict.
func (w *world) play(ctx context.Context) (*report, error) {
	if err := w.historian.open(ctx, w.client); err != nil {
		return nil, err
	}
	var opening []*kgo.Record
	for _, c := range w.load.Opening() {
		opening = append(opening, w.load.Record(c))
	}
	if err := w.send(ctx, opening); err != nil {
		return nil, err
	}
	reaping, reaped := context.WithCancel(ctx)
	var reaper sync.WaitGroup
	defer reaper.Wait()
	defer reaped()
	reaper.Go(func() { w.reap(reaping) })
	w.started = time.Now()
	active, calm := context.WithTimeout(ctx, w.plan.Active)
	defer calm()
	var busy sync.WaitGroup
	watching, unwatched := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer unwatched()
	watcher.Go(func() { w.watch(watching) })
	busy.Go(func() { w.remember(active) })
	busy.Go(func() { w.unleash(ctx) })
	w.historian.run(active, w.plan.Seed, w.client)
	sent := w.waves(ctx)
	busy.Wait()
	r := &report{faults: map[Kind]int{}, hits: w.heal()}
	w.note("healed")
	for _, f := range w.plan.Faults {
		r.faults[f.Kind]++
	}
	healed := time.Now()
	w.historian.clients.Wait()
	// What was decided must stay decided, also for whoever asks late.
	if err := errors.Join(sent, w.send(ctx, w.load.Again(lateRetries))); err != nil {
		return nil, err
	}
	quiet := w.awaitQuiet(ctx)
	if quiet != nil {
		w.complain("%v\n    groups: %s", quiet, w.groups(ctx))
		w.dump()
	}
	r.quiet = time.Since(healed)
	unwatched()
	watcher.Wait()
	verdict := w.judge(ctx, quiet == nil)
	r.verdict = verdict
	var problems []string
	r.operations, r.unknown, problems = w.historian.check()
	for _, p := range problems {
		w.complain("%s", p)
	}
	r.recoveries = w.recoveries()
	return r, ctx.Err()
}

// lateRetries are sent when everything is over.
const lateRetries = 150

// waves sends the bursts of commands at their times.
func (w *world) waves(ctx context.Context) error {
	for _, wave := range w.plan.Waves {
		w.sleep(ctx, time.Until(w.started.Add(wave.At)))
		records, _ := w.load.Draw(wave.Commands)
		if err := w.send(ctx, append(records, w.load.Again(wave.Again)...)); err != nil {
			return err
		}
	}
	return nil
}

// send sends commands. What a broker that is just dying did not even shake hands for is sent again: the client takes that for a wrong port.
func (w *world) send(ctx context.Context, records []*kgo.Record) error {
	for len(records) > 0 {
		var again []*kgo.Record
		for _, sent := range w.sender.ProduceSync(ctx, records...) {
			var dying *kgo.ErrFirstReadEOF
			switch {
			case errors.As(sent.Err, &dying):
				again = append(again, sent.Record)
			case sent.Err != nil:
				return fmt.Errorf("send commands: %w", sent.Err)
			}
		}
		records = again
	}
	return nil
}

func (r *report) print(out io.Writer, w *world) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) } // to a terminal or a buffer
	verdict, v := "ok", r.verdict
	if len(w.complaints) > 0 {
		verdict = "VIOLATED"
	}
	say("seed %d %s  %.1f s (quiet %.1f s)  %d commands, %d events, %d transfers (%d returned), %d holds, %d reversals, %d forgotten; %d operations (%d unknown), %d spoiled | faults %s | recoveries %s | reconciliations %s\n",
		w.plan.Seed, verdict, r.took.Seconds(), r.quiet.Seconds(), v.Commands, v.Events, v.Transfers, v.Returned, v.Holds, v.Reversals, v.Forgotten, r.operations, r.unknown, r.hits, counts(r.faults), counts(r.recoveries), counts(w.runs))
	if len(w.complaints) == 0 {
		return
	}
	broker := ""
	if w.plan.Apache {
		broker = " --kafka apache"
	}
	say("  run it again: go run ./cmd/chaos --seeds 1 --seed %d%s   logs: %s\n", w.plan.Seed, broker, w.dir)
	say("  %d writers, %d projectors, batches of %d, rebuilds from clickhouse: %t, window %s, stamped: %t\n",
		w.plan.Writers, w.plan.Projectors, w.plan.BatchRecords, w.plan.FromClickHouse, w.plan.Window, w.plan.Stamped)
	for _, c := range w.complaints {
		say("  - %s\n", c)
	}
	for _, line := range w.log {
		say("    %s\n", line)
	}
}

func counts[K ~string](m map[K]int) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s:%d", key, m[key]))
	}
	return strings.Join(words, " ")
}
