package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/hotledger/hotledger/chassis/retry"
	"github.com/hotledger/hotledger/schemas/topics"
)

// visibleTries is how often a topic that was just created is looked for: with the backoff policy about ten seconds.
const visibleTries = 8

// TopicError is a topic that is not what the ledger needs. Starting on it would lose or misplace money, and no retry
// heals it.
type TopicError struct {
	Topic   string
	Problem string // what is wrong, and why that matters
	Fix     string // what the operator may do
}

// Error gives the problem and the fix.
func (e *TopicError) Error() string {
	return fmt.Sprintf("topic %s: %s; fix: %s", e.Topic, e.Problem, e.Fix)
}

// ExitCode is 2, like any other setting that is wrong.
func (*TopicError) ExitCode() int { return 2 }

// EnsureTopics creates the topics of topics.Table that are missing, with cfg.Shards partitions, checks those that are
// there, and returns their ids by name. It changes nothing on a topic that exists. What contradicts the table comes
// back as *TopicError, all of them joined, and permanent for package retry; any other error is Kafka's and may pass.
func EnsureTopics(ctx context.Context, cfg Config, client *kgo.Client) (map[string]kadm.TopicID, error) {
	admin := kadm.NewClient(client)
	table := topics.Table()
	names := make([]string, 0, len(table))
	for _, topic := range table {
		names = append(names, topic.Name)
	}
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for _, topic := range table {
		if errors.Is(details[topic.Name].Err, kerr.UnknownTopicOrPartition) {
			if err := create(ctx, cfg, admin, topic); err != nil {
				return nil, err
			}
		}
	}
	details, err = visible(ctx, admin, names)
	if err != nil {
		return nil, err
	}
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	var problems []error
	ids := make(map[string]kadm.TopicID, len(table))
	for _, topic := range table {
		ids[topic.Name] = details[topic.Name].ID
		problems = append(problems, checkPartitions(cfg, details[topic.Name]))
		actual, err := configs.On(topic.Name, nil)
		if err = errors.Join(err, actual.Err); err != nil {
			return nil, fmt.Errorf("describe topic %s: %w", topic.Name, err)
		}
		problems = append(problems, checkConfigs(cfg, topic, actual.Configs)...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, retry.Permanent(err)
	}
	return ids, nil
}

func create(ctx context.Context, cfg Config, admin *kadm.Client, topic topics.Topic) error {
	configs := make(map[string]*string, len(topic.Configs))
	for key, value := range topic.Configs {
		configs[key] = &value
	}
	created, err := admin.CreateTopic(ctx, int32(cfg.Shards), int16(cfg.ReplicationFactor), configs, topic.Name)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // another service may start at the same moment
		return fmt.Errorf("create topic %s: %w (%s)", topic.Name, err, created.ErrMessage)
	}
	return nil
}

// visible waits until the metadata of every topic has arrived: a broker learns of a new topic a moment after its creation.
func visible(ctx context.Context, admin *kadm.Client, names []string) (kadm.TopicDetails, error) {
	var details kadm.TopicDetails
	tries := 0
	err := retry.Do(ctx, zap.NewNop(), "wait for topics", func(ctx context.Context) error {
		tries++
		var err error
		if details, err = admin.ListTopics(ctx, names...); err == nil {
			err = details.Error()
		}
		if err != nil && tries == visibleTries {
			return retry.Permanent(err)
		}
		return err
	})
	return details, err
}

func checkPartitions(cfg Config, actual kadm.TopicDetail) error {
	if n := len(actual.Partitions); n != cfg.Shards {
		return &TopicError{
			Topic:   actual.Topic,
			Problem: fmt.Sprintf("has %d partitions, LEDGER_SHARDS is %d, and the number of shards is fixed when a ledger is created", n, cfg.Shards),
			Fix:     fmt.Sprintf("set LEDGER_SHARDS=%d if this is the right Kafka; more shards need a new ledger", n),
		}
	}
	return nil
}

// checkConfigs compares what the table requires. A config that the broker does not report has its default there, which
// the table has a reason to differ from: it counts as wrong.
func checkConfigs(cfg Config, topic topics.Topic, actual []kadm.Config) []error {
	var problems []error
	for _, key := range topic.Required {
		want, got := topic.Configs[key], "unset"
		if i := slices.IndexFunc(actual, func(c kadm.Config) bool { return c.Key == key }); i >= 0 && actual[i].Value != nil {
			got = *actual[i].Value
		}
		if got == want {
			continue
		}
		problems = append(problems, &TopicError{
			Topic:   topic.Name,
			Problem: fmt.Sprintf("%s is %s and must be %s, or what the ledger relies on may be lost", key, got, want),
			Fix: fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s",
				strings.Join(cfg.Brokers, ","), topic.Name, key, want),
		})
	}
	return problems
}
