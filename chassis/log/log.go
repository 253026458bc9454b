// Package log builds the one logger of a process: structured, on standard error, one constant message per event.
package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Config says what is logged and how.
type Config struct {
	Level  string `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error"`
	Format string `env:"LOG_FORMAT" envDefault:"json" help:"json for collectors, console for people"`
}

// Validate reports an unknown level or format.
func (c Config) Validate() error {
	var problems []error
	if _, err := level(c.Level); err != nil {
		problems = append(problems, fmt.Errorf("LOG_LEVEL: %w", err))
	}
	if c.Format != "json" && c.Format != "console" {
		problems = append(problems, fmt.Errorf("LOG_FORMAT: %q is neither json nor console", c.Format))
	}
	return errors.Join(problems...)
}

// New builds a logger on standard error. level is debug, info, warn or error; format is json or console.
func New(level, format string) (*zap.Logger, error) {
	return build(level, format, os.Stderr)
}

func build(levelName, format string, w io.Writer) (*zap.Logger, error) {
	minimum, err := level(levelName)
	if err != nil {
		return nil, err
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = utc
	encoding.EncodeDuration = zapcore.StringDurationEncoder // "1.5s" says its unit
	var encoder zapcore.Encoder
	switch format {
	case "json":
		encoder = zapcore.NewJSONEncoder(encoding)
	case "console":
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	default:
		return nil, fmt.Errorf("log format %q is neither json nor console", format)
	}
	// No sampling: a line stands for a change of state, and losing one loses the story. No stack traces: errors carry
	// what was attempted.
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), minimum), zap.WithCaller(false)), nil
}

func level(name string) (zapcore.Level, error) {
	switch name {
	case "debug", "info", "warn", "error":
		return zapcore.ParseLevel(name)
	}
	return 0, fmt.Errorf("log level %q is none of debug, info, warn, error", name)
}

// utc makes lines of machines in different zones comparable.
func utc(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}
