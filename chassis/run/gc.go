package run

import (
	"os"
	"runtime/debug"
)

// TuneGC lets the heap grow by so many percent over what is live before it is collected, and returns what puts the setting back. Go's 100 is for programs
// that nothing is known of; a service whose live memory is small can trade more of it for CPU. An operator who sets GOGC knows better: then
// nothing is changed.
func TuneGC(percent int) (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
