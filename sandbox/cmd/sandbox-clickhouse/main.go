// Command sandbox-clickhouse serves ClickHouse's HTTP interface from libchdb until it gets SIGTERM or SIGINT.
// When it is ready it prints one line, "listening 127.0.0.1:8123".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hotledger/hotledger/sandbox/clickhouse"
)

func main() {
	dir := flag.String("dir", "clickhouse-data", "data directory, created when missing")
	addr := flag.String("addr", "127.0.0.1:8123", "host:port of the HTTP interface; port 0 takes a free one")
	flag.Parse()
	if err := serve(*dir, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-clickhouse:", err)
		os.Exit(1)
	}
}

func serve(dir, addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server, err := clickhouse.New(clickhouse.Options{Dir: dir, Addr: addr})
	if err != nil {
		return err
	}
	fmt.Println("listening", server.Addr())
	<-ctx.Done()
	return server.Close()
}
