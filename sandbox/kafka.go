package sandbox

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

// KafkaOptions of an embedded Kafka. Topics are never created by themselves.
type KafkaOptions struct {
	// Brokers in the cluster, default 1. Ignored when Ports is set.
	Brokers int
	// Ports on 127.0.0.1, one per broker. Empty: free ones.
	Ports []int
	// DataDir keeps the cluster's state over restarts. Empty: memory only.
	DataDir string
	// SyncWrites makes every produce durable before it is acknowledged, so that kill -9 loses nothing that was acknowledged.
	// Slower; needs DataDir.
	SyncWrites bool
	// Options go to kfake after the others. In-process clusters only.
	Options []kfake.Opt
}

// Kafka is a cluster in this process.
type Kafka struct {
	cluster *kfake.Cluster
}

// StartKafka starts a cluster in this process and returns when it listens.
func StartKafka(options KafkaOptions) (*Kafka, error) {
	opts := []kfake.Opt{kfake.NumBrokers(max(options.Brokers, 1))}
	if len(options.Ports) > 0 {
		opts = []kfake.Opt{kfake.Ports(options.Ports...)}
	}
	if options.DataDir != "" {
		opts = append(opts, kfake.DataDir(options.DataDir))
		if options.SyncWrites {
			opts = append(opts, kfake.SyncWrites())
		}
	}
	cluster, err := kfake.NewCluster(append(opts, options.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	return &Kafka{cluster: cluster}, nil
}

// Addrs are host:port of the brokers.
func (k *Kafka) Addrs() []string { return k.cluster.ListenAddrs() }

// Cluster gives access to what only a fake can do: answer a request with an error, hold it back, move a partition, look at a group.
func (k *Kafka) Cluster() *kfake.Cluster { return k.cluster }

// Close ends the cluster and writes its state to DataDir.
func (k *Kafka) Close() { k.cluster.Close() }
