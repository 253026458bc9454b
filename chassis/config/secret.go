package config

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted stands wherever a secret would have been printed.
const redacted = "[redacted]"

// Secret is a text that never prints: every verb of fmt, JSON, text, zap and slog show "[redacted]", even when it is
// empty. Reveal gives the text to the client library that needs it, and to nobody else.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (Secret) GoString() string { return redacted }

// Format writes "[redacted]" for every verb. Without it %x or %d would reach the bytes.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns "[redacted]".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "[redacted]" as a JSON string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue returns "[redacted]" for slog, which some client libraries log through.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
