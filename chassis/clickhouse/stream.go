package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// Stream runs a query with a FORMAT clause, which the driver cannot, and copies the bytes that the server makes of it into out. HTTP alone. The
// server sends nothing before it has the whole answer, so an error is an error and never a file that ends early.
func Stream(ctx context.Context, cfg Config, query string, out io.Writer) error {
	opts, err := cfg.options(cfg.Database)
	if err != nil {
		return err
	}
	if opts.Protocol != ch.HTTP {
		return errors.New("stream from ClickHouse: needs the HTTP interface, and CLICKHOUSE_ADDRS names the native one")
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSClientConfig: opts.TLS}
	defer transport.CloseIdleConnections()
	var problems []error
	for _, addr := range opts.Addr {
		response, err := post(ctx, transport, opts, addr, query)
		if err != nil { // nothing was read yet, so the next address may be asked
			problems = append(problems, err)
			continue
		}
		defer response.Body.Close() //nolint:errcheck // read to its end below
		if response.StatusCode != http.StatusOK {
			const textMax = 4096
			text, _ := io.ReadAll(io.LimitReader(response.Body, textMax))
			return fmt.Errorf("stream from ClickHouse: %s: %s", response.Status, strings.TrimSpace(string(text)))
		}
		if _, err := io.Copy(out, response.Body); err != nil {
			return fmt.Errorf("stream from ClickHouse: %w", err)
		}
		return nil
	}
	return fmt.Errorf("stream from ClickHouse: %w", errors.Join(problems...))
}

func post(ctx context.Context, transport http.RoundTripper, opts *ch.Options, addr, query string) (*http.Response, error) {
	target := url.URL{Scheme: "http", Host: addr, Path: "/", RawQuery: url.Values{"database": {opts.Auth.Database}, "wait_end_of_query": {"1"}}.Encode()}
	if opts.TLS != nil {
		target.Scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(query))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-ClickHouse-User", opts.Auth.Username)
	request.Header.Set("X-ClickHouse-Key", opts.Auth.Password)
	return (&http.Client{Transport: transport}).Do(request)
}
