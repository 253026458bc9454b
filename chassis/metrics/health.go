package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// checkTimeout bounds one readiness check: shorter than the usual timeout of a probe (3 s and more).
const checkTimeout = 2 * time.Second

// Health answers two questions. Live: do the loops of this process turn? It asks no other process, so that an outage
// of Redis never restarts what waits for it. Ready: can this process do its work now? It asks what it depends on.
type Health struct {
	mu     sync.Mutex
	checks map[string]func(context.Context) error // written by Check, read by requests
	beats  map[string]*Heartbeat                  // written by Heartbeat and Stop, read by requests
	now    func() time.Time
}

// NewHealth returns a health that is live and ready until something is added.
func NewHealth() *Health {
	return &Health{checks: map[string]func(context.Context) error{}, beats: map[string]*Heartbeat{}, now: time.Now}
}

// Check adds a readiness check, or replaces the one of that name. check gets a context of two seconds and is called by
// several goroutines; its error is shown to whoever asks for /readyz?verbose.
func (h *Health) Check(name string, check func(ctx context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[name] = check
}

// Heartbeat adds a loop that must turn at least once per max, or the process counts as dead. Choose max well above the
// loop's longest wait for an engine: a wait is no deadlock. The clock starts now; Stop removes it.
func (h *Health) Heartbeat(name string, max time.Duration) *Heartbeat {
	b := &Heartbeat{health: h, name: name, max: max}
	b.Beat()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beats[name] = b
	return b
}

// Heartbeat is the sign of life of one loop.
type Heartbeat struct {
	health *Health
	name   string
	max    time.Duration
	last   atomic.Int64 // Unix nanoseconds; written by the loop, read by requests
}

// Beat says that the loop turns. It costs one atomic store.
func (b *Heartbeat) Beat() { b.last.Store(b.health.now().UnixNano()) }

// Stop says that the loop ended on purpose.
func (b *Heartbeat) Stop() {
	b.health.mu.Lock()
	defer b.health.mu.Unlock()
	if b.health.beats[b.name] == b {
		delete(b.health.beats, b.name)
	}
}

// Live returns nil, or every loop that has stood still for too long.
func (h *Health) Live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var dead []error
	for name, b := range h.beats {
		if still := h.now().Sub(time.Unix(0, b.last.Load())); still > b.max {
			dead = append(dead, fmt.Errorf("%s: no turn for %s, allowed are %s", name, still.Round(time.Millisecond), b.max))
		}
	}
	slices.SortFunc(dead, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(dead...)
}

// Ready runs all checks at once and returns each by name, nil where it passed.
func (h *Health) Ready(ctx context.Context) map[string]error {
	h.mu.Lock()
	checks := make(map[string]func(context.Context) error, len(h.checks))
	for name, check := range h.checks {
		checks[name] = check
	}
	h.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var mu sync.Mutex
	results := make(map[string]error, len(checks))
	var wg sync.WaitGroup
	for name, check := range checks {
		wg.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			results[name] = err
		})
	}
	wg.Wait()
	return results
}

func (h *Health) serveLive(w http.ResponseWriter, _ *http.Request) {
	if err := h.Live(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

func (h *Health) serveReady(w http.ResponseWriter, r *http.Request) {
	results := h.Ready(r.Context())
	names := make([]string, 0, len(results))
	for name := range results {
		names = append(names, name)
	}
	slices.Sort(names)
	verbose := r.URL.Query().Has("verbose")
	status := http.StatusOK
	var body strings.Builder
	for _, name := range names {
		switch err := results[name]; {
		case err != nil && verbose:
			fmt.Fprintf(&body, "[-] %s: %v\n", name, err)
		case err != nil:
			fmt.Fprintf(&body, "[-] %s\n", name)
		case verbose:
			fmt.Fprintf(&body, "[+] %s\n", name)
		}
		if results[name] != nil {
			status = http.StatusServiceUnavailable
		}
	}
	if body.Len() == 0 {
		body.WriteString("ok\n")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body.String()))
}
