package projector

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hotledger/hotledger/schemas/topics"
)

// lagInterval is about a scrape's: one request for all shards.
const lagInterval = 10 * time.Second

// measureLag compares the rows with the end of the log until ctx ends. It asks the log itself and not the reader, so it also
// tells of shards that wait or are halted.
func (p *Projector) measureLag(ctx context.Context, group *kgo.Client) {
	ticker := time.NewTicker(lagInterval)
	defer ticker.Stop()
	admin := kadm.NewClient(group)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.setLag(ctx, admin)
		}
	}
}

func (p *Projector) setLag(ctx context.Context, admin *kadm.Client) {
	// The high watermark, not the last stable offset: what an open transaction holds back is behind, too.
	ends, err := admin.ListEndOffsets(ctx, topics.Events)
	if err != nil {
		return // the gauge keeps its last value; the workers' own retries tell that Kafka is away
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, a := range p.assignments {
		if end, ok := ends.Lookup(topics.Events, shard); ok && end.Err == nil {
			p.metrics.behind(shard, end.Offset-a.worker.reached.Load())
		}
	}
}
