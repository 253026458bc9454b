package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/projector"
	"github.com/hotledger/hotledger/sandbox"
)

// Projected is what a projector did.
type Projected struct {
	PerCore    float64 // events per second of CPU of the projector's process, which does nothing else
	PerSecond  float64
	PeakMemory uint64  // bytes that the Go runtime held at most
	ClickHouse float64 // microseconds of CPU that ClickHouse took per event; 0 where it is a server of the environment
}

// Projector measures how fast events that are in Kafka get into ClickHouse, with fsync, by one worker on one shard. Kafka and ClickHouse have
// processes of their own: engines has all but Kafka. Every event must be a row, once.
func Projector(ctx context.Context, engines *stack.Engines, rdb *redis.Client, events int) (_ Projected, err error) {
	broker, err := sandbox.StartKafkaProcess(ctx, sandbox.KafkaOptions{})
	if err != nil {
		return Projected{}, err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	engines.Environ = append(engines.Environ, "KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","))
	if err := hotRounds(ctx, engines.Environ, rdb, events-2, 1, func(int, Load) {}); err != nil { // and what opens and funds it
		return Projected{}, err
	}
	ledger, err := stack.Connect(engines, zap.NewNop())
	if err != nil {
		return Projected{}, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if err := projector.Migrate(ctx, ledger.Projector); err != nil {
		return Projected{}, err
	}
	defer run.TuneGC(projector.GCPercent)() // as in a projector's own process
	runtime.GC()
	debug.FreeOSMemory()
	peak := watchMemory()
	start, cpu, clickHouse := time.Now(), processCPU(), clickHouseCPU(engines)
	stop, err := ledger.StartProjector()
	if err != nil {
		return Projected{}, err
	}
	err = ledger.AwaitProjected(ctx, []uint64{uint64(events)})
	took, spent := time.Since(start), processCPU()-cpu
	p := Projected{
		PerCore: float64(events) / spent.Seconds(), PerSecond: float64(events) / took.Seconds(), PeakMemory: peak(),
		ClickHouse: (clickHouseCPU(engines) - clickHouse) * 1e6 / float64(events),
	}
	if err = errors.Join(err, stop()); err != nil {
		return p, err
	}
	var rows, positions uint64
	var total int64
	query := fmt.Sprintf("SELECT count(), uniqExact(position), sum(delta) FROM %s.events", ledger.Projector.ClickHouse.Database)
	if err := ledger.ClickHouse.QueryRow(ctx, query).Scan(&rows, &positions, &total); err != nil {
		return p, err
	}
	if rows != uint64(events) || positions != rows || total != int64(hotFunds-(events-2)) {
		return p, fmt.Errorf("projector: %d rows, %d positions, %d in all, of %d events", rows, positions, total, events)
	}
	return p, nil
}

// watchMemory looks at what the Go runtime holds, until the returned func is called, which tells the most that it saw.
func watchMemory() (peak func() uint64) {
	const look = 20 * time.Millisecond
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	done := make(chan struct{})
	var most uint64
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			metrics.Read(samples)
			most = max(most, samples[0].Value.Uint64()-samples[1].Value.Uint64())
			select {
			case <-time.After(look):
			case <-done:
				return
			}
		}
	})
	return func() uint64 {
		close(done)
		watching.Wait()
		return most
	}
}
