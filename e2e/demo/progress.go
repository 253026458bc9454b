package demo

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/hotledger/hotledger/producer/importer"
)

// bar shows the progress of an import on a terminal, and nothing elsewhere.
type bar struct{ bar *progressbar.ProgressBar }

func newBar(name string) bar {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return bar{}
	}
	const every = 100 * time.Millisecond
	return bar{progressbar.NewOptions(-1, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("  "+name),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(every), progressbar.OptionClearOnFinish())}
}

func (b bar) result(importer.Result) {
	if b.bar != nil {
		_ = b.bar.Add(1) // a bar that cannot be drawn is no reason to stop
	}
}

func (b bar) done() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}
