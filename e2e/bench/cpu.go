package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
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
	info, err := rdb.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	total, found := 0.0, 0
	for line := range strings.Lines(info) {
		for _, key := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), key); ok {
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return 0, fmt.Errorf("INFO cpu: %w", err)
				}
				total, found = total+seconds, found+1
			}
		}
	}
	if found != 2 {
		return 0, fmt.Errorf("INFO cpu has no used_cpu_user or used_cpu_sys")
	}
	return time.Duration(total * float64(time.Second)), nil
}
