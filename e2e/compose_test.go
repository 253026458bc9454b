package e2e

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/hotledger/hotledger/chassis/config"
	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/producer/cli"
	"github.com/hotledger/hotledger/projector"
	"github.com/hotledger/hotledger/reconciler"
)

type compose struct {
	Services map[string]struct {
		Image string
		Build struct{ Args map[string]string }
		// Environment of the service, anchors merged.
		Environment map[string]string
		Healthcheck struct{ Test any }
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	}
	Volumes map[string]any
}

// TestTheComposeFileSetsOnlyWhatTheServicesKnow stands in for running it, which needs a container engine.
func TestTheComposeFileSetsOnlyWhatTheServicesKnow(t *testing.T) {
	t.Parallel()
	var file compose
	if err := yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	services := map[string]any{"ledger-writer": &writer.Config{}, "projector": &projector.Config{}, "reconciler": &reconciler.Config{}, "producer": &cli.Config{}}
	for name, cfg := range services {
		service, ok := file.Services[name]
		if !ok {
			t.Errorf("docker-compose.yml has no %s", name)
			continue
		}
		if service.Build.Args["SERVICE"] != name {
			t.Errorf("%s is built from %q", name, service.Build.Args["SERVICE"])
		}
		keys := config.Keys(cfg)
		var environ []string
		for key, value := range service.Environment {
			if !slices.Contains(keys, key) {
				t.Errorf("%s does not know %s", name, key)
			}
			environ = append(environ, key+"="+value)
		}
		if err := config.Load(name, cfg, nil, environ); err != nil {
			t.Errorf("%s would not start: %v", name, err)
		}
		for needed := range service.DependsOn {
			if _, ok := file.Services[needed]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, needed)
			}
		}
	}
	for _, engine := range []string{"kafka", "redis", "clickhouse"} {
		if file.Services[engine].Healthcheck.Test == nil || !strings.Contains(file.Services[engine].Image, ":") {
			t.Errorf("%s has no health check, or no version: %+v", engine, file.Services[engine])
		}
	}
	dockerfile := read(t, "Dockerfile")
	for _, must := range []string{"ARG SERVICE", "GOWORK=off", "nonroot"} {
		if !strings.Contains(dockerfile, must) {
			t.Errorf("Dockerfile lacks %s", must)
		}
	}
}
