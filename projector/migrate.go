package projector

import (
	"context"
	"fmt"

	"github.com/hotledger/hotledger/chassis/clickhouse"
	schema "github.com/hotledger/hotledger/schemas/clickhouse"
)

// Migrate brings the tables and views of ClickHouse up to date. It only ever adds, and may run in several processes at once.
func Migrate(ctx context.Context, cfg Config) error {
	db, err := clickhouse.OpenDB(cfg.ClickHouse)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // nothing is in flight any more
	databases := schema.Databases{Ledger: cfg.ClickHouse.Database, Finance: cfg.ClickHouse.FinanceDatabase}
	if err := schema.Migrate(ctx, db, databases); err != nil {
		return fmt.Errorf("migrate ClickHouse: %w", err)
	}
	return nil
}
