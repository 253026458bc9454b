package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hotledger/hotledger/producer/importer"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
)

// progress shows on standard error how far an import is: a bar on a terminal, a plain line now and then elsewhere. Used
// by one goroutine.
type progress struct {
	w           io.Writer
	bar         *progressbar.ProgressBar // nil off a terminal
	done, total int
	lastLine    time.Time
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, total: total, lastLine: time.Now()}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription("import"),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionThrottle(barEvery),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// result counts a row, and says what is wrong with it.
func (p *progress) result(r importer.Result) {
	p.done++
	if r.Text != "" {
		if p.bar != nil {
			_ = p.bar.Clear() // a bar that cannot be drawn is no reason to stop
		}
		_, _ = fmt.Fprintln(p.w, r.Text)
	}
	if p.bar != nil {
		_ = p.bar.Add(1)
		return
	}
	if now := time.Now(); now.Sub(p.lastLine) >= lineEvery {
		p.lastLine = now
		_, _ = fmt.Fprintf(p.w, "import: %d of %d\n", p.done, p.total)
	}
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
