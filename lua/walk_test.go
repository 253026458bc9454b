package lua

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

var (
	walkAccounts = []string{"a", "a", "b", "c", "{a}", "to", "legs"}
	walkCounters = []string{"", "", "@world", "@shop", "@to", "@"}
	// Ids that are words of the records, each for one command of a walk.
	walkIDs = []string{"to", "from", "legs", "hold", "reversed", "applied", "-", "to\u00a0@transit", "@credit"}
	// around the places where one limb, a double, and the range end
	walkEdges = []int64{1, 5, 1_000, 1_000_000_000, 1 << 53, 1_000_000_000_000_000, 500_000_000_000_000_000, 999_999_999_999_999_998}
)

// roll is an even-handed number from 0 to n-1, at most 256; rapid's own ranges prefer the small ones.
func (w *walk) roll(n int, label string) int {
	return rapid.Custom(func(rt *rapid.T) int {
		number := 0
		for range 8 {
			number *= 2
			if rapid.Bool().Draw(rt, "bit") {
				number++
			}
		}
		return number % n
	}).Draw(w.rt, label)
}

func (w *walk) pick(label string, of ...string) string { return of[w.roll(len(of), label)] }

func (w *walk) oneIn(n int, label string) bool { return w.roll(n, label) == n-1 }

func (w *walk) amount() string {
	n := walkEdges[w.roll(len(walkEdges), "edge")] + rapid.Int64Range(-2, 2).Draw(w.rt, "off by")
	return fmt.Sprint(min(max(n, 1), 999_999_999_999_999_999))
}

// near is an amount at an edge of the account or hold, or any.
func (w *walk) near(edge *big.Int) string {
	if edge == nil || w.oneIn(3, "any amount") {
		return w.amount()
	}
	n := sum(edge, big.NewInt(rapid.Int64Range(-1, 1).Draw(w.rt, "beyond")))
	if n.Sign() <= 0 || n.Cmp(modelLimit) >= 0 {
		return w.amount()
	}
	return n.String()
}

// rest is the same, or empty: all that is left.
func (w *walk) rest(edge *big.Int) string {
	if w.oneIn(4, "all that is left") {
		return ""
	}
	if edge != nil && edge.Sign() > 0 && w.oneIn(2, "a part") {
		return sum(new(big.Int).Rsh(edge, 1), big.NewInt(1)).String()
	}
	return w.near(edge)
}

func (w *walk) command() *ledgerv1.Command {
	kind := w.pick("kind", "credit", "credit", "credit", "credit", "debit", "debit", "hold", "hold", "hold", "hold", "capture", "capture", "capture", "capture", "release", "release",
		"reverse", "reverse", "reverse", "reverse", "transfer", "arrival", "open", "limits", "freeze", "unfreeze", "unfreeze", "close", "adjust", "return", "repair", "again", "again", "reuse")
	account := w.pick("account", walkAccounts...)
	a := w.model.accounts[account]
	if a == nil && !w.oneIn(5, "unknown account") {
		kind = "open"
	}
	if len(w.past) == 0 && (kind == "again" || kind == "reuse") {
		kind = "open"
	}
	switch kind {
	case "again":
		return rapid.SampledFrom(w.past).Draw(w.rt, "past")
	case "reuse":
		past := rapid.SampledFrom(w.past).Draw(w.rt, "past")
		return changed(past, func(c *ledgerv1.Command) { c.Account, c.Reference = account, w.pick("reference", "", "r") })
	case "repair":
		return w.repairOf(account)
	}
	c := w.drawn(kind, account, a)
	if id := w.pick("word", walkIDs...); !strings.HasPrefix(c.GetCommandId(), "@") && w.oneIn(8, "an id that is a word") && w.model.outcomes[id] == nil {
		c.CommandId = id
	}
	if c.GetCurrency() != "" && w.oneIn(12, "other currency") {
		c.Currency = "JPY"
	}
	return w.conditions(c)
}

// plain is a debit or credit of one of many accounts, mostly.
func (w *walk) plain() *ledgerv1.Command {
	account := fmt.Sprint("account ", w.roll(16, "account"))
	a := w.model.accounts[account]
	if a == nil {
		return w.open(account, w.pick("limits", "", "-1000", "-1000", "-1000:1000000", "-"+most+":"+most))
	}
	if w.oneIn(10, "another kind") {
		return w.drawn(w.pick("kind", "hold", "capture", "release", "reverse", "adjust", "limits", "freeze", "unfreeze", "open"), account, a)
	}
	amount := fmt.Sprint(1 + w.roll(200, "amount"))
	if w.oneIn(3, "to an edge") {
		return w.drawn(w.pick("kind", "debit", "credit"), account, a)
	}
	if w.oneIn(3, "credit") {
		return w.credit(account, amount)
	}
	return w.debit(account, amount)
}

