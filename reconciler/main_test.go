package reconciler

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hotledger/hotledger/sandbox"
	"go.uber.org/goleak"
)

// One ClickHouse serves all tests, each with a database of its own; CLICKHOUSE_ADDRS names another server. Redis and Kafka are the
// test's own, because tests break them.
var sharedClickHouse = sync.OnceValues(func() (*sandbox.ClickHouse, error) {
	return sandbox.StartClickHouse(context.Background(), sandbox.ClickHouseOptions{})
})

func clickHouseAddrs() ([]string, error) {
	if addrs := os.Getenv("CLICKHOUSE_ADDRS"); addrs != "" {
		return strings.Split(addrs, ","), nil
	}
	engine, err := sharedClickHouse()
	if err != nil {
		return nil, err
	}
	return []string{engine.Addr()}, nil
}

func TestMain(m *testing.M) {
	if os.Getenv(asReconciler) != "" {
		Main() // process_test.go: it does not return
	}
	code := m.Run()
	if os.Getenv("CLICKHOUSE_ADDRS") == "" {
		if engine, err := sharedClickHouse(); err == nil {
			if err := engine.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop ClickHouse:", err)
				code = 1
			}
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
