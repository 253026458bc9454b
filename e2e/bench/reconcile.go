package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/reconciler"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

const (
	// eventsPerAccount: its opening, and credits; fewer where the log would not fit into the memory of the embedded Kafka.
	eventsPerAccount = 10
	reconcileEvents  = 20_000_000
	reconcileShards  = 4
)

// modes of a run, the reference first.
var modes = []string{"full", "incremental"}

type reconcileBench struct {
	engines  *stack.Engines
	ledger   *stack.Ledger
	binary   string
	accounts int
	events   int // of each account
	report   *Report
}

// Reconcile measures a full reconciliation of some accounts with ten events each: the reconciler in a process of its own, so that its memory is
// its own, and where its time goes. The run must be clean before its figure counts.
func Reconcile(ctx context.Context, accounts int, report *Report) (err error) {
	dir, err := os.MkdirTemp("", "hotledger-reconcile-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "reconciler")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/hotledger/hotledger/reconciler/cmd/reconciler").CombinedOutput(); err != nil { //nolint:gosec // our own
		return fmt.Errorf("build the reconciler: %w: %s", err, out)
	}
	engines, err := stack.Start(ctx, stack.Options{Shards: reconcileShards, Kafka: true, Redis: true, ClickHouse: true, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	ledger, err := stack.Connect(engines, zap.NewNop())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if err := ledger.EnsureTopics(ctx); err != nil {
		return err
	}
	r := &reconcileBench{engines: engines, ledger: ledger, binary: binary, accounts: accounts, events: min(eventsPerAccount, reconcileEvents/accounts), report: report}
	if err := r.fill(ctx); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	report.Note("reconciliation of %d accounts with %d events, %d shards", accounts, accounts*r.events, reconcileShards)
	for _, mode := range modes {
		if err := r.once(ctx, mode); err != nil {
			return fmt.Errorf("%s run: %w", mode, err)
		}
	}
	return nil
}

// printed is what a run prints, as far as the benchmark needs it.
type printed struct {
	Verdict    reconciler.Verdict `json:"verdict"`
	Accounts   uint64             `json:"accounts_compared"`
	StartedAt  time.Time          `json:"started_at"`
	FinishedAt time.Time          `json:"finished_at"`
	Slices     int                `json:"slices"`
	PhasesMs   map[string]int64   `json:"phases_ms"`
}

func (r *reconcileBench) once(ctx context.Context, mode string) error {
	cmd := exec.CommandContext(ctx, r.binary, "run", "-o", "json", "--incremental="+strconv.FormatBool(mode == "incremental")) //nolint:gosec // built above
	cmd.Env = append(append(os.Environ(), r.ledger.Environ...), "LOG_LEVEL=error", "RECONCILER_BARRIER_TIMEOUT=10m")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return err
	}
	peak, before := watchPeak(cmd.Process.Pid), clickHouseCPU(r.engines)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %.300s", err, &out)
	}
	var run printed
	if err := json.Unmarshal(out.Bytes(), &run); err != nil {
		return err
	}
	if run.Verdict != reconciler.Clean || run.Accounts != uint64(r.accounts) {
		return fmt.Errorf("%s, %d accounts compared", run.Verdict, run.Accounts)
	}
	took := run.FinishedAt.Sub(run.StartedAt)
	figure := Figure{Name: fmt.Sprintf("reconcile_%s_%d", mode, r.accounts), Value: float64(r.accounts) / took.Seconds(), Unit: "accounts/s"}
	if mode != modes[0] {
		figure.Reference = fmt.Sprintf("reconcile_%s_%d", modes[0], r.accounts)
	}
	r.report.Add(figure)
	var shares []string
	for _, phase := range []string{"read", "log", "compare", "invariants", "write"} {
		shares = append(shares, fmt.Sprintf("%s %d %%", phase, 100*run.PhasesMs[phase]/max(1, took.Milliseconds())))
	}
	r.report.Note("%s run: %.1f s of CPU in the reconciler, %.1f s in ClickHouse", mode,
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), clickHouseCPU(r.engines)-before)
	r.report.Note("%s run took %s in %d slices: %s; memory at most %s in the reconciler, %s in ClickHouse", mode, took.Round(time.Millisecond), run.Slices,
		strings.Join(shares, ", "), peak(), r.clickHousePeak())
	return nil
}

// clickHousePeak is the most memory that ClickHouse had so far.
func (r *reconcileBench) clickHousePeak() string {
	if r.engines.ClickHouse == nil {
		return "unknown" // a server of the environment
	}
	return peakOf(r.engines.ClickHouse.PID())
}

// peakOf is the most memory that a process had so far, as Linux says.
func peakOf(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return fmt.Sprintf("%d MiB", kib>>10)
		}
	}
	return "unknown"
}

// watchPeak follows the peak of a process until it has ended. What wait4 says of a child includes what its parent had when it forked.
func watchPeak(pid int) (peak func() string) {
	last, ended := "unknown", make(chan struct{})
	go func() { // ends with the process
		defer close(ended)
		for {
			now := peakOf(pid)
			if now == "unknown" {
				return
			}
			last = now
			time.Sleep(peakPause)
		}
	}()
	return func() string { <-ended; return last }
}

