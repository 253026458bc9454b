package writer

import (
	"fmt"
	"testing"
	"time"
)

func TestARedisThatBeginsToEvictMakesTheWriterNotReady(t *testing.T) {
	t.Parallel()
	l := setup(t)
	w := l.writer(t)
	w.policyCheck = 10 * time.Millisecond
	start(t, w)
	l.send(t, open("a"))
	l.audit(t) // what it refuses at its start is behind it
	for _, policy := range []string{"allkeys-lru", "noeviction", "volatile-ttl"} {
		must(t, l.rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		until(t, "readiness with "+policy, func() string {
			if err := w.health.Ready(t.Context())["redis eviction policy"]; (err == nil) != (policy == "noeviction") {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
	l.send(t, credit("c", "a", "1"))
	l.audit(t) // it goes on all the same
}
