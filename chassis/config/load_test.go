package config_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hotledger/hotledger/chassis/config"
)

type engine struct {
	Addrs    []string      `env:"ENGINE_ADDRS" envDefault:"localhost:1" help:"where the engine is"`
	Password config.Secret `env:"ENGINE_PASSWORD" help:"what opens it"`
}

func (e engine) Validate() error { return config.CheckAddrs("ENGINE_ADDRS", e.Addrs) }

type settings struct {
	Engine engine
	Rows   int           `env:"PROJECTOR_ROWS" envDefault:"100" help:"rows a | batch"`
	Flush  time.Duration `env:"PROJECTOR_FLUSH" envDefault:"10s" help:"patience"`
	Dry    bool          `env:"PROJECTOR_DRY" envDefault:"false" help:"only look"`
	Now    func() time.Time
}

func (s settings) Validate() error {
	var problems []error
	if s.Rows < 1 {
		problems = append(problems, fmt.Errorf("PROJECTOR_ROWS: %d is below 1", s.Rows))
	}
	if s.Flush <= 0 {
		problems = append(problems, fmt.Errorf("PROJECTOR_FLUSH: %s is not positive", s.Flush))
	}
	return errors.Join(problems...)
}

func load(args, environ []string) (settings, error) {
	var s settings
	err := config.Load("projector", &s, args, environ)
	return s, err
}

func problems(t *testing.T, err error) []string {
	t.Helper()
	var e *config.Error
	if !errors.As(err, &e) {
		t.Fatalf("want a *config.Error, got %T: %v", err, err)
	}
	return e.Problems
}

