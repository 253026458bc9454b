package sabotage

import (
	"context"
	"fmt"
	"strings"

	"github.com/hotledger/hotledger/reconciler"
)

// rows is a damage that changes what ClickHouse has of one account's events; %s in the statement is the condition that picks them.
func rows(name, account, pick, statement string, want ...reconciler.Class) *damage {
	return &damage{name: name, want: want, fate: repaired, accounts: []string{account}, do: func(ctx context.Context, s *suite, d *damage) error {
		database := s.ledger.Projector.ClickHouse.Database
		condition := fmt.Sprintf("account = '%s' AND %s", account, pick)
		var shard uint16
		var position uint64
		if err := s.ledger.ClickHouse.QueryRow(ctx, fmt.Sprintf("SELECT any(shard), max(position) FROM %s.events WHERE %s", database, condition)).Scan(&shard, &position); err != nil {
			return err
		}
		if position == 0 {
			return fmt.Errorf("no event with %s", condition)
		}
		d.shard, d.position = int(shard), position
		return s.ledger.ClickHouse.Exec(ctx, strings.NewReplacer("{events}", database+".events", "{pick}", condition).Replace(statement))
	}}
}

func clickHouseDamages() []*damage {
	const now = " SETTINGS mutations_sync = 2"
	update := func(set string) string { return "ALTER TABLE {events} UPDATE " + set + " WHERE {pick}" + now }
	remove := "ALTER TABLE {events} DELETE WHERE {pick}" + now
	again := "INSERT INTO {events} SELECT * FROM {events} WHERE {pick} SETTINGS insert_deduplicate = 0"
	missing, twice, other := reconciler.ProjectionMissing, reconciler.ProjectionDuplicate, reconciler.ProjectionMismatch
	return []*damage{
		rows("a row deleted in the middle of an account", victim(20), "sequence = 2", remove, missing),
		rows("the last row of an account deleted", victim(21), "sequence = 3", remove, missing),
		rows("the row of a rejection deleted", victim(22), "status = 'rejected'", remove, missing),
		rows("all rows of an account deleted", victim(23), "1", remove, missing),
		rows("a row doubled", victim(24), "sequence = 2", again, twice),
		rows("an amount changed by one unit", victim(25), "sequence = 2", update("delta = delta + 1"), other),
		rows("a balance changed in a row", victim(26), "sequence = 3", update("balance_after = balance_after - 1"), other),
		rows("a reference changed in a row", victim(27), "sequence = 2", update("reference = 'another order'"), other),
		rows("a counter account changed in a row", victim(28), "sequence = 3", update("counter_account = '@elsewhere'"), other),
		rows("a link of the chain changed in a row", victim(29), "sequence = 2", update("chain = unhex(repeat('ab', 20))"), other),
		rows("a rejection turned into an effect", victim(30), "status = 'rejected'", update("status = 'applied', reason = ''"), other),
		rows("a second, different row at one position", victim(31), "sequence = 2",
			"INSERT INTO {events} SELECT * REPLACE (delta + 5 AS delta) FROM {events} WHERE {pick} SETTINGS insert_deduplicate = 0", twice),
		rows("the time of a decision changed", victim(32), "sequence = 2", update("decided_at = decided_at - INTERVAL 1 DAY"), other),
	}
}
