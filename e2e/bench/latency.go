package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

const (
	// reached: a rate counts as reached if outcomes come at 95 % of it at least. Below that the queue grows, and a percentile says nothing.
	reached = 0.95
	// inFlight commands at most wait for their outcomes; beyond, the caller is held up, which counts as waiting.
	inFlight = 50_000
	// latencyMax is where the histogram ends, µs.
	latencyMax = 10 * 60 * 1e6
)

// latencyRates are the rates of every run, commands/s.
var latencyRates = []struct {
	name string
	rate float64
}{{"1k", 1_000}, {"10k", 10_000}, {"50k", 50_000}}

// Latency measures what a caller of the Go SDK waits for on one account: from the moment at which a command is due to its committed outcome. The
// load is open: commands are due at their times, whatever became of the ones before, so a stall counts for all that were due in it. First the
// maximum is measured, then each rate, and 80 % of the maximum. kafka names the broker in the figures. They count every wait; a note tells them
// apart from the waits that met a CPU slowed down by its host, which no program can do anything about.
func Latency(ctx context.Context, environ []string, kafka string, lasting time.Duration, report *Report) (err error) {
	p, err := startPath(ctx, environ, 1, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.load(hotAccount).fund(ctx, hotAccount); err != nil {
		return err
	}
	var cfg producer.Config
	sdk := append([]string{"PRODUCER_SOURCE=bench", "PRODUCER_OUTCOME_TIMEOUT=10m", fmt.Sprintf("PRODUCER_IN_FLIGHT_MAX=%d", inFlight)}, environ...)
	if err := config.Load("producer", &cfg, nil, sdk); err != nil {
		return err
	}
	client, err := producer.New(ctx, cfg, zap.NewNop())
	if err != nil {
		return err
	}
	defer client.Close()
	c := &caller{client: client, sequence: 2}
	name := "latency_" + kafka
	flood, err := c.run(ctx, 1e9, lasting) // always due
	if err != nil {
		return err
	}
	report.Add(Figure{Name: name + "_max", Value: flood.perSecond, Unit: "commands/s"})
	for _, r := range append(latencyRates, struct {
		name string
		rate float64
	}{"80pct", 0.8 * flood.perSecond}) {
		got, err := c.run(ctx, r.rate, lasting)
		if err != nil {
			return err
		}
		if got.perSecond < reached*r.rate {
			report.Note("%s_%s: not reached: %.0f of %.0f commands/s", name, r.name, got.perSecond, r.rate)
			continue
		}
		all := histogram(got.waits)
		for _, q := range quantiles {
			report.Add(Figure{Name: fmt.Sprintf("%s_%s_%s", name, r.name, q.name), Value: float64(all.ValueAtQuantile(q.percent)) / 1e3, Unit: "ms"})
		}
		report.Note("%s_%s: %.0f commands/s, the longest wait %.3g ms; %s", name, r.name, got.perSecond, float64(all.Max())/1e3, got.undisturbed(lasting))
	}
	_, err = p.load(hotAccount).verifyHot(ctx, p, hotAccount, c.sent)
	return err
}

// caller debits one account through the SDK.
type caller struct {
	client   *producer.Client
	sent     int
	sequence uint64 // of the account, after the last outcome
}

type due struct {
	pending *producer.Pending
	at      time.Time
}

// waits is what one run found.
type waits struct {
	waits     []stretch // from due time to outcome, in order
	slow      []stretch // when the CPU's clock was slow
	perSecond float64   // from the first outcome to the last
}

var quantiles = []struct {
	name    string
	percent float64
}{{"p50", 50}, {"p99", 99}, {"p999", 99.9}}

// histogram of waits, µs.
func histogram(waits []stretch) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, latencyMax, 3)
	for _, s := range waits {
		_ = h.RecordValue(min(latencyMax, max(1, (s.to-s.from).Microseconds())))
	}
	return h
}

// undisturbed says how the waits are that met no slow clock.
func (w waits) undisturbed(lasting time.Duration) string {
	apart := slices.DeleteFunc(slices.Clone(w.waits), func(s stretch) bool { return s.meets(w.slow) })
	h := histogram(apart)
	text := fmt.Sprintf("the clock was slow in %d stretches, %.1f %% of the time; the %.1f %% of the waits that met none:", len(w.slow),
		100*length(w.slow).Seconds()/lasting.Seconds(), 100*float64(len(apart))/float64(len(w.waits)))
	for _, q := range quantiles {
		text += fmt.Sprintf(" %s %.3g ms", q.name, float64(h.ValueAtQuantile(q.percent))/1e3)
	}
	return text
}

// run sends for so long at a rate, and returns when every outcome is there.
func (c *caller) run(ctx context.Context, rate float64, lasting time.Duration) (waits, error) {
	nap := syscall.NsecToTimespec(200_000)
	sent, result, failed := make(chan due, inFlight), make(chan waits, 1), make(chan error, 1)
	start := time.Now()
	speed := watchClock(start)
	go func() { // ends when sent is closed
		w, err := c.collect(ctx, start, sent)
		result <- w
		failed <- err
	}()
	send := func() error {
		for i := 0; ; {
			passed := time.Since(start)
			if passed >= lasting {
				return nil
			}
			for end := rate * passed.Seconds(); float64(i) <= end && time.Since(start) < lasting; i++ {
				at := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
				p, err := c.client.Send(ctx, debit(c.sent, hotAccount))
				if err != nil {
					return err
				}
				c.sent++
				sent <- due{p, at}
			}
			if err := syscall.Nanosleep(&nap, nil); err != nil && !errors.Is(err, syscall.EINTR) { // Go's timers are as coarse as a millisecond
				return err
			}
		}
	}
	err := send()
	close(sent)
	w := <-result
	w.slow = speed.slow()
	return w, errors.Join(err, <-failed)
}

// collect waits for the outcomes in their order: the account's sequence proves that none is missing and none counts twice.
func (c *caller) collect(ctx context.Context, start time.Time, sent <-chan due) (waits, error) {
	var w waits
	var first, last time.Time
	var problem error
	count := 0
	for d := range sent {
		if problem != nil {
			continue // the sender must not be held up
		}
		outcome, err := d.pending.Wait(ctx)
		last = time.Now()
		if count++; count == 1 {
			first = last
		}
		c.sequence++
		switch {
		case err != nil:
			problem = err
		case outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED || outcome.GetAfter().GetSequence() != c.sequence:
			problem = fmt.Errorf("outcome of %s: %s at sequence %d, want %d", outcome.GetCommandId(), outcome.GetStatus(), outcome.GetAfter().GetSequence(), c.sequence)
		default:
			w.waits = append(w.waits, stretch{d.at.Sub(start), last.Sub(start)})
		}
	}
	if span := last.Sub(first).Seconds(); span > 0 {
		w.perSecond = float64(count-1) / span
	}
	return w, problem
}
