// Package stack starts a whole ledger for proofs and for the demo: the engines, embedded unless the environment names others, and
// the services against them, each in this process.
package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hotledger/hotledger/sandbox"
	"github.com/hotledger/hotledger/sandbox/clickhouse"
)

// Engines are the three servers that a ledger stands on.
type Engines struct {
	// Environ names them, as the services read it: KAFKA_BROKERS, REDIS_ADDRS, CLICKHOUSE_ADDRS, LEDGER_SHARDS.
	Environ []string
	Kafka   *sandbox.Kafka // nil where the environment names a server; so are the others
	Redis   *sandbox.Redis
	// ClickHouseAddr is host:port of ClickHouse's HTTP interface.
	ClickHouseAddr string

	close []func() error // in the order of starting
}

// Options of Start.
type Options struct {
	Shards int
	// Kafka, Redis and ClickHouse say which engines are needed.
	Kafka, Redis, ClickHouse bool
	// ClickHouseInProcess loads the engine into this process instead of a child: not in a process that was built with -race.
	ClickHouseInProcess bool
	// Ports of Kafka, Redis, ClickHouse, in this order; 0 or absent = a free one.
	Ports [3]int
	// Dir keeps what the engines write. The caller removes it.
	Dir string
}

// Start starts what is asked for and what the environment does not name already. Close ends it.
func Start(ctx context.Context, o Options) (_ *Engines, err error) {
	e := &Engines{Environ: []string{fmt.Sprintf("LEDGER_SHARDS=%d", o.Shards)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if o.Kafka && !e.given("KAFKA_BROKERS") {
		options := sandbox.KafkaOptions{}
		if o.Ports[0] != 0 {
			options.Ports = o.Ports[:1]
		}
		if e.Kafka, err = sandbox.StartKafka(options); err != nil {
			return e, err
		}
		e.close = append(e.close, func() error { e.Kafka.Close(); return nil })
		e.Environ = append(e.Environ, "KAFKA_BROKERS="+strings.Join(e.Kafka.Addrs(), ","))
	}
	if o.Redis && !e.given("REDIS_ADDRS") {
		if e.Redis, err = sandbox.StartRedis(ctx, sandbox.RedisOptions{Dir: o.Dir, Port: o.Ports[1]}); err != nil {
			return e, err
		}
		e.close = append(e.close, e.Redis.Stop)
		e.Environ = append(e.Environ, "REDIS_ADDRS="+e.Redis.Addr())
	}
	if o.ClickHouse && !e.given("CLICKHOUSE_ADDRS") {
		if err = e.startClickHouse(ctx, o); err != nil {
			return e, err
		}
		e.Environ = append(e.Environ, "CLICKHOUSE_ADDRS="+e.ClickHouseAddr)
	}
	return e, nil
}

func (e *Engines) startClickHouse(ctx context.Context, o Options) error {
	if o.ClickHouseInProcess {
		server, err := clickhouse.New(clickhouse.Options{Dir: o.Dir + "/clickhouse", Addr: fmt.Sprintf("127.0.0.1:%d", o.Ports[2])})
		if err != nil {
			return err
		}
		e.close = append(e.close, server.Close)
		e.ClickHouseAddr = server.Addr()
		return nil
	}
	child, err := sandbox.StartClickHouse(ctx, sandbox.ClickHouseOptions{Port: o.Ports[2]})
	if err != nil {
		return err
	}
	e.close = append(e.close, child.Stop)
	e.ClickHouseAddr = child.Addr()
	return nil
}

// given takes an engine from the environment, if it names one.
func (e *Engines) given(key string) bool {
	value := os.Getenv(key)
	if value == "" {
		return false
	}
	e.Environ = append(e.Environ, key+"="+value)
	if key == "CLICKHOUSE_ADDRS" {
		e.ClickHouseAddr = strings.Split(value, ",")[0]
	}
	return true
}

// Close ends the engines that Start started, the last first.
func (e *Engines) Close() error {
	var problems []error
	for _, end := range slices.Backward(e.close) {
		problems = append(problems, end())
	}
	e.close = nil
	return errors.Join(problems...)
}
