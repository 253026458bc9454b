package chaos

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reap takes members out of their groups whose processes are dead, until ctx ends. A broker does that by itself when a session times out. The
// projectors' session takes 45 s, which is longer than a seed; and this broker forgets the time of a member that died while it waited for the
// answer to its JoinGroup, so that it would keep its shards for ever.
func (w *world) reap(ctx context.Context) {
	const (
		look    = 300 * time.Millisecond
		session = 1800 * time.Millisecond // as the writers' own
	)
	dead := map[string]time.Time{} // member id -> seen without a process since
	for ctx.Err() == nil {
		w.sleep(ctx, look)
		for _, g := range []struct {
			name     string
			services []*service
		}{{w.writerCfg.Group, w.writers}, {w.projectCfg.Group, w.projectors}} {
			described, err := w.admin.DescribeGroups(ctx, g.name)
			if err != nil {
				continue
			}
			for _, member := range described[g.name].Members {
				if alive(g.services, member.ClientID) {
					continue
				}
				since, known := dead[member.MemberID]
				if !known {
					dead[member.MemberID] = time.Now()
				} else if time.Since(since) > session {
					w.takeOut(ctx, g.name, member.MemberID)
				}
			}
		}
	}
}

func alive(services []*service, clientID string) bool {
	for _, s := range services {
		if s.lives(clientID) {
			return true
		}
	}
	return false
}

func (w *world) takeOut(ctx context.Context, group, memberID string) {
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = group, memberID
	gone := kmsg.NewLeaveGroupRequestMember()
	gone.MemberID = memberID
	leave.Members = append(leave.Members, gone)
	_, _ = leave.RequestWith(ctx, w.sender) // again at the next look
}
