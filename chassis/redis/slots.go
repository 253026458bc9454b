package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// slotMap asks a Cluster who serves what whenever a command met trouble. By itself the library does so after MOVED, and else once a
// minute: a master that is gone says nothing, and its shards would wait that minute although a replica was promoted in a second.
type slotMap struct{ cluster *goredis.ClusterClient }

// DialHook changes nothing.
func (slotMap) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook looks at one command.
func (m slotMap) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if IsTransient(err) {
			m.cluster.ReloadState(ctx) // in the background; several within 200 ms are one
		}
		return err
	}
}

// ProcessPipelineHook looks at each command of a pipeline: they go to several nodes.
func (m slotMap) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if IsTransient(cmd.Err()) {
				m.cluster.ReloadState(ctx)
				break
			}
		}
		return err
	}
}
