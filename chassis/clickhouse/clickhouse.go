// Package clickhouse builds the ClickHouse connections of a process, each option with its reason.
package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hotledger/hotledger/chassis/config"
)

// Config says where ClickHouse is and which databases belong to the ledger.
type Config struct {
	Addrs           []string      `env:"CLICKHOUSE_ADDRS" envDefault:"localhost:8123" help:"host:port of the HTTP interface, tried in this order; native://host:9000 selects the native protocol"`
	Database        string        `env:"CLICKHOUSE_DATABASE" envDefault:"ledger" help:"database of the events and of the evidence"`
	FinanceDatabase string        `env:"CLICKHOUSE_FINANCE_DATABASE" envDefault:"finance" help:"database of the views for finance"`
	Username        string        `env:"CLICKHOUSE_USERNAME" envDefault:"default" help:"user"`
	Password        config.Secret `env:"CLICKHOUSE_PASSWORD" help:"password of the user"`
	TLS             bool          `env:"CLICKHOUSE_TLS" envDefault:"false" help:"encrypt connections; the server's certificate is checked"`
	CAFile          string        `env:"CLICKHOUSE_CA_FILE" help:"PEM file of the authority that signed the servers' certificates; empty = the system's"`
}

const (
	// dialTimeout skips a dead address before anybody's patience ends.
	dialTimeout = 5 * time.Second
	// readTimeout is the longest silence of a server: longer than an insert with fsync and a reconciling query take,
	// short enough that a lost connection does not hold a shard for the driver's default of five minutes. A deadline
	// of the context overrides it.
	readTimeout = time.Minute
	// openConnsMax is a projector's shards in parallel plus queries; the driver's default of 10, said aloud.
	openConnsMax = 10
	idleConnsMax = 5
	// connAgeMax brings connections back to a preferred address that was restarted; addresses are chosen at dial only.
	connAgeMax = 10 * time.Minute

	nativePrefix = "native://"
)

// identifier is what a database may be called without quoting it anywhere.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// Validate reports all problems, each naming its key.
func (c Config) Validate() error {
	_, addrs, err := c.protocol()
	problems := []error{err}
	if err == nil {
		problems = append(problems, config.CheckAddrs("CLICKHOUSE_ADDRS", addrs))
	}
	for key, name := range map[string]string{"CLICKHOUSE_DATABASE": c.Database, "CLICKHOUSE_FINANCE_DATABASE": c.FinanceDatabase} {
		if !identifier.MatchString(name) {
			problems = append(problems, fmt.Errorf("%s: %q is not a plain name of letters, digits and _, up to 64 bytes", key, name))
		}
	}
	if c.Database == c.FinanceDatabase {
		problems = append(problems, errors.New("CLICKHOUSE_FINANCE_DATABASE: must differ from CLICKHOUSE_DATABASE, for finance is granted the views alone"))
	}
	if c.CAFile != "" && !c.TLS {
		problems = append(problems, errors.New("CLICKHOUSE_CA_FILE: is of no use without CLICKHOUSE_TLS=true"))
	}
	return errors.Join(problems...)
}

// protocol splits the prefix off the addresses. HTTP and native ports cannot be mixed in one pool.
func (c Config) protocol() (ch.Protocol, []string, error) {
	var bare []string
	native := 0
	for _, addr := range c.Addrs {
		rest, ok := strings.CutPrefix(addr, nativePrefix)
		if ok {
			native++
		}
		bare = append(bare, rest)
	}
	switch native {
	case 0:
		return ch.HTTP, bare, nil
	case len(bare):
		return ch.Native, bare, nil
	}
	return 0, nil, errors.New("CLICKHOUSE_ADDRS: mixes HTTP and native:// addresses; one client speaks one protocol")
}

// Options builds the driver's options; database is the one that unqualified names mean.
func (c Config) options(database string) (*ch.Options, error) {
	protocol, addrs, err := c.protocol()
	if err != nil {
		return nil, err
	}
	opts := &ch.Options{
		Protocol: protocol,
		Addr:     addrs,
		// The first address that answers: inserts of one projector stay on one replica, whose deduplication log knows
		// them.
		ConnOpenStrategy: ch.ConnOpenInOrder,
		Auth:             ch.Auth{Database: database, Username: c.Username, Password: c.Password.Reveal()},
		// Cheap to compute, a third of the bytes on the wire for columns of numbers.
		Compression:     &ch.Compression{Method: ch.CompressionLZ4},
		DialTimeout:     dialTimeout,
		ReadTimeout:     readTimeout,
		MaxOpenConns:    openConnsMax,
		MaxIdleConns:    idleConnsMax,
		ConnMaxLifetime: connAgeMax,
		Settings: ch.Settings{
			// On by default since 26.3: the server would acknowledge and then regroup rows, and the identity of a
			// batch would be lost.
			"async_insert": 0,
		},
	}
	opts.ClientInfo.Products = []struct{ Name, Version string }{{Name: "hotledger", Version: "0"}}
	if c.TLS {
		opts.TLS, err = config.TLS("CLICKHOUSE_CA_FILE", c.CAFile)
		if err != nil {
			return nil, err
		}
	}
	return opts, nil
}

// Open builds a pool on cfg.Database. It does not connect; Ping does. The caller closes it.
func Open(cfg Config) (driver.Conn, error) {
	opts, err := cfg.options(cfg.Database)
	if err != nil {
		return nil, err
	}
	conn, err := ch.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("build ClickHouse client: %w", err)
	}
	return conn, nil
}

// OpenDB builds a pool for migrations on the database "default": the ledger's own may not exist yet, so migrations
// qualify every name. It does not connect. The caller closes it.
func OpenDB(cfg Config) (*sql.DB, error) {
	opts, err := cfg.options("default")
	if err != nil {
		return nil, err
	}
	return ch.OpenDB(opts), nil
}

// Ping asks the server for a sign of life. The error names the addresses.
func Ping(ctx context.Context, cfg Config, conn driver.Conn) error {
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("ping ClickHouse at %s: %w", strings.Join(cfg.Addrs, ","), err)
	}
	return nil
}
