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
	// Cluster and Sentinel instead of Redis, where Options asked for them.
	Cluster  *sandbox.RedisCluster
	Sentinel *sandbox.RedisSentinel
	// Apache instead of Kafka, likewise.
	Apache *sandbox.ApacheKafka
	// ClickHouse is nil also where it runs in this process.
	ClickHouse *sandbox.ClickHouse
	// ClickHouseAddr is host:port of ClickHouse's HTTP interface.
	ClickHouseAddr string

	close []func() error // in the order of starting
}

// Topology is how Redis is set up.
type Topology string

// The three set-ups that the services know.
const (
	Single   Topology = ""
	Cluster  Topology = "cluster"  // three masters, a replica each
	Sentinel Topology = "sentinel" // a master and two replicas, watched by three Sentinels
)

// Options of Start.
type Options struct {
	Shards int
	// Kafka, Redis and ClickHouse say which engines are needed.
	Kafka, Redis, ClickHouse bool
	// Topology of Redis; default Single.
	Topology Topology
	// Apache asks for the real Apache Kafka in a process of its own instead of the embedded one.
	Apache bool
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
		if err = e.startKafka(ctx, o); err != nil {
			return e, err
		}
	}
	if o.Redis && !e.given("REDIS_ADDRS") {
		if err = e.startRedis(ctx, o); err != nil {
			return e, err
		}
	}
	if o.ClickHouse && !e.given("CLICKHOUSE_ADDRS") {
		if err = e.startClickHouse(ctx, o); err != nil {
			return e, err
		}
		e.Environ = append(e.Environ, "CLICKHOUSE_ADDRS="+e.ClickHouseAddr)
	}
	return e, nil
}

func (e *Engines) startKafka(ctx context.Context, o Options) (err error) {
	if o.Apache {
		if e.Apache, err = sandbox.StartApacheKafka(ctx, sandbox.ApacheKafkaOptions{Port: o.Ports[0]}); err != nil {
			return err
		}
		e.close = append(e.close, e.Apache.Stop)
		e.Environ = append(e.Environ, "KAFKA_BROKERS="+e.Apache.Addr())
		return nil
	}
	options := sandbox.KafkaOptions{}
	if o.Ports[0] != 0 {
		options.Ports = o.Ports[:1]
	}
	if e.Kafka, err = sandbox.StartKafka(options); err != nil {
		return err
	}
	e.close = append(e.close, func() error { e.Kafka.Close(); return nil })
	e.Environ = append(e.Environ, "KAFKA_BROKERS="+strings.Join(e.Kafka.Addrs(), ","))
	return nil
}

func (e *Engines) startRedis(ctx context.Context, o Options) (err error) {
	switch o.Topology {
	case Cluster:
		if e.Cluster, err = sandbox.StartRedisCluster(ctx, sandbox.RedisClusterOptions{}); err != nil {
			return err
		}
		e.close = append(e.close, e.Cluster.Stop)
		e.Environ = append(e.Environ, "REDIS_CLUSTER=true", "REDIS_ADDRS="+strings.Join(e.Cluster.Addrs(), ","))
	case Sentinel:
		if e.Sentinel, err = sandbox.StartRedisSentinel(ctx, sandbox.RedisSentinelOptions{}); err != nil {
			return err
		}
		e.close = append(e.close, e.Sentinel.Stop)
		e.Environ = append(e.Environ, "REDIS_MASTER_NAME="+sandbox.SentinelMaster, "REDIS_ADDRS="+strings.Join(e.Sentinel.Addrs(), ","))
	case Single:
		if e.Redis, err = sandbox.StartRedis(ctx, sandbox.RedisOptions{Dir: o.Dir, Port: o.Ports[1]}); err != nil {
			return err
		}
		e.close = append(e.close, e.Redis.Stop)
		e.Environ = append(e.Environ, "REDIS_ADDRS="+e.Redis.Addr())
	}
	return nil
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
	e.ClickHouse = child
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
