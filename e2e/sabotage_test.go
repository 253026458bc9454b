package e2e

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hotledger/hotledger/e2e/sabotage"
)

// TestASoakUnderLoadReportsNothing reconciles without a pause under load for some seconds. `go run ./cmd/sabotage --soak 1h` does it for an hour,
// and without --soak it damages the ledger.
func TestASoakUnderLoadReportsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("about twenty seconds")
	}
	var out strings.Builder
	result, err := sabotage.Soak(t.Context(), &out, zap.NewNop(), false, 10*time.Second)
	if err != nil || result.False != 0 {
		t.Fatalf("%v\n%s", err, &out)
	}
}
