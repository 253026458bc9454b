package writer

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hotledger/hotledger/chassis/config"
)

func TestReadmeListsEverySettingAsItIs(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	must(t, err)
	if table := config.Table(&Config{}); !strings.Contains(string(readme), table) {
		t.Errorf("README.md does not hold this table:\n%s", table)
	}
}

func TestDefaultsAreValidAndEveryBadSettingIsNamed(t *testing.T) {
	t.Parallel()
	var good Config
	must(t, config.Load("ledger-writer", &good, nil, nil))
	bad := good
	bad.Group, bad.BatchRecords, bad.RedisBudget, bad.TransactionTimeout, bad.SessionTimeout, bad.IdleCheck = "", 0, time.Hour, time.Minute, time.Second, 0
	err := bad.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, key := range []string{"GROUP", "BATCH_RECORDS", "REDIS_BUDGET", "TRANSACTION_TIMEOUT", "IDLE_CHECK"} {
		if !strings.Contains(err.Error(), "LEDGER_WRITER_"+key+": ") {
			t.Errorf("%s is not named: %v", key, err)
		}
	}
	for _, environ := range []string{
		"LEDGER_WRITER_BATCH_RECORDS=100001", "LEDGER_WRITER_REDIS_BUDGET=0s", "LEDGER_WRITER_REDIS_BUDGET=-1s", "LEDGER_WRITER_REDIS_BUDGET=15s",
		"LEDGER_WRITER_SESSION_TIMEOUT=15s", "LEDGER_WRITER_IDLE_CHECK=10", "LEDGER_WRITER_BATCH=1",
	} {
		if err := config.Load("ledger-writer", &Config{}, nil, []string{environ}); err == nil {
			t.Errorf("%s is taken", environ)
		}
	}
}
