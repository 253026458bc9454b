package writer

import (
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// garbler draws commands. wild is how many fields of a hundred hold nonsense: in most commands none or few, so that they get far.
type garbler struct {
	*rapid.T
	wild int
}

// oneOf draws what is close to right, or anything at all.
func (g garbler) oneOf(label string, plausible ...string) string {
	if !g.nonsense(label) {
		return rapid.SampledFrom(plausible).Draw(g.T, label)
	}
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[ -~]{0,20}`),
		rapid.StringMatching(`-?[0-9]{1,25}`),
		rapid.SampledFrom([]string{
			"", " ", "|", "a|b", "1|2", "-", "- -", "1 2", "\x00", "\n", "\t", "a\tb", "%s", "nan", "-0", "1e3", strings.Repeat("9", 400), strings.Repeat("x", 200),
			"applied", "active", "@", "@transit", "@credit/", "none",
		}),
	).Draw(g.T, label+"!")
}

func (g garbler) nonsense(label string) bool {
	return rapid.IntRange(0, 99).Draw(g.T, label+"?") < g.wild
}

func (g garbler) one(in int, label string) bool { return rapid.IntRange(1, in).Draw(g.T, label) == 1 }

func (g garbler) time(label string, plausible ...int64) *timestamppb.Timestamp {
	if !g.nonsense(label) {
		at := rapid.SampledFrom(append(plausible, -1)).Draw(g.T, label)
		if at < 0 {
			return nil
		}
		return &timestamppb.Timestamp{Seconds: at}
	}
	return &timestamppb.Timestamp{
		Seconds: rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, -62135596800, 253402300799, 4e9, math.MinInt64})).Draw(g.T, label),
		Nanos:   rapid.OneOf(rapid.Int32(), rapid.Just(int32(0))).Draw(g.T, label+" nanos"),
	}
}

// strays is how wild a command is that also has what its operation does not take.
const strays = 50

// takes are the fields that an operation takes: a or A amount (A needed), c or C counter account, d direction, h hold id, l limits, L legs,
// o opening terms, r what is reversed, R repair, t terms of a hold, f origin.
var takes = map[ledgerv1.Operation]string{
	ledgerv1.Operation_OPERATION_OPEN: "o", ledgerv1.Operation_OPERATION_DEBIT: "AcL", ledgerv1.Operation_OPERATION_CREDIT: "AcL",
	ledgerv1.Operation_OPERATION_REPAIR: "R", ledgerv1.Operation_OPERATION_HOLD: "Act", ledgerv1.Operation_OPERATION_CAPTURE: "achL",
	ledgerv1.Operation_OPERATION_RELEASE: "ah", ledgerv1.Operation_OPERATION_TRANSFER: "AC", ledgerv1.Operation_OPERATION_REVERSE: "ar",
	ledgerv1.Operation_OPERATION_SET_LIMITS: "l", ledgerv1.Operation_OPERATION_FREEZE: "d", ledgerv1.Operation_OPERATION_UNFREEZE: "d",
	ledgerv1.Operation_OPERATION_ADJUST: "Ac", ledgerv1.Operation_OPERATION_RETURN: "Af",
}

// Few ids, so that they are used again, and name what is there.
var (
	ids     = []string{"1", "2", "3", "4", "5", "6"}
	holdIDs = []string{"h1", "h2", "h3"}
)

// garbage draws a command of which every field may be right, odd or nonsense. generation is the one that a repair would need to pass.
func garbage(t *rapid.T, prefix, generation string) *ledgerv1.Command {
	g := garbler{t, rapid.SampledFrom([]int{0, 0, 0, 5, strays}).Draw(t, "wild")}
	c := &ledgerv1.Command{
		Operation:     ledgerv1.Operation(rapid.Int32Range(0, int32(len(ledgerv1.Operation_name))).Draw(t, "operation")),
		Account:       g.oneOf("account", "a", "a", "a", "b", "b", "c", "d", "e"),
		Currency:      g.oneOf("currency", "EUR", "EUR", "EUR/2", "POINTS/0"),
		Reference:     g.oneOf("reference", ""),
		Description:   g.oneOf("description", ""),
		Source:        g.oneOf("source", ""),
		ReplyTo:       g.oneOf("reply", "", "caller"),
		Traceparent:   g.oneOf("trace", ""),
		EffectiveTime: g.time("effective", 0),
		Deadline:      g.time("deadline", 4e9),
		RequestedAt:   g.time("requested", 0),
	}
	if rapid.Bool().Draw(t, "metadata?") {
		c.Metadata = map[string]string{g.oneOf("key", "k"): g.oneOf("value", "v")}
	}
	if g.one(10, "sequence?") {
		c.ExpectedSequence = proto.Uint64(rapid.OneOf(rapid.Uint64Max(9), rapid.Uint64()).Draw(t, "sequence"))
	}
	switch {
	case c.GetOperation() == ledgerv1.Operation_OPERATION_HOLD:
		c.CommandId = prefix + g.oneOf("id", holdIDs...)
	case g.one(4, "again?"):
		c.CommandId = prefix + g.oneOf("id", ids...)
	default:
		c.CommandId = prefix + rapid.StringMatching(`[a-z0-9]{3}`).Draw(t, "new id")
	}
	g.terms(c, prefix, generation)
	return c
}

// terms draws what belongs to the operation, and sometimes what does not.
func (g garbler) terms(c *ledgerv1.Command, prefix, generation string) {
	has := func(field string) bool {
		return strings.Contains(takes[c.GetOperation()], field) || g.nonsense("stray "+field)
	}
	if has("A") || has("a") && g.one(2, "part?") {
		c.Amount = g.oneOf("amount", "1", "2", "100", "999999999999999999")
	}
	if has("C") || has("c") && g.one(2, "counter?") {
		c.CounterAccount = g.oneOf("counter", "@shop", "b", "a", "c")
	}
	if has("d") {
		c.Direction = ledgerv1.Direction(rapid.SampledFrom([]int32{1, 2, 3, 0, 4, -1}).Draw(g.T, "direction"))
	}
	if has("h") {
		c.HoldId = prefix + g.oneOf("hold", holdIDs...)
	}
	if has("l") {
		c.Limits = &ledgerv1.LimitTerms{Floor: g.maybe("new floor", "0", "-100", "-999999999999999999"), Ceiling: g.maybe("new ceiling", "0", "5000", "none", "999999999999999999")}
	}
	if has("L") && g.one(4, "legs?") {
		c.CounterAccount = ""
		c.Amount = "3"
		c.Legs = []*ledgerv1.Leg{
			{CounterAccount: g.oneOf("leg", "@x", "@world"), Amount: g.oneOf("part", "1")},
			{CounterAccount: g.oneOf("leg 2", "@y", "@x", "a"), Amount: g.oneOf("part 2", "2", "2", "2", "3")},
		}
	}
	if has("o") && g.one(2, "open?") {
		c.Open = &ledgerv1.OpenTerms{Floor: g.oneOf("floor", "", "0", "-100", "100", "-999999999999999999"), Ceiling: g.oneOf("ceiling", "", "0", "5000")}
	}
	if has("r") {
		c.Reverse = &ledgerv1.ReverseTerms{CommandId: prefix + g.oneOf("reversed", ids...), AllowOverdraft: rapid.Bool().Draw(g.T, "overdraft")}
	}
	if has("t") {
		c.Hold = &ledgerv1.HoldTerms{ExpiresAt: g.time("expires", 4e9)}
	}
	if has("R") {
		c.Repair = &ledgerv1.RepairTerms{
			Seen: g.snapshot("seen"), Log: g.snapshot("log"), Generation: g.oneOf("generation", generation), RunId: g.oneOf("run", "run"), BreakId: g.oneOf("break", "break"),
		}
	}
	g.derive(c, has("f"))
}

// derive makes some commands those that the ledger asks for itself.
func (g garbler) derive(c *ledgerv1.Command, comesFrom bool) {
	id := c.GetCommandId()
	switch op := c.GetOperation(); {
	case op == ledgerv1.Operation_OPERATION_CREDIT && g.one(3, "far end?"):
		c.CommandId, comesFrom = limits.CreditID(id), true
	case op == ledgerv1.Operation_OPERATION_RETURN && !g.nonsense("return"):
		c.CommandId = limits.ReturnID(id)
	case op == ledgerv1.Operation_OPERATION_RELEASE && g.one(3, "expired?"):
		c.CommandId = limits.ExpireID(c.GetHoldId())
	}
	if comesFrom {
		c.CounterAccount, c.Legs = g.oneOf("transit", limits.Transit), nil
		c.Origin = &ledgerv1.Origin{CommandId: id, Account: g.oneOf("origin", "b", "d"), Reason: ledgerv1.Reason_REASON_UNSPECIFIED}
	}
}

func holdOf(id, account string) *ledgerv1.Command {
	return &ledgerv1.Command{CommandId: id, Operation: ledgerv1.Operation_OPERATION_HOLD, Account: account, Amount: "20", Currency: "EUR"}
}

func (g garbler) maybe(label string, plausible ...string) *string {
	if g.one(3, label+" unset?") {
		return nil
	}
	return proto.String(g.oneOf(label, plausible...))
}

// snapshot draws what may be seen of an account, which is mostly one that is not there.
func (g garbler) snapshot(label string) *ledgerv1.AccountSnapshot {
	if label == "seen" && g.one(2, label+"?") {
		return nil
	}
	return &ledgerv1.AccountSnapshot{
		Sequence: rapid.OneOf(rapid.SampledFrom([]uint64{1, 2, 0, 99_999_999_999_999, 999_999_999_999_999, 1 << 53, math.MaxUint64}), rapid.Uint64()).Draw(g.T, label+" sequence"),
		Balance:  g.oneOf(label+" balance", "0", "100", "-5", "999999999999999999"),
		Held:     g.oneOf(label+" held", "0", "0", "5"),
		Floor:    g.oneOf(label+" floor", "0", "0", "-5"),
		Ceiling:  g.oneOf(label+" ceiling", "", "", "0", "500"),
		Unit:     g.oneOf(label+" unit", "EUR/2", "EUR/2", "EUR", "EUR/3", "eur/2", "A B/1", "A|B/1"),
		Status:   g.oneOf(label+" status", "", "active", "frozen", "frozen_debit", "closed"),
	}
}