const peakPause = 20 * time.Millisecond

// fill makes a log, link by link, brings it to Kafka, and through a projector to ClickHouse, and loads Redis with what it adds up to. The
// commands are older than what Redis remembers, so that it holds the accounts alone.
func (r *reconcileBench) fill(ctx context.Context) (err error) {
	client, err := kafka.NewClient(r.ledger.Writer.Kafka, zap.NewNop(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer client.Close()
	stop, err := r.ledger.StartProjector()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	positions := make([]uint64, reconcileShards)
	for shard := range positions {
		s, err := r.beginShard(ctx, shard, client)
		if err != nil {
			return err
		}
		for n := range r.events {
			for i := range r.accounts {
				if topics.ShardOf(accountName(i), reconcileShards) == shard {
					if err := s.add(ctx, i, n); err != nil {
						return err
					}
				}
			}
		}
		if err := s.end(ctx); err != nil {
			return err
		}
		positions[shard] = s.link.Position
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	return r.ledger.AwaitProjected(ctx, positions)
}

// shardFill makes one shard.
type shardFill struct {
	shard    int
	link     lua.Link
	client   *kgo.Client
	build    *lua.Build
	load     *lua.Load
	at       time.Time
	last     int // number of an account's last event, from 0
	events   []*ledgerv1.Event
	accounts []lua.Account
}

// remembered is shorter ago than every event of the log.
const remembered = time.Hour

func (r *reconcileBench) beginShard(ctx context.Context, shard int, client *kgo.Client) (*shardFill, error) {
	build, err := lua.New(r.ledger.Redis).Remembering(remembered).BeginBuild(ctx, shard, "bench")
	if err != nil {
		return nil, err
	}
	return &shardFill{shard: shard, link: lua.FirstLink, client: client, build: build, load: build.Load(time.Now()), at: time.Now().AddDate(0, 0, -1), last: r.events - 1}, nil
}

// add makes the n-th event of the i-th account.
func (s *shardFill) add(ctx context.Context, i, n int) error {
	event, err := s.next(i, n)
	if err != nil {
		return err
	}
	value, err := proto.Marshal(event)
	if err != nil {
		return err
	}
	s.client.Produce(ctx, &kgo.Record{Topic: topics.Events, Partition: int32(s.shard), Key: []byte(accountName(i)), Value: value}, nil) // a lost one shows
	s.events = append(s.events, event)
	if n == s.last {
		s.accounts = append(s.accounts, lua.Account{ID: accountName(i), Balance: int64(n * (n + 1) / 2), Sequence: uint64(n + 1), Unit: "EUR/2", Status: "active"})
	}
	if len(s.events) == lua.LoadMax/2 {
		return s.flush(ctx)
	}
	return nil
}

func (s *shardFill) flush(ctx context.Context) error {
	outcomes, err := s.load.Outcomes(s.events)
	if err == nil {
		err = s.build.Send(ctx, outcomes)
	}
	if err == nil && len(s.accounts) > 0 {
		var accounts lua.Chunk
		if accounts, err = s.load.Accounts(s.accounts); err == nil {
			err = s.build.Send(ctx, accounts)
		}
	}
	s.events, s.accounts = s.events[:0], s.accounts[:0]
	return err
}

func (s *shardFill) end(ctx context.Context) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	done, err := s.load.Done()
	if err != nil {
		return err
	}
	return errors.Join(s.build.Send(ctx, done), s.build.Swap(ctx))
}

func accountName(i int) string { return "account-" + strconv.Itoa(i) }

// next is the n-th event of the i-th account: its opening, then credits of 1, 2, ... Each is a call of its own.
func (s *shardFill) next(i, n int) (*ledgerv1.Event, error) {
	account, id := accountName(i), fmt.Sprintf("c-%d-%d", i, n)
	c := &ledgerv1.Command{CommandId: id, Operation: ledgerv1.Operation_OPERATION_OPEN, Account: account, Currency: "EUR"}
	delta, balance := "0", strconv.Itoa(n*(n+1)/2)
	if n > 0 {
		delta = strconv.Itoa(n)
		c.Operation, c.Amount = ledgerv1.Operation_OPERATION_CREDIT, delta
	}
	fingerprint := lua.FingerprintOf(c)
	event := &ledgerv1.Event{
		Command: c, Fingerprint: fingerprint[:],
		Outcome: &ledgerv1.Outcome{
			CommandId: id, Account: account, Status: ledgerv1.Status_STATUS_APPLIED, Shard: uint32(s.shard), Position: s.link.Position + 1, Delta: delta, DecidedAt: timestamppb.New(s.at),
			BusinessDate: s.at.Format(time.DateOnly),
			After:        &ledgerv1.AccountState{Balance: balance, Held: "0", Floor: "0", Sequence: uint64(n + 1), Unit: "EUR/2", Status: "active", Available: balance},
		},
	}
	var err error
	s.link, err = s.link.Append(event)
	event.Head = event.Chain // any hash will do: nothing is decided from it
	return event, err
}