func (w *walk) drawn(kind, account string, a *modelAccount) *ledgerv1.Command {
	available, room := (*big.Int)(nil), (*big.Int)(nil)
	if a != nil {
		available, room = a.available(), less(modelLimit, sum(a.balance, big.NewInt(1)))
		if a.ceiling != nil {
			room = less(a.ceiling, a.balance)
		}
	}
	switch kind {
	case "open":
		return w.open(account, w.pick("floor", "", "0", "-1", "-"+w.amount())+w.pick("ceiling", "", "", ":0", ":"+w.amount()))
	case "debit":
		return w.booked(w.debit(account, w.near(available)))
	case "credit":
		return w.booked(w.credit(account, w.near(room)))
	case "hold":
		ends := time.Duration([]int{0, 0, 100_000, 500, 1, -1}[w.roll(6, "ends")]) * time.Millisecond
		return to(w.hold(account, w.near(available), ends), w.pick("counter", walkCounters...))
	case "capture", "release":
		id, h := w.someHold(account)
		var left *big.Int
		if h != nil {
			left = h.left
		}
		if kind == "release" {
			return w.release(account, id, w.rest(left))
		}
		c := w.capture(account, id, w.rest(left))
		if c.GetAmount() == "" {
			return to(c, w.pick("counter", walkCounters...))
		}
		return w.booked(c)
	case "transfer":
		return w.transfer(account, w.pick("target", "b", "to", "@shop", "@world"), w.near(available))
	case "arrival":
		return w.arrival(w.transfer(w.pick("sender", "a", "to", "from", "legs"), account, w.near(room)))
	case "return":
		return w.giveBack(account, w.near(room), w.id())
	case "reverse":
		return w.someReversal(account)
	case "adjust":
		return to(w.adjust(account, w.pick("sign", "", "-")+w.near(room)), w.pick("counter", walkCounters...))
	}
	return w.termsOf(kind, account, a)
}

func (w *walk) termsOf(kind, account string, a *modelAccount) *ledgerv1.Command {
	direction := []ledgerv1.Direction{debits, credits, both}[w.roll(3, "direction")]
	switch kind {
	case "freeze":
		return w.freeze(account, direction)
	case "close":
		if w.oneIn(4, "really") { // little happens on it afterwards
			return w.closing(account)
		}
		fallthrough
	case "unfreeze":
		return w.unfreeze(account, direction)
	}
	floor, ceiling := w.pick("floor", "", "0", "-1", "-"+w.amount()), w.pick("ceiling", "", "none", "0", w.amount())
	if a != nil && w.oneIn(2, "to the edge") {
		floor, ceiling = "", w.near(a.balance)
		if n := less(a.balance, a.held); n.Sign() < 0 {
			floor = "-" + w.near(new(big.Int).Abs(n))
		}
	}
	if floor == "" && ceiling == "" {
		ceiling = "none"
	}
	return w.limits(account, floor, ceiling)
}

// booked gives a command a counter account or legs.
func (w *walk) booked(c *ledgerv1.Command) *ledgerv1.Command {
	if !w.oneIn(4, "group") {
		return to(c, w.pick("counter", walkCounters...))
	}
	rest := number(c.GetAmount())
	var legs []string
	for rest.Sign() > 0 && len(legs) < 10 {
		part := big.NewInt(rapid.Int64Range(1, 1<<40).Draw(w.rt, "part"))
		if part.Cmp(rest) > 0 || len(legs) == 8 {
			part = rest
		}
		legs = append(legs, w.pick("counter", "@world", "@shop", "@to", "@legs"), part.String())
		rest = less(rest, part)
	}
	return to(c, legs...)
}

// someHold is an open hold, mostly of this account, or one that is gone or never was.
func (w *walk) someHold(account string) (string, *modelHold) {
	var own, all []string
	for id, h := range w.model.holds {
		all = append(all, id)
		if h.account == account {
			own = append(own, id)
		}
	}
	slices.Sort(own)
	slices.Sort(all)
	ids := []string{"c1", "never", "to"}
	switch {
	case len(own) > 0 && !w.oneIn(8, "another's hold"):
		ids = own
	case len(all) > 0 && !w.oneIn(3, "a hold that is gone"):
		ids = all
	}
	id := w.pick("hold", ids...)
	return id, w.model.holds[id]
}

// someReversal undoes a command, mostly one of this account that moved something.
func (w *walk) someReversal(account string) *ledgerv1.Command {
	var own, all []string
	for id, o := range w.model.outcomes {
		named := strings.TrimPrefix(id, "@credit/")
		if strings.HasPrefix(named, "@") {
			continue // no caller names it
		}
		all = append(all, named)
		if o.account == account && o.delta != nil && o.delta.Sign() != 0 {
			own = append(own, named)
		}
	}
	slices.Sort(own)
	slices.Sort(all)
	ids := []string{"never"}
	switch {
	case len(own) > 0 && !w.oneIn(6, "any command"):
		ids = own
	case len(all) > 0:
		ids = all
	}
	c := w.reverse(account, w.pick("reversed", ids...), "")
	var left *big.Int
	if _, o := w.model.original(c); o != nil && o.delta != nil {
		left = less(new(big.Int).Abs(o.delta), o.undone)
	}
	c.Amount, c.Reverse.AllowOverdraft = w.rest(left), w.oneIn(3, "overdraft")
	return c
}

func (w *walk) conditions(c *ledgerv1.Command) *ledgerv1.Command {
	switch w.roll(25, "condition") {
	case 23:
		c.Deadline = timestamppb.New(w.now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(w.rt, "deadline")) * time.Millisecond))
	case 24:
		n := uint64(1)
		if a := w.model.accounts[c.GetAccount()]; a != nil {
			n = uint64(max(0, a.sequence+rapid.Int64Range(-1, 1).Draw(w.rt, "sequence")))
		}
		c.ExpectedSequence = proto.Uint64(n)
	}
	return c
}

// repairOf rewrites an account to what it is, as it was seen at one of its sequences.
func (w *walk) repairOf(account string) *ledgerv1.Command {
	seen, log := "", "0 1 USD/2"
	if a := w.model.accounts[account]; a != nil {
		seen = rapid.SampledFrom(a.past).Draw(w.rt, "seen")
		log = seen
	}
	generation := w.pick("generation", "g1", "g1", "g1", "g0")
	if seen == "" {
		generation = "g0" // a repair of an account that the log does not have is a lie; the reconciler issues none
	}
	return w.repair(account, seen, log, generation)
}
