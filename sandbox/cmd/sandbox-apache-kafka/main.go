// Command sandbox-apache-kafka runs one broker of the real Apache Kafka until it is told to stop.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hotledger/hotledger/sandbox"
)

func main() {
	port := flag.Int("port", 0, "port on 127.0.0.1; 0 = a free one")
	dir := flag.String("data-dir", "", "keeps the broker's data; empty = a temporary directory")
	flag.Parse()
	if err := run(*port, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-apache-kafka:", err)
		os.Exit(1)
	}
}

func run(port int, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	broker, err := sandbox.StartApacheKafka(ctx, sandbox.ApacheKafkaOptions{Port: port, Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println("listening", broker.Addr())
	<-ctx.Done()
	return broker.Stop()
}
