package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// KafkaProcess is a Kafka cluster in a process of its own, for tests that kill it. Safe for concurrent use.
type KafkaProcess struct {
	options   KafkaOptions
	removeDir func()
	binary    string
	addrs     []string

	mu      sync.Mutex
	process *child // nil while stopped
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
	k := &KafkaProcess{options: options, removeDir: remove, binary: binary}
	if err := k.start(ctx); err != nil {
		remove()
		return nil, err
	}
	return k, nil
}

func (k *KafkaProcess) start(ctx context.Context) error {
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

// PID of the running process, or 0.
func (k *KafkaProcess) PID() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process == nil {
		return 0
	}
	return k.process.pid()
}

// Stop ends the process in good order and removes a temporary directory.
func (k *KafkaProcess) Stop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.removeDir()
	return k.halt()
}

func (k *KafkaProcess) halt() error {
	if k.process == nil {
		return nil
	}
	err := k.process.stop()
	k.process = nil
	return err
}

// Kill ends the process with SIGKILL and returns when it is gone. With SyncWrites nothing acknowledged is lost.
func (k *KafkaProcess) Kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		k.process.kill()
		k.process = nil
	}
}

// Restart starts the process again on the same ports and directory, after stopping it if it runs.
func (k *KafkaProcess) Restart(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.halt(); err != nil {
		return err
	}
	return k.start(ctx)
}
