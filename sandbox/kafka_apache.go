package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ApacheKafkaOptions of a private broker.
type ApacheKafkaOptions struct {
	// Dir keeps its data over restarts. Empty: a temporary directory that Stop removes.
	Dir string
	// Port on 127.0.0.1. 0: a free one, kept over Restart.
	Port int
	// Settings go into server.properties after the sandbox's own and win.
	Settings map[string]string
}

// ApacheKafka is one broker of the real Apache Kafka in KRaft mode, its own controller. Topics are never created by themselves.
// What it acknowledged survives Kill, not a crash of the machine. Safe for concurrent use.
type ApacheKafka struct {
	options    ApacheKafkaOptions
	controller int // port

	engine
}

// ErrApacheKafkaMissing means that the jars are not in the cache, or that there is no java in PATH.
var ErrApacheKafkaMissing = errors.New("apache kafka not found, run scripts/install-kafka.sh")

// apacheKafkaVersion is the one that scripts/install-kafka.sh fetches.
const apacheKafkaVersion = "4.1.1"

// ApacheKafkaDir is where the jars are, and an empty log directory that is formatted.
func ApacheKafkaDir() string { return filepath.Join(cacheDir(), "kafka", apacheKafkaVersion) }

// apacheKafkaSettings make a small broker that starts fast and notices dead clients fast. What a production broker would set otherwise
// is how often it looks and how many partitions its own topics have, not what it promises.
var apacheKafkaSettings = map[string]string{
	"process.roles":                  "broker,controller",
	"node.id":                        "1",
	"controller.listener.names":      "CONTROLLER",
	"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
	"auto.create.topics.enable":      "false",

	"offsets.topic.replication.factor":         "1",
	"offsets.topic.num.partitions":             "4",
	"transaction.state.log.replication.factor": "1",
	"transaction.state.log.min.isr":            "1",
	"transaction.state.log.num.partitions":     "4",

	"group.initial.rebalance.delay.ms": "0",
	"group.min.session.timeout.ms":     "500",
	// 10 s by default: so much later than its timeout would a transaction end whose writer is gone.
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",

	"num.network.threads":                   "2",
	"num.io.threads":                        "4",
	"background.threads":                    "2",
	"log.cleaner.dedupe.buffer.size":        "2097152", // 128 MB by default
	"controlled.shutdown.enable":            "false",   // there is nobody to hand over to
	"controller.quorum.election.timeout.ms": "200",
	"controller.quorum.fetch.timeout.ms":    "2000",
}

// javaOptions favour a fast start over a fast long run.
var javaOptions = []string{"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}

// StartApacheKafka starts a broker and returns when it answers. ctx bounds the start only.
func StartApacheKafka(ctx context.Context, options ApacheKafkaOptions) (*ApacheKafka, error) {
	dir, remove, err := dataDir(options.Dir, "apache-kafka")
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	k := &ApacheKafka{options: options}
	k.engine = engine{name: "apache kafka", start: k.launch, removeDir: remove}
	for attempt := 1; ; attempt++ {
		if k.controller, err = freePort(); err != nil {
			break
		}
		if options.Port == 0 {
			if k.options.Port, err = freePort(); err != nil {
				break
			}
		}
		if err = k.launch(ctx); err == nil {
			return k, nil
		}
		if attempt == startAttemptsMax || ctx.Err() != nil || errors.Is(err, ErrApacheKafkaMissing) {
			break
		}
	}
	remove()
	return nil, err
}

// start needs k.mu or sole ownership.
func (k *ApacheKafka) launch(ctx context.Context) error {
	java, err := exec.LookPath("java")
	if err != nil {
		return ErrApacheKafkaMissing
	}
	properties, err := k.prepare()
	if err != nil {
		return err
	}
	args := append(slices.Clone(javaOptions), "-cp", filepath.Join(ApacheKafkaDir(), "lib", "*"), "kafka.Kafka", properties)
	process, err := startChild(java, args, nil)
	if err != nil {
		return err
	}
	if err := k.awaitAnswer(ctx, process); err != nil {
		process.kill()
		return fmt.Errorf("start apache kafka: %w: %s", err, process.output)
	}
	k.process = process
	return nil
}

// prepare writes server.properties, and formats the log directory by copying one that is.
func (k *ApacheKafka) prepare() (properties string, err error) {
	logs := filepath.Join(k.options.Dir, "logs")
	if err := os.MkdirAll(logs, 0o750); err != nil {
		return "", fmt.Errorf("create data directory: %w", err)
	}
	if _, err := os.Stat(filepath.Join(logs, "meta.properties")); errors.Is(err, os.ErrNotExist) {
		for _, name := range []string{"bootstrap.checkpoint", "meta.properties"} {
			content, err := os.ReadFile(filepath.Join(ApacheKafkaDir(), "formatted", name)) //nolint:gosec // a file of the cache
			if err != nil {
				return "", fmt.Errorf("%w (%w)", ErrApacheKafkaMissing, err)
			}
			if err := os.WriteFile(filepath.Join(logs, name), content, 0o600); err != nil { //nolint:gosec // in the data directory that the caller names
				return "", fmt.Errorf("format log directory: %w", err)
			}
		}
	}
	settings := maps.Clone(apacheKafkaSettings)
	settings["log.dirs"] = logs
	settings["listeners"] = fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d", k.Addr(), k.controller)
	settings["controller.quorum.voters"] = fmt.Sprintf("1@127.0.0.1:%d", k.controller)
	maps.Copy(settings, k.options.Settings)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", key, settings[key])
	}
	properties = filepath.Join(k.options.Dir, "server.properties")
	if err := os.WriteFile(properties, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write server.properties: %w", err)
	}
	return properties, nil
}

// awaitAnswer polls until the broker answers: it listens only when it has caught up with its own metadata.
func (k *ApacheKafka) awaitAnswer(ctx context.Context, process *child) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr()), kgo.RequestRetries(0), kgo.DialTimeout(time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if err := client.Ping(ctx); err == nil {
			return nil
		}
		select {
		case <-process.ended:
			return process.endedErr()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * pollInterval):
		}
	}
}

// Addr is host:port of the broker, the same over every Restart.
func (k *ApacheKafka) Addr() string { return "127.0.0.1:" + strconv.Itoa(k.options.Port) }
