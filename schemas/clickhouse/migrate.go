// Package clickhouse holds the tables of the ledger and the views of finance, as migrations that the kept library goose applies.
package clickhouse

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Databases names the two databases. The zero value means "ledger" and "finance".
type Databases struct {
	// Ledger holds the tables: the log as the projector writes it, and the evidence of the reconciler.
	Ledger string
	// Finance holds nothing but views, so that a grant on this database is all that a reader of reports gets.
	Finance string
}

// WithDefaults returns the names that are in force.
func (d Databases) WithDefaults() Databases {
	if d.Ledger == "" {
		d.Ledger = "ledger"
	}
	if d.Finance == "" {
		d.Finance = "finance"
	}
	return d
}

// A name goes into SQL as it is, so it has to be a plain identifier.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// Validate refuses names that are not plain identifiers of at most 64 characters, and one name for both.
func (d Databases) Validate() error {
	d = d.WithDefaults()
	for _, name := range []string{d.Ledger, d.Finance} {
		if !identifier.MatchString(name) {
			return fmt.Errorf("database name %q: use letters, digits and _ alone, at most 64", name)
		}
	}
	if d.Ledger == d.Finance {
		return fmt.Errorf("database name %q for both: finance must hold views alone", d.Ledger)
	}
	return nil
}

// versionTable is goose's record of what was applied, in the ledger database.
const versionTable = "schema_migrations"

// ClickHouse has no lock that two processes could take before they migrate. So every statement may run twice (IF NOT EXISTS,
// OR REPLACE), a version that two processes record twice counts once, and a process that loses a race within one
// statement (a view that somebody else just replaced) simply starts over.
const (
	attemptsMax  = 5
	attemptPause = 200 * time.Millisecond
)

// Migrate creates the databases and brings them to the newest version. It is idempotent, and may run in several processes at once.
// The handle must not have either database as its own default while they do not exist yet: ClickHouse refuses such a session.
func Migrate(ctx context.Context, db *sql.DB, databases Databases) error {
	if err := databases.Validate(); err != nil {
		return err
	}
	databases = databases.WithDefaults()
	for attempt := 1; ; attempt++ {
		err := migrateOnce(ctx, db, databases)
		if err == nil || ctx.Err() != nil || attempt == attemptsMax {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("migrate: %w (after %w)", context.Cause(ctx), err)
		case <-time.After(time.Duration(attempt) * attemptPause):
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB, databases Databases) error {
	for _, name := range []string{databases.Ledger, databases.Finance} {
		if _, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+name); err != nil {
			return fmt.Errorf("create database %s: %w", name, err)
		}
	}
	migrations, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	provider, err := goose.NewProvider(database.DialectClickHouse, db, namedFS{migrations, databases},
		goose.WithTableName(databases.Ledger+"."+versionTable),
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate %s and %s: %w", databases.Ledger, databases.Finance, err)
	}
	return nil
}
