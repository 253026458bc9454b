// Package bench measures Hotledger against references on the same machine in the same run. Every figure is a line
//
//	name value unit ratio reference
//
// where ratio = value / reference's value, or 1 where the figure is a reference itself; of figures that take turns with their reference, value and ratio
// are medians (turns.go). What a load left behind is checked before its figure counts.
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

// Add prints one figure. Its reference has been added before.
func (r *Report) Add(f Figure) {
	r.values[f.Name] = f.Value
	ratio, reference := 1.0, "-"
	if value := r.values[f.Reference]; value != 0 { // 0: this run left it out
		ratio, reference = f.Value/value, f.Reference
	}
	r.line(f.Name, f.Value, f.Unit, ratio, reference)
}

// Compare prints a figure, commands per second, that took turns with its reference: medians, and how far the turns are apart.
func (r *Report) Compare(name string, loads []Load, reference string, beside []Load) {
	rates := sorted(loads, func(turn int) float64 { return loads[turn].PerSecond })
	ratios := sorted(loads, func(turn int) float64 { return loads[turn].PerSecond / beside[turn].PerSecond })
	r.values[name] = median(rates)
	r.line(name, median(rates), "commands/s", median(ratios), reference)
	r.Note("%s is %.3g to %.3g times %s in %d turns", name, ratios[0], ratios[len(ratios)-1], reference, len(ratios))
}

func (r *Report) line(name string, value float64, unit string, ratio float64, reference string) {
	_, _ = fmt.Fprintf(r.out, "%s %s %s %.3g %s\n", name, number(value), unit, ratio, reference)
}

// number has three digits at least.
func number(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Note prints a line that explains a figure; it begins with # so that programs skip it.
func (r *Report) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "# "+format+"\n", args...)
}
