package reconciler

import (
	"bytes"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
)

// compensated says how many repairs took effect, and how many commands were sent.
func (w *world) compensated() (applied uint64, sent int) {
	w.t.Helper()
	w.query("SELECT uniqExactIf(position, operation = 'repair' AND status = 'applied') FROM events", &applied)
	return applied, w.commandsSent()
}

// A run that dies anywhere between finding a break and recording what became of it leaves one compensation, after any number of lives.
func TestARunThatDiesCompensatesOnce(t *testing.T) {
	t.Parallel()
	for _, point := range []struct {
		name, table string
		nth         int
		sent        int // when it dies
	}{
		{"before the breaks are on record", "breaks", 1, 0},
		{"before the command is on record", "compensations", 1, 0},
		{"after the outcome, before it is on record", "compensations", 2, 1},
		{"before the verdict", "reconciliation_runs", 2, 1},
	} {
		t.Run(point.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.smallLedger()
			w.serve()
			w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
			args := []string{"run", "--business-date", "2026-11-29"}
			const lives = 3
			for range lives {
				g := w.gate(point.table, point.nth)
				g.stop(t, w.start(g.environ(), args...), syscall.SIGKILL)
				if n := w.commandsSent(); n < point.sent {
					t.Fatalf("%d commands were sent", n)
				}
				w.submit(credit("a3", 1, "USD")) // the account moves on between the lives
			}
			if p := w.start(nil, args...); p.wait() != ExitBreaks && p.wait() != 0 {
				t.Fatalf("status %d:\n%s", p.wait(), &p.out)
			}
			if report := w.mustRun(); report.Verdict != Clean {
				t.Fatalf("want clean, got %s", dump(report))
			}
			if applied, _ := w.compensated(); applied != 1 || w.account("a3").Balance != 9003+lives {
				t.Errorf("%d compensations, the balance is %d", applied, w.account("a3").Balance)
			}
		})
	}
}

// The answer to the last word about a repair is lost: it is stored, and nobody knows.
func TestALostAnswerMakesNoSecondCompensation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
	proxy, err := sandbox.StartProxy(w.cfg.ClickHouse.Addrs[0])
	w.must(err)
	defer proxy.Close()
	// ClickHouse stores what became of the repair, and its answer is lost: the run cannot say that it is on record.
	var once sync.Once
	seen := 0
	proxy.Lose(func(request []byte) bool {
		lost := false
		if bytes.Contains(request, []byte("INSERT")) && bytes.Contains(request, []byte("compensations")) {
			if seen++; seen == 2 {
				once.Do(func() { lost = true })
			}
		}
		return lost
	})
	report, err := w.run(func(c *Config) { c.ClickHouse.Addrs = []string{proxy.Addr()} })
	if err == nil && report.Verdict != Breaks {
		t.Fatalf("got %s", dump(report))
	}
	for range 2 {
		if report = w.mustRun(); report.Verdict != Clean {
			t.Fatalf("want clean, got %s", dump(report))
		}
	}
	if applied, sent := w.compensated(); applied != 1 || sent != 1 || proxy.Lost() != 1 {
		t.Errorf("%d compensations of %d commands, %d answers lost", applied, sent, proxy.Lost())
	}
}

// Several instances that close the same night at the same time, again and again.
func TestReconcilersOfTheSameNightCompensateOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.smallLedger()
	w.serve()
	const nights, instances = 3, 3
	for night := range nights {
		w.tamper("a3", func(a *lua.Account) { a.Balance += 500 })
		w.forget("a4")
		var group sync.WaitGroup
		for range instances {
			group.Go(func() {
				r, err := New(w.cfg, nil, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = r.Close() }()
				if _, _, err := r.RunFor(w.ctx, fmt.Sprintf("2026-11-0%d", night+1)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	if report := w.mustRun(); report.Verdict != Clean {
		t.Fatalf("want clean, got %s", dump(report))
	}
	if applied, _ := w.compensated(); applied != 2*nights || w.account("a3").Balance != 9003 {
		t.Errorf("%d compensations of %d faults, the balance is %d", applied, 2*nights, w.account("a3").Balance)
	}
}
