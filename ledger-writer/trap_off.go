//go:build !traps

package writer

// Crash points for tests; nothing in a release build.
const (
	trapApplied   = "applied"
	trapCommitted = "committed"
)

func hit(string) {}
