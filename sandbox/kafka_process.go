package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// KafkaProcess is a Kafka cluster in a process of its own, for tests that kill it: with SyncWrites nothing acknowledged is lost. Safe for concurrent use.
type KafkaProcess struct {
	options KafkaOptions
	binary  string
	addrs   []string

	engine
}

// StartKafkaProcess starts sandbox-kafka and returns when it listens. An empty DataDir is a temporary one that Stop removes.
// ctx bounds the start only.
func StartKafkaProcess(ctx context.Context, options KafkaOptions) (*KafkaProcess, error) {
	if len(options.Options) > 0 {
		return nil, errors.New("start kafka process: Options reach clusters in this process only")
	}
	binary, err := engineBinary(ctx, "sandbox-kafka")
	if err != nil {
		return nil, err
	}
	dir, remove, err := dataDir(options.DataDir, "kafka")
	if err != nil {
		return nil, err
	}
	options.DataDir = dir
	k := &KafkaProcess{options: options, binary: binary}
	k.engine = engine{name: "kafka", start: k.launch, removeDir: remove}
	if err := k.launch(ctx); err != nil {
		remove()
		return nil, err
	}
	return k, nil
}

func (k *KafkaProcess) launch(ctx context.Context) error {
	ports := make([]string, len(k.options.Ports))
	for i, port := range k.options.Ports {
		ports[i] = strconv.Itoa(port)
	}
	process, addrs, err := startListening(ctx, k.binary, []string{
		"-brokers", strconv.Itoa(max(k.options.Brokers, 1)), "-ports", strings.Join(ports, ","),
		"-data-dir", k.options.DataDir, "-sync-writes=" + strconv.FormatBool(k.options.SyncWrites),
	})
	if err != nil {
		return err
	}
	k.process, k.addrs = process, addrs
	return k.keepPorts()
}

// keepPorts makes the next start take the same ports.
func (k *KafkaProcess) keepPorts() error {
	k.options.Ports = nil
	for _, addr := range k.addrs {
		_, text, err := net.SplitHostPort(addr)
		if err != nil {
			return fmt.Errorf("read kafka's address: %w", err)
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("read kafka's address: %w", err)
		}
		k.options.Ports = append(k.options.Ports, port)
	}
	return nil
}

// Addrs are host:port of the brokers, the same over every Restart.
func (k *KafkaProcess) Addrs() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.addrs)
}
