package sandbox

import (
	"context"
	"fmt"
)

// Detach makes a replica fall behind: it loses its master and cannot log in again until Attach, and keeps what it has. A failover that
// promotes it meanwhile takes the data back in time.
func (r *Redis) Detach(ctx context.Context) error {
	return r.configure(ctx, "a password that no master here asks for")
}

// Attach undoes Detach: the replica catches up with whoever is its master by then. It does no harm to a master.
func (r *Redis) Attach(ctx context.Context) error { return r.configure(ctx, "") }

func (r *Redis) configure(ctx context.Context, masterAuth string) error {
	client := nodeClient(r)
	defer func() { _ = client.Close() }()
	if err := client.ConfigSet(ctx, "masterauth", masterAuth).Err(); err != nil {
		return fmt.Errorf("set masterauth of %s: %w", r.Addr(), err)
	}
	if err := client.ClientKillByFilter(ctx, "TYPE", "master").Err(); err != nil {
		return fmt.Errorf("cut the link of %s to its master: %w", r.Addr(), err)
	}
	return nil
}
