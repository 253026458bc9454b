package clickhouse

import (
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/chassis/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = "S3cr3t%zz#@/:"

func load(environ ...string) (Config, error) {
	var cfg Config
	err := config.Load("test", &cfg, nil, environ)
	return cfg, err
}

func TestPrefixSelectsTheProtocol(t *testing.T) {
	t.Parallel()
	for addrs, want := range map[string]ch.Protocol{
		"localhost:8123":               ch.HTTP,
		"a:8123,b:8123":                ch.HTTP,
		"native://a:9000":              ch.Native,
		"native://a:9000,native://b:1": ch.Native,
	} {
		cfg, err := load("CLICKHOUSE_ADDRS=" + addrs)
		if err != nil {
			t.Fatal(err)
		}
		opts, err := cfg.options(cfg.Database)
		if err != nil || opts.Protocol != want {
			t.Errorf("%s: %v, %v", addrs, opts.Protocol, err)
		}
		if want := strings.Split(strings.ReplaceAll(addrs, nativePrefix, ""), ","); !reflect.DeepEqual(opts.Addr, want) {
			t.Errorf("%s: addresses %q", addrs, opts.Addr)
		}
	}
}

func TestEveryConnectionTurnsAsynchronousInsertsOff(t *testing.T) {
	t.Parallel()
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	opts, err := cfg.options("ledger")
	if err != nil {
		t.Fatal(err)
	}
	if opts.Settings["async_insert"] != 0 || opts.Compression.Method != ch.CompressionLZ4 || opts.Auth.Database != "ledger" {
		t.Errorf("got %+v", opts)
	}
}

func TestBadSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"CLICKHOUSE_ADDRS=a:8123,native://b:9000", "CLICKHOUSE_ADDRS=http://a:8123", "CLICKHOUSE_ADDRS=a",
		"CLICKHOUSE_ADDRS=native://a", "CLICKHOUSE_ADDRS=native://u:" + password + "@a:9000",
		"CLICKHOUSE_DATABASE=a b", "CLICKHOUSE_DATABASE=a;DROP", "CLICKHOUSE_DATABASE=1a", "CLICKHOUSE_FINANCE_DATABASE=`x`",
		"CLICKHOUSE_FINANCE_DATABASE=ledger", "CLICKHOUSE_CA_FILE=/tmp/x", "CLICKHOUSE_TLS=maybe", "CLICKHOUSE_ADDR=a:1",
	} {
		key, _, _ := strings.Cut(entry, "=")
		_, err := load(entry)
		if err == nil || !strings.Contains(err.Error(), "  "+key+": ") {
			t.Errorf("%s: %v", entry, err)
		}
		if err != nil && strings.Contains(err.Error(), "S3cr3t") {
			t.Errorf("the secret is in %v", err)
		}
	}
	cfg, err := load("CLICKHOUSE_CA_FILE=/nowhere.pem", "CLICKHOUSE_TLS=true")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); err == nil || !strings.HasPrefix(err.Error(), "CLICKHOUSE_CA_FILE: ") {
		t.Errorf("got %v", err)
	}
}

func TestServerThatIsNotThereIsNamedAndThePasswordIsNot(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close()
	for _, prefix := range []string{"", nativePrefix} {
		cfg, err := load("CLICKHOUSE_ADDRS="+prefix+closed, "CLICKHOUSE_PASSWORD="+password)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = Ping(t.Context(), cfg, conn)
		if err == nil || !strings.Contains(err.Error(), closed) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("ping: %v", err)
		}
		db, dbErr := OpenDB(cfg)
		if dbErr != nil {
			t.Fatal(dbErr)
		}
		dbErr = db.PingContext(t.Context())
		if leak := fmt.Sprintf("%v %+v %v %+v", err, cfg, dbErr, cfg.Password); dbErr == nil || strings.Contains(leak, "S3cr3t") {
			t.Errorf("the secret is in %s", leak)
		}
		_ = db.Close()
		_ = conn.Close()
	}
}
