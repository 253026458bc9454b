package lua

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// drawn lets a bench report to rapid, which then looks for a smaller example.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Fatal(args ...any)                 { d.rt.Fatal(args...) }
func (d drawn) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }
func (d drawn) Error(args ...any)                 { d.rt.Error(args...) }
func (d drawn) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }

// walk is one random history of a shard, in Redis and in the model.
type walk struct {
	*bench
	rt    *rapid.T
	model *model
	past  []*ledgerv1.Command
}

var (
	walkAccounts = []string{"a", "b", "c", "{a}"}
	// around the places where one limb, a double, and the range end
	walkEdges = []int64{1, 5, 1_000, 1_000_000_000, 1 << 53, 1_000_000_000_000_000, 500_000_000_000_000_000, 999_999_999_999_999_998}
)

func TestApplyDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	rdb := client(t, 3, addrs...)
	rapid.Check(t, func(rt *rapid.T) {
		b := setupOn(t, rdb)
		b.TB = drawn{t, rt}
		w := &walk{bench: b, rt: rt, model: newModel("g1")}
		for range rapid.IntRange(1, 10).Draw(rt, "calls") {
			w.step()
		}
		w.audit()
	})
}

// step runs one call, perhaps twice, or from a head that is not Redis's.
func (w *walk) step() {
	w.now = w.now.Add(time.Duration(rapid.IntRange(-5, 1000).Draw(w.rt, "ms later")) * time.Millisecond)
	call := w.call()
	var want []string
	before := w.model.position
	if rapid.IntRange(0, 9).Draw(w.rt, "stale") == 0 {
		call.Expected.Position++
		w.refused("stale head", call, ErrOutOfSync)
		call.Expected.Position--
	}
	for range rapid.IntRange(0, 25).Draw(w.rt, "commands") {
		c := received(w, w.command())
		refusal := ""
		if rapid.IntRange(0, 14).Draw(w.rt, "refused") == 0 {
			c.Refusal, refusal = ledgerv1.Reason_REASON_INVALID_TEXT, "INVALID_TEXT"
		}
		call.Commands = append(call.Commands, c)
		want = append(want, w.model.decide(c.Command, refusal, w.now))
		w.past = append(w.past, c.Command)
	}
	w.said(w.run(call), want...)
	if w.head.Chain != w.model.chain || int(w.head.Position) != w.model.position {
		w.Fatalf("head %s, the model is at %d:%s", w.head, w.model.position, w.model.chain)
	}
	if w.model.position > before && rapid.Bool().Draw(w.rt, "reply lost") {
		w.refused("sent again", call, ErrOutOfSync)
	}
}

func (w *walk) amount() string {
	n := rapid.SampledFrom(walkEdges).Draw(w.rt, "edge") + rapid.Int64Range(-2, 2).Draw(w.rt, "off by")
	return fmt.Sprint(min(max(n, 1), 999_999_999_999_999_999))
}

func (w *walk) command() *ledgerv1.Command {
	kind := rapid.SampledFrom([]string{"open", "debit", "debit", "debit", "credit", "credit", "repair", "again", "again", "reuse"}).Draw(w.rt, "kind")
	account := rapid.SampledFrom(walkAccounts).Draw(w.rt, "account")
	if len(w.past) == 0 && (kind == "again" || kind == "reuse") {
		kind = "open"
	}
	var c *ledgerv1.Command
	switch kind {
	case "again":
		return rapid.SampledFrom(w.past).Draw(w.rt, "past")
	case "reuse":
		past := rapid.SampledFrom(w.past).Draw(w.rt, "past")
		return changed(past, func(c *ledgerv1.Command) {
			c.Account, c.Reference = account, rapid.SampledFrom([]string{"", "r"}).Draw(w.rt, "reference")
		})
	case "open":
		floor := rapid.SampledFrom([]string{"", "0", "-1", "-" + w.amount()}).Draw(w.rt, "floor")
		c = w.open(account, floor)
	case "debit":
		c = w.debit(account, w.amount())
		if a := w.model.accounts[account]; a != nil && rapid.Bool().Draw(w.rt, "to the floor") {
			available := new(big.Int).Sub(a.balance, a.floor)
			available.Add(available, big.NewInt(rapid.Int64Range(-1, 1).Draw(w.rt, "beyond")))
			if available.Sign() > 0 && available.Cmp(modelLimit) < 0 {
				c.Amount = available.String()
			}
		}
	case "credit":
		c = w.credit(account, w.amount())
	case "repair":
		return w.repairOf(account)
	}
	if rapid.IntRange(0, 9).Draw(w.rt, "other currency") == 0 {
		c.Currency = "JPY"
	}
	return w.conditions(c)
}

