// Package metrics is what a process shows of itself: Prometheus metrics, liveness and readiness, on one HTTP port.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hotledger/hotledger/chassis/config"
)

// Config says where a process shows itself.
type Config struct {
	Addr string `env:"METRICS_ADDR" help:"host:port for /metrics, /livez and /readyz, such as :9100; empty = off"`
}

// Validate reports an address that is not host:port. The host may be empty, which means every interface.
func (c Config) Validate() error {
	if c.Addr == "" {
		return nil
	}
	addr := c.Addr
	if addr[0] == ':' {
		addr = "any" + addr
	}
	return config.CheckAddrs("METRICS_ADDR", []string{addr})
}

const (
	// headerTimeout and readTimeout close connections that ask for nothing; a scrape's request is a few hundred bytes.
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	// writeTimeout is above the longest check and below the usual scrape interval.
	writeTimeout = 15 * time.Second
	idleTimeout  = time.Minute
	// shutdownTimeout lets a scrape in progress end, and never delays the end of a drain noticeably.
	shutdownTimeout = 2 * time.Second
	headerBytesMax  = 16 << 10
)

// NewRegistry returns a registry with the metrics of the Go runtime, the process and the build. Services register
// their own with it; there is no global registry.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return reg
}

// Handler serves /metrics, /livez and /readyz (with ?verbose: every check and its error).
func Handler(reg *prometheus.Registry, health *Health) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	mux.HandleFunc("GET /livez", health.serveLive)
	mux.HandleFunc("GET /readyz", health.serveReady)
	return mux
}

// Serve answers on addr until ctx ends, and returns nil then. An empty addr is off: it returns nil at once. Give it a
// context that outlives the drain, or probes see a dead process that is only finishing its work.
func Serve(ctx context.Context, addr string, reg *prometheus.Registry, health *Health) error {
	if addr == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("METRICS_ADDR: %w", err)
	}
	return serve(ctx, listener, Handler(reg, health))
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }() // ends with Shutdown or Close below
	select {
	case err := <-stopped:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		_ = server.Close() // a scraper that hangs does not hold the process
	}
	if err := <-stopped; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
