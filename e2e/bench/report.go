// Package bench measures Hotledger against references on the same machine in the same run. Every figure is a line
//
//	name value unit ratio reference
//
// where ratio = value / reference's value, or 1 where the figure is a reference itself. What a load left behind is checked before its
// figure counts.
package bench

import (
	"fmt"
	"io"
)

// Figure is one measured number.
type Figure struct {
	Name      string
	Value     float64
	Unit      string
	Reference string // name of the figure it is compared with; empty for a reference
}

// Report prints figures as they come and remembers them for the ratios.
type Report struct {
	out    io.Writer
	values map[string]float64
}

// NewReport prints to out.
func NewReport(out io.Writer) *Report { return &Report{out: out, values: map[string]float64{}} }

// Add prints one figure. Its reference must have been added before.
func (r *Report) Add(f Figure) {
	r.values[f.Name] = f.Value
	ratio, reference := 1.0, "-"
	if f.Reference != "" {
		ratio, reference = f.Value/r.values[f.Reference], f.Reference
	}
	_, _ = fmt.Fprintf(r.out, "%s %.0f %s %.3g %s\n", f.Name, f.Value, f.Unit, ratio, reference)
}

// Note prints a line that explains a figure; it begins with # so that programs skip it.
func (r *Report) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "# "+format+"\n", args...)
}
