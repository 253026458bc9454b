//go:build !traps

package writer

// Crash points for tests; nothing in a release build.
const (
	trapApplied   = "applied"
	trapPublished = "published"
	trapCommitted = "committed"
	trapInspected = "inspected"
	trapSettled   = "settled"
	trapReplaying = "replaying"
	trapBuilding  = "building"
	trapSwapped   = "swapped"
)

func hit(string) {}
