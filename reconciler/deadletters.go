package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/run"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
)

// attendedGroup is the consumer group whose offsets say which dead letters a person has attended to.
const attendedGroup = "reconciler-attended"

// deadLettersMax bounds the time of counting: beyond it there are "more than".
const deadLettersMax = 10_000

func (r *reconciliation) checkDeadLetters(ctx context.Context) error {
	waiting, err := r.deadLetters(ctx, nil)
	if err != nil || waiting == 0 {
		return err
	}
	r.add(&Break{
		Class: DeadLettersUnattended, Action: Stop, evidence: []string{fmt.Sprint(waiting)},
		Detail: fmt.Sprintf("%s in %s that nobody has attended to: see `reconciler deadletters list`, and `reconciler deadletters attend` once somebody has",
			plural(uint64(waiting), "record"), topics.DeadLetters),
	})
	return nil
}

// unattended is where the dead letters that nobody has attended to begin and end, by partition; those without any are left out.
func (r *Reconciler) unattended(ctx context.Context) (from map[int32]kgo.Offset, ends kadm.ListedOffsets, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, logTimeout, errKafkaSilent)
	defer cancel()
	admin := kadm.NewClient(r.kafka)
	starts, err := admin.ListStartOffsets(ctx, topics.DeadLetters)
	if err != nil {
		return nil, nil, fmt.Errorf("count dead letters: %w", err)
	}
	if ends, err = admin.ListCommittedOffsets(ctx, topics.DeadLetters); err != nil {
		return nil, nil, fmt.Errorf("count dead letters: %w", err)
	}
	attended, err := admin.FetchOffsets(ctx, attendedGroup)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nobody ever attended to any
		return nil, nil, fmt.Errorf("read which dead letters are attended to: %w", err)
	}
	from = map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		at := int64(0)
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			at = start.Offset
		}
		if done, ok := attended.Lookup(end.Topic, end.Partition); ok {
			at = max(at, done.At)
		}
		if at < end.Offset {
			from[end.Partition] = kgo.NewOffset().At(at)
		}
	})
	return from, ends, nil
}

// deadLetters counts what nobody has attended to, deadLettersMax at most, and shows each to see. Offsets do not tell the number: the
// markers of transactions and the records of aborted ones have offsets too.
func (r *Reconciler) deadLetters(ctx context.Context, see func(*kgo.Record)) (int, error) {
	from, ends, err := r.unattended(ctx)
	if err != nil || len(from) == 0 {
		return 0, err
	}
	client, err := kafka.NewClient(r.cfg.Kafka, r.logger, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.DeadLetters: from}), kgo.KeepControlRecords())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	waiting := 0
	for len(from) > 0 && waiting < deadLettersMax {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, fmt.Errorf("read dead letters: %w", err)
		}
		for records := fetches.RecordIter(); !records.Done(); {
			record := records.Next()
			end, _ := ends.Lookup(record.Topic, record.Partition)
			if record.Offset >= end.Offset-1 {
				delete(from, record.Partition)
			}
			if record.Offset >= end.Offset || record.Attrs.IsControl() {
				continue
			}
			if waiting++; see != nil {
				see(record)
			}
		}
	}
	return waiting, nil
}

// AttendDeadLetters notes, in Kafka, that a person has attended to all dead letters that are there now.
func (r *Reconciler) AttendDeadLetters(ctx context.Context, by string) error {
	_, ends, err := r.unattended(ctx)
	if err != nil {
		return err
	}
	offsets := kadm.Offsets{}
	ends.Each(func(end kadm.ListedOffset) {
		offsets.Add(kadm.Offset{Topic: end.Topic, Partition: end.Partition, At: end.Offset, LeaderEpoch: -1, Metadata: by})
	})
	if err := kadm.NewClient(r.kafka).CommitAllOffsets(ctx, attendedGroup, offsets); err != nil {
		return fmt.Errorf("note attended dead letters: %w", err)
	}
	return nil
}

func deadLettersCommand(cfg *Config, environ []string) *cobra.Command {
	root := &cobra.Command{Use: "deadletters", Short: "Records that could not become an outcome, and that nobody has attended to", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error {
				waiting, err := r.deadLetters(ctx, nil)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s nobody has attended to\n", plural(uint64(waiting), "dead letter"))
				return err
			})
		}}
	root.AddCommand(&cobra.Command{Use: "list", Short: "Each of them: where it came from, why it is here, what it says", Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error { return r.listDeadLetters(ctx, cmd.OutOrStdout()) })
	}})
	by := ""
	attend := &cobra.Command{Use: "attend", Short: "Say that all dead letters up to now are attended to", Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		if by == "" {
			return run.WithExitCode(errors.New("--by: who attended to them?"), ExitUsage)
		}
		return withReconciler(cmd, cfg, environ, func(ctx context.Context, r *Reconciler) error { return r.AttendDeadLetters(ctx, by) })
	}}
	attend.Flags().StringVar(&by, "by", "", "your name")
	root.AddCommand(attend)
	return root
}

// letterBytesMax is how much of a letter is shown.
const letterBytesMax = 60

func (r *Reconciler) listDeadLetters(ctx context.Context, w io.Writer) error {
	t := plainTable()
	t.AppendHeader(table.Row{"since", "cause", "came from", "key", "begins with", "detail"})
	waiting, err := r.deadLetters(ctx, func(record *kgo.Record) {
		letter := &ledgerv1.DeadLetter{}
		if err := proto.Unmarshal(record.Value, letter); err != nil {
			letter = &ledgerv1.DeadLetter{Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, Key: record.Key, Value: record.Value, Detail: err.Error()}
		}
		t.AppendRow(table.Row{record.Timestamp.UTC().Format(time.DateTime), letter.GetCause(),
			fmt.Sprintf("%s/%d at %d", letter.GetTopic(), letter.GetPartition(), letter.GetOffset()), beginning(letter.GetKey()), beginning(letter.GetValue()), letter.GetDetail()})
	})
	if err != nil {
		return err
	}
	out := &errWriter{w: w}
	if waiting == 0 {
		out.say("No dead letter waits for a person.\n")
	} else {
		out.say("%s\n", t.Render())
	}
	return out.err
}

// beginning is what a terminal can show of some bytes.
func beginning(b []byte) string { return fmt.Sprintf("%q", b[:min(len(b), letterBytesMax)]) }
