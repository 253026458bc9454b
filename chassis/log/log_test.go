package log

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestLinesAreJSONInUTCWithUnits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger, err := build("info", "json", &out)
	if err != nil {
		t.Fatal(err)
	}
	logger.Debug("hidden")
	logger.Named("kafka").Info("shard assigned", zap.Int("shard", 3), zap.Duration("took", 1500*time.Millisecond))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if line["msg"] != "shard assigned" || line["level"] != "info" || line["shard"] != 3.0 || line["took"] != "1.5s" || line["logger"] != "kafka" {
		t.Errorf("got %v", line)
	}
	if at, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil || at.Location() != time.UTC {
		t.Errorf("time %v: %v", line["time"], err)
	}
}

func TestNoLineIsSampledAway(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger, err := build("warn", "console", &out)
	if err != nil {
		t.Fatal(err)
	}
	const lines = 1000
	for range lines {
		logger.Warn("the same words")
	}
	if got := strings.Count(out.String(), "the same words"); got != lines {
		t.Errorf("got %d lines of %d", got, lines)
	}
}

func TestUnknownLevelAndFormatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{"", "json"}, {"loud", "json"}, {"INFO", "json"}, {"fatal", "json"}, {"info", "xml"}, {"info", ""}} {
		if _, err := New(c.Level, c.Format); err == nil {
			t.Errorf("New accepts %+v", c)
		}
		if c.Validate() == nil {
			t.Errorf("Validate accepts %+v", c)
		}
	}
	for _, level := range []string{"debug", "info", "warn", "error"} {
		for _, format := range []string{"json", "console"} {
			if err := (Config{level, format}).Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}
