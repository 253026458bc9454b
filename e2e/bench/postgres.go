package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// postgres is a private server for the time of a figure or two, with PostgreSQL's own defaults: fsync and synchronous_commit are on.
type postgres struct {
	dir    string
	server *exec.Cmd
	pool   *pgxpool.Pool

	clients int
	done    atomic.Int64 // debits
}

// startPostgres makes a cluster in a directory of its own. The server refuses to run as root: then it runs as the user postgres.
func startPostgres(ctx context.Context, clients int) (_ *postgres, err error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return nil, errors.New("no PostgreSQL: run scripts/install-engines.sh pg_ctlcluster:postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	p := &postgres{clients: clients}
	if p.dir, err = os.MkdirTemp("", "hotledger-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		if as, err = asUser("postgres", p.dir); err != nil {
			return nil, err
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(p.dir, "data"), "-A", "trust", "-U", "bench") //nolint:gosec // a server of our own
	initdb.SysProcAttr, initdb.Dir = as, p.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	p.server = exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(p.dir, "data"), "-k", p.dir, "-c", "listen_addresses=", "-c", "max_connections="+strconv.Itoa(clients+5)) //nolint:gosec // a server of our own
	p.server.SysProcAttr, p.server.Dir = as, p.dir
	if err := p.server.Start(); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	p.pool, err = pgxpool.New(ctx, fmt.Sprintf("host=%s user=bench dbname=postgres pool_max_conns=%d", p.dir, clients))
	if err != nil {
		return nil, err
	}
	for {
		if err := p.pool.Ping(ctx); err == nil {
			return p, p.open(ctx)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for postgres: %w", ctx.Err())
		}
	}
}

func asUser(name, dir string) (*syscall.SysProcAttr, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errUID, errGID, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func (p *postgres) stop() {
	if p.pool != nil {
		p.pool.Close()
	}
	if p.server != nil && p.server.Process != nil {
		_ = p.server.Process.Signal(syscall.SIGINT) // fast shutdown
		_ = p.server.Wait()
	}
	_ = os.RemoveAll(p.dir)
}

const postgresFunds = 1_000_000_000

func (p *postgres) open(ctx context.Context) error {
	if _, err := p.pool.Exec(ctx, "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL)"); err != nil {
		return err
	}
	_, err := p.pool.Exec(ctx, "INSERT INTO accounts VALUES ($1, $2)", hotAccount, postgresFunds)
	return err
}

// measure debits one row the way that a database is usually asked to: BEGIN, SELECT ... FOR UPDATE, compare, UPDATE, COMMIT, with all clients at once,
// for about the given time. Debits of 1 per second.
func (p *postgres) measure(ctx context.Context, lasting time.Duration) (perSecond float64, err error) {
	start, begun := time.Now(), p.done.Load()
	var group errgroup.Group
	for range p.clients {
		group.Go(func() error {
			for time.Since(start) < lasting {
				if err := p.debit(ctx); err != nil {
					return err
				}
				p.done.Add(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	took := time.Since(start)
	var balance int64
	if err := p.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", hotAccount).Scan(&balance); err != nil {
		return 0, err
	}
	if balance != postgresFunds-p.done.Load() {
		return 0, fmt.Errorf("balance %d after %d debits", balance, p.done.Load())
	}
	return float64(p.done.Load()-begun) / took.Seconds(), nil
}

func (p *postgres) debit(ctx context.Context) error {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	var balance int64
	if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1 FOR UPDATE", hotAccount).Scan(&balance); err != nil {
		return err
	}
	if balance < 1 {
		return errors.New("out of funds")
	}
	if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 1 WHERE id = $1", hotAccount); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
