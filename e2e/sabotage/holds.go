package sabotage

import (
	"context"
	"fmt"

	writer "github.com/hotledger/hotledger/ledger-writer"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/reconciler"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// heldBack is a damage to an open hold of an account, which a person mends by making the shard again: a repair rewrites an account, not its holds.
func heldBack(name, account string, harm func(ctx context.Context, s *suite, holds, id string) error) *damage {
	return &damage{
		name: name, want: []reconciler.Class{reconciler.HoldDiffers}, fate: byHand, accounts: []string{account},
		do: func(ctx context.Context, s *suite, _ *damage) error {
			c := s.command(account, ledgerv1.Operation_OPERATION_HOLD, "700")
			if _, err := s.client.Submit(ctx, c); err != nil {
				return err
			}
			return harm(ctx, s, lua.HoldsKey(shardOf(account)), c.GetCommandId())
		},
		mend: func(ctx context.Context, s *suite, _ *damage) error {
			_, err := writer.Rebuild(ctx, s.ledger.Writer, s.ledger.Logger, shardOf(account), writer.FromLog)
			return err
		},
	}
}

func holdDamages() []*damage {
	return []*damage{
		heldBack("an open hold deleted", victim(50), func(ctx context.Context, s *suite, holds, id string) error {
			return s.ledger.Redis.HDel(ctx, holds, id).Err()
		}),
		heldBack("an open hold made smaller", victim(51), func(ctx context.Context, s *suite, holds, id string) error {
			return s.ledger.Redis.HSet(ctx, holds, id, fmt.Sprintf("699\t-\t\t%s", victim(51))).Err()
		}),
		heldBack("an open hold given to another account", victim(52), func(ctx context.Context, s *suite, holds, id string) error {
			return s.ledger.Redis.HSet(ctx, holds, id, fmt.Sprintf("700\t-\t\t%s", victim(52)+"0")).Err()
		}),
		heldBack("a hold that nobody asked for, beside an open one", victim(53), func(ctx context.Context, s *suite, holds, _ string) error {
			return s.ledger.Redis.HSet(ctx, holds, "nobody's", fmt.Sprintf("700\t-\t\t%s", victim(53))).Err()
		}),
	}
}