func (w *walk) conditions(c *ledgerv1.Command) *ledgerv1.Command {
	switch rapid.IntRange(0, 11).Draw(w.rt, "condition") {
	case 0:
		c.Deadline = timestamppb.New(w.now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(w.rt, "deadline")) * time.Millisecond))
	case 1:
		n := uint64(1)
		if a := w.model.accounts[c.GetAccount()]; a != nil {
			n = uint64(max(0, a.sequence+rapid.Int64Range(-1, 1).Draw(w.rt, "sequence")))
		}
		c.ExpectedSequence = &n
	}
	return c
}

// repairOf rewrites an account to what it is, as it was seen at one of its sequences.
func (w *walk) repairOf(account string) *ledgerv1.Command {
	seen, log := "", "0 0 1 0 USD/2 active"
	if a := w.model.accounts[account]; a != nil {
		seen = rapid.SampledFrom(a.past).Draw(w.rt, "seen")
		log = seen
	}
	generation := rapid.SampledFrom([]string{"g1", "g1", "g1", "g0"}).Draw(w.rt, "generation")
	if seen == "" {
		generation = "g0" // a repair of an account that the log does not have is a lie; the reconciler issues none
	}
	return w.repair(account, seen, log, generation)
}

// audit compares every account, and what a rebuild from the log gives.
func (w *walk) audit() {
	events := w.log()
	if len(events) != w.model.position {
		w.Fatalf("%d events in the outbox, %d outcomes", len(events), w.model.position)
	}
	var got, want []string
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		page, corrupt, next, err := w.store.Accounts(w.Context(), w.shard, cursor, 2)
		w.ok(err)
		if len(corrupt) > 0 {
			w.Fatalf("corrupt records %v", corrupt)
		}
		for _, a := range page {
			got = append(got, fmt.Sprintf("%s: %d %d %d %d %s %s", a.ID, a.Balance, a.Held, a.Sequence, a.Floor, a.Unit, a.Status))
		}
		cursor = next
	}
	for id, a := range w.model.accounts {
		want = append(want, id+": "+a.record())
	}
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		w.Fatalf("accounts\n  %s\nnot\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	before := w.content()
	build, err := w.store.BeginBuild(w.Context(), w.shard, "g2")
	w.ok(err)
	for page := range slices.Chunk(events, rapid.IntRange(1, 40).Draw(w.rt, "page")) {
		w.ok(build.Add(w.Context(), page))
	}
	w.ok(build.Swap(w.Context()))
	w.whole()
	after := w.content()
	for _, key := range []string{AccountsKey(w.shard), OutcomesKey(w.shard)} {
		if before[key] != after[key] {
			w.Fatalf("rebuilt %s\n%s\nnot\n%s", key, after[key], before[key])
		}
	}
	live := maps.Clone(after)
	for _, c := range w.past { // a rebuilt shard remembers everything
		if d := w.run(w.call(c))[0]; d.Kind == Decided {
			w.Fatalf("command %s was decided again after a rebuild", c.GetCommandId())
		}
	}
	if !maps.Equal(live, w.content()) {
		w.Fatal("redelivery after a rebuild changed a key")
	}
}
