// Command sandbox-kafka runs an embedded Kafka until it gets SIGTERM or SIGINT.
// When it is ready it prints one line, "listening 127.0.0.1:9092 ...", with one address per broker.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/hotledger/hotledger/sandbox"
)

func main() {
	var options sandbox.KafkaOptions
	flag.IntVar(&options.Brokers, "brokers", 1, "number of brokers, when -ports is empty")
	flag.StringVar(&options.DataDir, "data-dir", "", "directory that keeps the state; empty: memory only")
	flag.BoolVar(&options.SyncWrites, "sync-writes", false, "acknowledge a produce only when it is on disk")
	ports := flag.String("ports", "", "ports on 127.0.0.1, separated by commas; empty: free ones")
	flag.Parse()
	if err := serve(options, *ports); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-kafka:", err)
		os.Exit(1)
	}
}

func serve(options sandbox.KafkaOptions, ports string) error {
	for text := range strings.SplitSeq(ports, ",") {
		if text == "" {
			continue
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("read -ports: %w", err)
		}
		options.Ports = append(options.Ports, port)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	kafka, err := sandbox.StartKafka(options)
	if err != nil {
		return err
	}
	fmt.Println("listening", strings.Join(kafka.Addrs(), " "))
	<-ctx.Done()
	kafka.Close()
	return nil
}
