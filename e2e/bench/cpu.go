package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotledger/hotledger/e2e/stack"
)

// processCPU is what this process has used so far: user and system.
func processCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // only a wrong argument is refused
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// redisCPU is what a Redis has used so far.
func redisCPU(ctx context.Context, rdb *redis.Client) (time.Duration, error) {
	info := rdb.InfoMap(ctx, "cpu")
	if err := info.Err(); err != nil {
		return 0, err
	}
	total := 0.0
	for _, key := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info.Item("CPU", key), 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %s: %w", key, err)
		}
		total += seconds
	}
	return time.Duration(total * float64(time.Second)), nil
}

// ticks per second in /proc, on every Linux that Go runs on.
const ticks = 100

// clickHouseCPU is the seconds of CPU that ClickHouse took so far; 0 where it is a server of the environment.
func clickHouseCPU(engines *stack.Engines) float64 {
	if engines.ClickHouse == nil {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", engines.ClickHouse.PID()))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name may have blanks
	words := strings.Fields(after)
	const user, system = 11, 12
	if len(words) <= system {
		return 0
	}
	u, _ := strconv.ParseFloat(words[user], 64)
	s, _ := strconv.ParseFloat(words[system], 64)
	return (u + s) / ticks
}
