package reconciler

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	_ "time/tzdata" // time zones in containers that have none

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// RunFor closes a business date: once. A date that was closed by a run that could tell is not run again; its report comes back with
// true. Dates are the caller's; nothing is filtered by them.
func (r *Reconciler) RunFor(ctx context.Context, date string) (*Report, bool, error) {
	closed, err := r.closed(ctx, date)
	if err != nil || closed != nil {
		return closed, closed != nil, err
	}
	dated := *r
	dated.cfg.BusinessDate = date
	report, err := dated.Run(ctx)
	return report, false, err
}

// closed is the report of the run that closed a date; nil for none.
func (r *Reconciler) closed(ctx context.Context, date string) (*Report, error) {
	var id, verdict string
	var breaks uint64
	var started, finished time.Time
	err := r.clickhouse.QueryRow(ctx, `SELECT argMin(run_id, started_at), toString(argMin(verdict, started_at)), argMin(breaks, started_at), min(started_at), argMin(finished_at, started_at)
		FROM reconciliation_runs FINAL WHERE business_date = toDate(@date) AND verdict != 'could_not_tell' AND NOT dry_run`, clickhouse.Named("date", date)).
		Scan(&id, &verdict, &breaks, &started, &finished)
	if err != nil {
		return nil, fmt.Errorf("look whether %s is closed: %w", date, err)
	}
	if id == "" {
		return nil, nil //nolint:nilnil // not closed is an answer
	}
	return &Report{RunID: id, Verdict: Verdict(verdict), BreaksFound: breaks, Started: started, Finished: finished, BusinessDate: date}, nil
}

// leaderGroup is the consumer group of `reconciler serve`. Nothing is consumed: whoever owns partition 0 leads.
//
// A leader that is cut off may believe in itself for a session timeout longer. That costs a second run and nothing else: what is
// issued carries an id that is derived from the evidence, and a date is closed by its first run. So leadership saves work; it is not
// what correctness hangs on.
const leaderGroup = "reconciler"

// leaderTimeout is how long a leader that died is waited for; one that says goodbye is followed at once.
const leaderTimeout = 10 * time.Second

// leader says whether this process leads.
type leader struct {
	client *kgo.Client
	leads  atomic.Bool // written by the client's callbacks, read by the loop
}

func (r *Reconciler) newLeader() (*leader, error) {
	l := &leader{}
	turn := func(leads bool, message string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, client *kgo.Client, parts map[string][]int32) {
			client.PauseFetchTopics(topics.DeadLetters)
			if slices.Contains(parts[topics.DeadLetters], 0) {
				l.leads.Store(leads)
				r.metrics.leads(leads)
				r.logger.Info(message)
			}
		}
	}
	lost := turn(false, "another instance leads from here on")
	client, err := kafka.NewClient(r.cfg.Kafka, r.logger, kgo.ConsumerGroup(leaderGroup), kgo.ConsumeTopics(topics.DeadLetters), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(leaderTimeout), kgo.OnPartitionsAssigned(turn(true, "this instance leads")), kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost))
	if err != nil {
		return nil, err
	}
	l.client = client
	return l, nil
}

// serveTick is how often the schedule is looked at.
const serveTick = time.Second

// Serve runs on a schedule until ctx ends: once per business date, after RECONCILER_SCHEDULE in RECONCILER_TIME_ZONE, and
// incrementally every RECONCILER_SWEEP_INTERVAL. The business date is yesterday's, by that clock. A run that is stopped goes on where
// it was at the next start.
func (r *Reconciler) Serve(ctx context.Context) error {
	zone, at, err := r.cfg.schedule()
	if err != nil {
		return err
	}
	lead, err := r.newLeader()
	if err != nil {
		return err
	}
	defer lead.client.Close()
	ticker := time.NewTicker(serveTick)
	defer ticker.Stop()
	night := &nights{zone: zone, at: at}
	var swept time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !lead.leads.Load() {
			r.metrics.leads(false)
			continue
		}
		if date := night.due(time.Now()); date != "" {
			night.done(date, r.closeDate(ctx, date))
		}
		if r.cfg.SweepInterval > 0 && time.Since(swept) >= r.cfg.SweepInterval {
			r.sweep(ctx)
			swept = time.Now()
		}
	}
}

// closeDate runs for a business date, and says whether it is closed.
func (r *Reconciler) closeDate(ctx context.Context, date string) bool {
	report, before, err := r.RunFor(ctx, date)
	switch {
	case err != nil:
		r.logger.Warn("business date could not be told, it is tried again", zap.String("date", date), zap.Error(err))
	case !before:
		r.logger.Info("business date is closed", zap.String("date", date), zap.String("verdict", string(report.Verdict)))
	}
	return err == nil
}

func (r *Reconciler) sweep(ctx context.Context) {
	sweep := *r
	sweep.cfg.Incremental = true
	if _, err := sweep.Run(ctx); err != nil && ctx.Err() == nil {
		r.logger.Warn("sweep could not tell", zap.Error(err))
	}
}

// nights says which business date is due.
type nights struct {
	zone   *time.Location
	at     time.Duration // time of day
	closed string        // the last date that is known to be closed
	tried  time.Time     // when the date that is due was last tried
}

// due is the business date to close now; empty for none.
func (n *nights) due(now time.Time) string {
	date, due := dueDate(now.In(n.zone), n.at)
	if !due || date == n.closed || now.Sub(n.tried) < retryPause {
		return ""
	}
	n.tried = now
	return date
}

func (n *nights) done(date string, closed bool) {
	if closed {
		n.closed, n.tried = date, time.Time{}
	}
}

// retryPause is the pause before a date that could not be told is tried again.
const retryPause = 5 * time.Minute

// dueDate is the business date that a moment asks for, yesterday's, once the clock has passed at. A day that a clock change makes 23
// or 25 hours long has one such moment all the same, because the comparison is on the clock's face.
func dueDate(now time.Time, at time.Duration) (string, bool) {
	face := time.Duration(now.Hour())*time.Hour + time.Duration(now.Minute())*time.Minute
	return now.AddDate(0, 0, -1).Format(time.DateOnly), face >= at
}

// schedule parses the time zone and the time of day.
func (c Config) schedule() (*time.Location, time.Duration, error) {
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return nil, 0, fmt.Errorf("RECONCILER_TIME_ZONE: %w", err)
	}
	at, err := time.Parse("15:04", c.Schedule)
	if err != nil {
		return nil, 0, fmt.Errorf("RECONCILER_SCHEDULE: %w", err)
	}
	return zone, time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, nil
}
