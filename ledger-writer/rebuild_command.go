package writer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/run"
	"github.com/hotledger/hotledger/lua"
)

// Exit statuses of `ledger-writer rebuild`, besides 0 (rebuilt) and 1 (something was away; run it again).
const (
	exitUsage = 2
	// exitOvertaken: another recovery of the shard began meanwhile. Nothing was changed by this one.
	exitOvertaken = 3
	// exitUnusable: --from clickhouse, and ClickHouse does not prove to be a prefix of the log. Nothing was changed.
	exitUnusable = 4
	// exitDamaged: the log lost events or does not link. Nothing was changed; restore the log first.
	exitDamaged = 5
)

func rebuildCommand() *cobra.Command {
	var cfg Config
	shard, from := -1, ""
	command := &cobra.Command{
		Use:   "rebuild",
		Short: "Make one shard's state in Redis anew from the log",
		Long: "rebuild makes accounts, outcomes and head of one shard anew, beside the live ones, and swaps them in at once. Writers may run:\n" +
			"to them it looks like a Redis that went back by a moment, which they heal by themselves.\n\n" +
			"Exit status: 0 rebuilt; 1 an engine was away, run it again; 2 called wrongly; 3 a writer began a recovery of the shard meanwhile,\n" +
			"which does the same; 4 --from clickhouse, and ClickHouse does not prove to be a prefix of the log; 5 the log is damaged. 3, 4 and 5\n" +
			"changed nothing.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Resolve(cmd, "ledger-writer", &cfg, os.Environ()); err != nil {
				return err
			}
			logger, err := log.New(cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			defer func() { _ = logger.Sync() }()
			done, err := Rebuild(cmd.Context(), cfg, logger, shard, from)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "shard %d rebuilt to %s: %s\n", shard, done.Head, done)
			}
			return err
		},
	}
	command.Flags().IntVar(&shard, "shard", -1, "the shard to rebuild, from 0")
	command.Flags().StringVar(&from, "from", "", "log = from the log alone; clickhouse = from ClickHouse and the log's tail, or not at all; empty = as LEDGER_WRITER_REBUILD_FROM_CLICKHOUSE says")
	config.Bind(command, &cfg)
	return command
}

// Rebuild makes one shard anew from FromLog, from FromClickHouse and the log's tail or not at all, or, with "", as the configuration says. It waits
// for Kafka and Redis until ctx ends. Errors carry the exit statuses above.
//
// It takes no ownership of the shard, and needs none: to the owner, the swap is a Redis that was put back to the end of the log as it stood a
// moment ago, and that may happen to a Redis at any time.
//
//   - The build is the fold of committed events, so the live keys never say what the log does not.
//   - An apply that ran before the swap is gone from Redis. Its writer has the answer and commits it; the next apply names a head that Redis
//     is not at, is refused, and the recovery finds Redis behind and replays (rule 13). If the writer died instead, its batch was never
//     committed, and its commands are decided again (rule 20): the outbox is not needed for safety.
//   - An apply after the swap goes through only if the writer believes in just the head that was swapped in. Then nothing changed for it.
//   - A swap that comes late (this process slept) puts Redis back further, no worse; an idle owner finds it (rule 17).
//   - A recovery of the owner at the same time uses the same build keys. Whoever begins later drops the other's build, whose next chunk or
//     swap is then refused (rule 16). The owner tries again; this command gives up, for the owner does the same work.
func Rebuild(ctx context.Context, cfg Config, logger *zap.Logger, shard int, from string) (Rebuilt, error) {
	if err := checkRebuild(&cfg, shard, from); err != nil {
		return Rebuilt{}, run.WithExitCode(err, exitUsage)
	}
	w, err := New(cfg, logger, prometheus.NewRegistry(), metrics.NewHealth())
	if err != nil {
		return Rebuilt{}, err
	}
	defer w.close()
	if err := w.prepare(ctx); err != nil {
		return Rebuilt{}, err
	}
	client, err := kafka.NewClient(cfg.Kafka, logger)
	if err != nil {
		return Rebuilt{}, err
	}
	defer client.Close()
	w.log = w.eventLog(kadm.NewClient(client))
	end, err := w.log.stableEnd(ctx, shard)
	if err != nil {
		return Rebuilt{}, err
	}
	last, err := w.log.last(ctx, shard, end)
	if err != nil {
		return Rebuilt{}, withStatus(err)
	}
	job := w.rebuild(shard, last, end)
	job.strict = from == FromClickHouse
	done, err := job.run(ctx)
	if err != nil {
		return Rebuilt{}, withStatus(fmt.Errorf("rebuild shard %d: %w", shard, err))
	}
	return done, nil
}

func checkRebuild(cfg *Config, shard int, from string) error {
	if shard < 0 || shard >= cfg.Kafka.Shards {
		return fmt.Errorf("--shard: %d is not within 0..%d", shard, cfg.Kafka.Shards-1)
	}
	switch from {
	case FromLog:
		cfg.RebuildFromClickHouse = false
	case FromClickHouse:
		cfg.RebuildFromClickHouse = true
	case "":
	default:
		return fmt.Errorf("--from: %q is neither %s nor %s", from, FromLog, FromClickHouse)
	}
	return nil
}

func withStatus(err error) error {
	switch {
	case errors.Is(err, lua.ErrOutOfSync):
		return run.WithExitCode(err, exitOvertaken)
	case isUnusable(err):
		return run.WithExitCode(err, exitUnusable)
	case isDamaged(err):
		return run.WithExitCode(err, exitDamaged)
	}
	return err
}
