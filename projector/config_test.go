package projector

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/chassis/config"
)

func TestReadmeTellsEveryKey(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := config.Table(&Config{}); !strings.Contains(string(readme), table) {
		t.Fatalf("README.md must contain:\n%s", table)
	}
}

func TestConfigTellsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	var cfg Config
	err := config.Load("projector", &cfg, nil, []string{"PROJECTOR_BATCH_ROWS=0", "PROJECTOR_BATCH_BYTES=-1", "PROJECTOR_BATCH_WAIT=0s", "PROJECTOR_INSERT_TIMEOUT=1ms", "PROJECTOR_ROWS=1"})
	var problems *config.Error
	if !errors.As(err, &problems) || len(problems.Problems) != 5 {
		t.Fatalf("got %v", err)
	}
}
