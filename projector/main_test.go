package projector

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/sandbox"
)

// sharedClickHouse serves the tests that leave the server alone; each has databases of its own. CLICKHOUSE_ADDRS names another one.
var sharedClickHouse = sync.OnceValues(func() (*sandbox.ClickHouse, error) {
	return sandbox.StartClickHouse(context.Background(), sandbox.ClickHouseOptions{})
})

var sharedStarted atomic.Bool // read by TestMain when all tests have ended

func sharedClickHouseAddrs() ([]string, error) {
	if addrs := os.Getenv("CLICKHOUSE_ADDRS"); addrs != "" {
		return strings.Split(addrs, ","), nil
	}
	engine, err := sharedClickHouse()
	if err != nil {
		return nil, err
	}
	sharedStarted.Store(true)
	return []string{engine.Addr()}, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedStarted.Load() {
		engine, _ := sharedClickHouse()
		if err := engine.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop ClickHouse:", err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