func TestDefaultsRunWithoutAnySetting(t *testing.T) {
	t.Parallel()
	got, err := load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := settings{Engine: engine{Addrs: []string{"localhost:1"}}, Rows: 100, Flush: 10 * time.Second}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestFlagWinsOverEnvironmentAndEnvironmentOverDefault(t *testing.T) {
	t.Parallel()
	got, err := load([]string{"--projector-rows=7", "--projector-dry"},
		[]string{"PROJECTOR_ROWS=6", "PROJECTOR_FLUSH=250ms", "ENGINE_ADDRS=a:1, b:2", "ENGINE_PASSWORD=x"})
	if err != nil {
		t.Fatal(err)
	}
	want := settings{Engine: engine{Addrs: []string{"a:1", "b:2"}, Password: "x"}, Rows: 7, Flush: 250 * time.Millisecond, Dry: true}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestTheProcessEnvironmentIsReadOnlyWhereItIsGiven(t *testing.T) {
	t.Setenv("PROJECTOR_ROWS", "55")
	if got, err := load(nil, nil); err != nil || got.Rows != 100 {
		t.Fatalf("got %d, %v", got.Rows, err)
	}
	if got, err := load(nil, os.Environ()); err != nil || got.Rows != 55 {
		t.Fatalf("got %d, %v", got.Rows, err)
	}
}

func TestEmptyVariableCountsAsUnset(t *testing.T) {
	t.Parallel()
	got, err := load(nil, []string{"PROJECTOR_ROWS="})
	if err != nil || got.Rows != 100 {
		t.Fatalf("got %d, %v", got.Rows, err)
	}
}

func TestAllProblemsAreReportedAtOnceEachNamingItsKey(t *testing.T) {
	t.Parallel()
	_, err := load([]string{"--projector-dry=perhaps"},
		[]string{"PROJECTOR_ROWS=-1", "PROJECTOR_FLUSH=10", "PROJECTOR_FLUSHH=10s", "PROJECTOR_COLOUR=red", "ENGINE_ADDR=a:1", "ENGINE_ADDRS=nowhere"})
	got := problems(t, err)
	want := []string{
		"ENGINE_ADDR: unknown key; did you mean ENGINE_ADDRS?",
		"ENGINE_ADDRS: entry 1 is not host:port (credentials have keys of their own)",
		"PROJECTOR_COLOUR: unknown key; the keys that begin with PROJECTOR_ are: PROJECTOR_DRY, PROJECTOR_FLUSH, PROJECTOR_ROWS",
		`PROJECTOR_DRY: "perhaps" is not of type bool`,
		`PROJECTOR_FLUSH: "10" is not a duration; write a number and a unit, such as 250ms, 10s or 5m`,
		"PROJECTOR_FLUSHH: unknown key; did you mean PROJECTOR_FLUSH?",
		"PROJECTOR_ROWS: -1 is below 1",
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, key := range want {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("the text lacks %q", key)
		}
	}
}

func TestBadValuesAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"PROJECTOR_ROWS=ten", "PROJECTOR_ROWS=1e3", "PROJECTOR_ROWS=99999999999", "PROJECTOR_ROWS=0", "PROJECTOR_ROWS=1.5", "PROJECTOR_ROWS= 5",
		"PROJECTOR_FLUSH=10", "PROJECTOR_FLUSH=ten seconds", "PROJECTOR_FLUSH=-1s", "PROJECTOR_FLUSH=0", "PROJECTOR_FLUSH=10 s",
		"PROJECTOR_DRY=yes", "PROJECTOR_DRY=2",
		"ENGINE_ADDRS=,", "ENGINE_ADDRS=a:1,", "ENGINE_ADDRS=a", "ENGINE_ADDRS=:1", "ENGINE_ADDRS=a:0", "ENGINE_ADDRS=a:65536",
		"ENGINE_ADDRS=a:b", "ENGINE_ADDRS=http://a:1", "ENGINE_ADDRS=u:p@a:1",
	} {
		t.Run(entry, func(t *testing.T) {
			t.Parallel()
			key, _, _ := strings.Cut(entry, "=")
			_, err := load(nil, []string{entry})
			if got := problems(t, err); len(got) != 1 || !strings.HasPrefix(got[0], key+": ") {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func TestVariablesOfOthersAreNobodysMistake(t *testing.T) {
	t.Parallel()
	_, err := load(nil, []string{
		"PATH=/bin", "ENGINE_HOME=/opt", "HOME", "RECONCILER_ROWS=1",
		// what Kubernetes sets for a Service called projector
		"PROJECTOR_SERVICE_HOST=10.0.0.1", "PROJECTOR_SERVICE_PORT=80", "PROJECTOR_SERVICE_PORT_METRICS=80", "PROJECTOR_PORT=tcp://10.0.0.1:80",
		"PROJECTOR_PORT_80_TCP=tcp://10.0.0.1:80", "PROJECTOR_PORT_80_TCP_PROTO=tcp", "PROJECTOR_PORT_80_TCP_PORT=80", "PROJECTOR_PORT_80_TCP_ADDR=10.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnknownFlagsAndArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--projector-row=1"}, {"rows"}, {"--projector-rows"}} {
		_, err := load(args, nil)
		if len(problems(t, err)) != 1 {
			t.Errorf("%q: got %v", args, err)
		}
	}
}

func TestSubCommandsShareFlagsAndKnowEachOthersVariables(t *testing.T) {
	t.Parallel()
	type importing struct {
		Engine engine
		Skip   int `env:"PRODUCER_SKIP" envDefault:"0" help:"lines to skip"`
	}
	run := func(environ []string, args ...string) (common engine, own importing, err error) {
		root := &cobra.Command{Use: "producer", SilenceErrors: true, SilenceUsage: true}
		config.Bind(root, &common)
		imports := &cobra.Command{Use: "import", RunE: func(cmd *cobra.Command, _ []string) error {
			return config.Resolve(cmd, "producer", &own, environ)
		}}
		config.Bind(imports, &own)
		submit := &cobra.Command{Use: "submit", RunE: func(cmd *cobra.Command, _ []string) error {
			return config.Resolve(cmd, "producer", &common, environ)
		}}
		root.AddCommand(imports, submit)
		root.SetArgs(args)
		err = root.Execute()
		return common, own, err
	}
	_, got, err := run([]string{"ENGINE_PASSWORD=x"}, "import", "--engine-addrs", "a:1", "--producer-skip=3")
	want := importing{Engine: engine{Addrs: []string{"a:1"}, Password: "x"}, Skip: 3}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, c := range []struct {
		environ []string
		args    []string
		ok      bool
	}{
		{[]string{"PRODUCER_SKIP=1"}, []string{"submit"}, true}, // another sub-command's
		{[]string{"PRODUCER_SKP=1"}, []string{"submit"}, false},
		{nil, []string{"--engine-addrs=b:1", "submit"}, true},
		{nil, []string{"submit", "--producer-skip=1"}, false},
	} {
		if _, _, err := run(c.environ, c.args...); (err == nil) != c.ok {
			t.Errorf("%q %q: %v", c.environ, c.args, err)
		}
	}
}

func TestTableKeysAndEffectiveShowEveryKey(t *testing.T) {
	t.Parallel()
	var s settings
	if err := config.Load("projector", &s, nil, []string{"ENGINE_PASSWORD=hush", "ENGINE_ADDRS=a:1,b:2"}); err != nil {
		t.Fatal(err)
	}
	if got, want := config.Keys(&s), []string{"ENGINE_ADDRS", "ENGINE_PASSWORD", "PROJECTOR_ROWS", "PROJECTOR_FLUSH", "PROJECTOR_DRY"}; !reflect.DeepEqual(got, want) {
		t.Errorf("keys: got %q, want %q", got, want)
	}
	const table = "| key | default | meaning |\n|---|---|---|\n" +
		"| `ENGINE_ADDRS` | `localhost:1` | where the engine is |\n" +
		"| `ENGINE_PASSWORD` |  | what opens it |\n" +
		"| `PROJECTOR_ROWS` | `100` | rows a \\| batch |\n" +
		"| `PROJECTOR_FLUSH` | `10s` | patience |\n" +
		"| `PROJECTOR_DRY` | `false` | only look |\n"
	if got := config.Table(&s); got != table {
		t.Errorf("table: got\n%s", got)
	}
	want := map[string]string{"ENGINE_ADDRS": "a:1,b:2", "ENGINE_PASSWORD": "[redacted]", "PROJECTOR_ROWS": "100", "PROJECTOR_FLUSH": "10s", "PROJECTOR_DRY": "false"}
	if got := config.Effective(&s); !reflect.DeepEqual(got, want) {
		t.Errorf("effective: got %v", got)
	}
}
