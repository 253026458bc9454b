package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, handler http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestMetricsShowRuntimeProcessBuildAndOwn(t *testing.T) {
	t.Parallel()
	reg := NewRegistry()
	own := prometheus.NewCounter(prometheus.CounterOpts{Name: "hotledger_test_total", Help: "a count"})
	reg.MustRegister(own)
	own.Inc()
	status, body := get(t, Handler(reg, NewHealth()), "/metrics")
	for _, want := range []string{"go_goroutines ", "process_start_time_seconds ", "go_build_info{", "hotledger_test_total 1"} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, no %q", status, want)
		}
	}
}

func TestReadinessNamesWhatIsMissingAndLivenessDoesNotCare(t *testing.T) {
	t.Parallel()
	health := NewHealth()
	handler := Handler(NewRegistry(), health)
	if status, body := get(t, handler, "/readyz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("empty: %d %q", status, body)
	}
	health.Check("redis", func(context.Context) error { return errors.New("dial tcp: refused") })
	health.Check("kafka", func(context.Context) error { return nil })
	for path, want := range map[string]string{
		"/readyz":         "[-] redis\n",
		"/readyz?verbose": "[+] kafka\n[-] redis: dial tcp: refused\n",
	} {
		if status, body := get(t, handler, path); status != http.StatusServiceUnavailable || body != want {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if status, _ := get(t, handler, "/livez"); status != http.StatusOK {
		t.Errorf("live: %d", status)
	}
	health.Check("redis", func(context.Context) error { return nil })
	if status, body := get(t, handler, "/readyz?verbose"); status != http.StatusOK || body != "[+] kafka\n[+] redis\n" {
		t.Errorf("healed: %d %q", status, body)
	}
}

func TestCheckThatHangsIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		health := NewHealth()
		health.Check("redis", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if err := health.Ready(t.Context())["redis"]; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestLoopThatStandsStillIsNotLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		health := NewHealth()
		handler := Handler(NewRegistry(), health)
		loop := health.Heartbeat("shard loop", 30*time.Second)
		time.Sleep(30 * time.Second)
		if status, body := get(t, handler, "/livez"); status != http.StatusOK {
			t.Errorf("at the limit: %d %q", status, body)
		}
		loop.Beat()
		time.Sleep(31 * time.Second)
		status, body := get(t, handler, "/livez")
		if status != http.StatusServiceUnavailable || body != "shard loop: no turn for 31s, allowed are 30s\n" {
			t.Errorf("stuck: %d %q", status, body)
		}
		loop.Stop()
		if status, _ := get(t, handler, "/livez"); status != http.StatusOK {
			t.Errorf("stopped on purpose: %d", status)
		}
	})
}

func TestServeAnswersUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener, Handler(NewRegistry(), NewHealth())) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || string(body) != "ok\n" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("still answers")
	}
}

func TestServeIsOffWithoutAnAddressAndNamesItsKeyWhenTheAddressIsTaken(t *testing.T) {
	t.Parallel()
	if err := Serve(t.Context(), "", NewRegistry(), NewHealth()); err != nil {
		t.Error(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	err = Serve(t.Context(), listener.Addr().String(), NewRegistry(), NewHealth())
	if err == nil || !strings.HasPrefix(err.Error(), "METRICS_ADDR: ") {
		t.Errorf("got %v", err)
	}
}

func TestAddressIsChecked(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{"": true, ":9100": true, "127.0.0.1:9100": true, "[::1]:9100": true, "9100": false, ":": false, "host": false} {
		if err := (Config{Addr: addr}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", addr, err)
		}
	}
}
