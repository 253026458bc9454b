package chassis_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	"github.com/hotledger/hotledger/chassis/config"
	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/chassis/log"
	"github.com/hotledger/hotledger/chassis/metrics"
	"github.com/hotledger/hotledger/chassis/redis"
)

// settings is everything that the chassis lets an operator decide.
type settings struct {
	Log        log.Config
	Metrics    metrics.Config
	Kafka      kafka.Config
	Redis      redis.Config
	ClickHouse clickhouse.Config
}

func TestReadmeListsEverySettingAsItIs(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := config.Table(&settings{}); !strings.Contains(string(readme), table) {
		t.Errorf("README.md does not hold this table:\n%s", table)
	}
}

func TestDefaultsOfAllPartsRunTogether(t *testing.T) {
	t.Parallel()
	var s settings
	if err := config.Load("test", &s, nil, nil); err != nil {
		t.Error(err)
	}
}
