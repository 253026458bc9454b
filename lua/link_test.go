package lua

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestTheLastNewOutcomeOfACallSaysWhereItLeftRedis(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	known, rejected, accepted := b.credit("a", "1"), b.debit("a", "900"), b.credit("a", "2")
	b.apply(known)
	before := b.point()
	call := b.call(known, rejected, accepted, changed(accepted, func(c *ledgerv1.Command) { c.Amount = "3" }), rejected)
	r := b.store.Apply(t.Context(), call)
	b.ok(r.Err)
	var heads []Head
	var events []*ledgerv1.Event
	link := before.Link
	for i, d := range r.Decisions {
		heads = append(heads, d.Head)
		if (d.Record != "") != (d.Kind == Decided) {
			t.Errorf("decision %d is of kind %d, its record is %q", i, d.Kind, d.Record)
		}
		if d.Kind == Decided {
			var e *ledgerv1.Event
			var err error
			e, link, err = link.Event(call.Commands[i], d)
			b.ok(err)
			events = append(events, e)
		}
	}
	if want := []Head{{}, {}, r.Head, {}, {}}; !slices.Equal(heads, want) || r.Head.Position != before.Head.Position+2 {
		t.Errorf("heads %v, not %v", heads, want)
	}
	if point, ends := PointOf(events[0]); ends || point.Link != LinkOf(events[0]) {
		t.Errorf("the first event ends a call at %s, %s", point.Head, point.Link)
	}
	if point, ends := PointOf(events[1]); !ends || point != (Point{r.Head, link}) {
		t.Errorf("the last event ends a call at %s, %s, not at %s, %s", point.Head, point.Link, r.Head, link)
	}
	b.moveTo(Point{r.Head, link})
	b.whole()
	if r := b.store.Apply(t.Context(), b.call(known, rejected)); r.Err != nil || r.Head != b.head || r.Entry != "" || slices.ContainsFunc(r.Decisions, func(d Decision) bool { return d.Head != Head{} }) {
		t.Errorf("nothing new: %+v", r)
	}
}

// What a shard was given leads to its head, from the first call on: the same calls to the same head, other ones to another.
func TestTheHeadStandsForWhatTheShardWasGiven(t *testing.T) {
	t.Parallel()
	first := setup(t)
	open, credit := first.open("a", ""), first.credit("a", "1")
	first.apply(open)
	first.apply(credit)
	for what, given := range map[string]struct {
		same bool
		run  func(b *bench)
	}{
		"the same":             {true, func(b *bench) { b.apply(open); b.apply(credit) }},
		"nothing in between":   {true, func(b *bench) { b.apply(open); b.apply(open); b.apply(); b.apply(credit) }},
		"in one call":          {false, func(b *bench) { b.apply(open, credit) }},
		"with one known":       {false, func(b *bench) { b.apply(open); b.apply(open, credit) }},
		"a millisecond later":  {false, func(b *bench) { b.apply(open); b.now = b.now.Add(time.Millisecond); b.apply(credit) }},
		"with another comment": {false, func(b *bench) { b.apply(open); b.apply(changed(credit, func(c *ledgerv1.Command) { c.Source = "x" })) }},
	} {
		b := setup(t)
		given.run(b)
		if b.head.Position != first.head.Position || (b.head == first.head) != given.same {
			t.Errorf("%s: %s, the first one is at %s", what, b.head, first.head)
		}
		b.whole()
	}
}

func TestEveryPartOfAnOutcomeIsLinked(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	b.apply(to(as("h", b.hold("a", "9", time.Hour)), "@shop"), to(b.credit("b", "5"), "@x", "2", "@y", "3"))
	b.apply(b.reverse("b", "c5", "1"))
	events := b.log()
	for i, before := range append([]Link{FirstLink}, links(events[:len(events)-1])...) {
		if after, err := LinkAfter(before, events[i]); err != nil || after != LinkOf(events[i]) {
			t.Fatalf("position %d leads to %s, not to %s: %v", i+1, after, LinkOf(events[i]), err)
		}
	}
	hold, legs, reversal := events[5], events[6], events[7]
	for what, changed := range map[string]struct {
		event  *ledgerv1.Event
		change func(e *ledgerv1.Event)
	}{
		"chain":             {legs, func(e *ledgerv1.Event) { e.Chain[19]++ }},
		"fingerprint":       {legs, func(e *ledgerv1.Event) { e.Fingerprint[15]++ }},
		"long fingerprint":  {legs, func(e *ledgerv1.Event) { e.Fingerprint = append(e.Fingerprint, 0) }},
		"id":                {legs, func(e *ledgerv1.Event) { e.Outcome.CommandId, e.Command.CommandId = "x", "x" }},
		"id of the command": {legs, func(e *ledgerv1.Event) { e.Command.CommandId = "x" }},
		"its account":       {legs, func(e *ledgerv1.Event) { e.Command.Account = "x" }},
		"account":           {legs, func(e *ledgerv1.Event) { e.Outcome.Account = "x" }},
		"position":          {legs, func(e *ledgerv1.Event) { e.Outcome.Position++ }},
		"time":              {legs, func(e *ledgerv1.Event) { e.Outcome.DecidedAt.Seconds++ }},
		"status":            {legs, func(e *ledgerv1.Event) { e.Outcome.Status = ledgerv1.Status_STATUS_REJECTED }},
		"delta":             {legs, func(e *ledgerv1.Event) { e.Outcome.Delta = "6" }},
		"no state":          {legs, func(e *ledgerv1.Event) { e.Outcome.After = nil }},
		"balance":           {legs, func(e *ledgerv1.Event) { e.Outcome.After.Balance = "13" }},
		"held":              {hold, func(e *ledgerv1.Event) { e.Outcome.After.Held = "8" }},
		"sequence":          {hold, func(e *ledgerv1.Event) { e.Outcome.After.Sequence++ }},
		"floor":             {hold, func(e *ledgerv1.Event) { e.Outcome.After.Floor = "-6" }},
		"ceiling":           {hold, func(e *ledgerv1.Event) { e.Outcome.After.Ceiling = "6" }},
		"unit":              {hold, func(e *ledgerv1.Event) { e.Outcome.After.Unit = "EUR/2" }},
		"state":             {hold, func(e *ledgerv1.Event) { e.Outcome.After.Status = "frozen" }},
		"hold":              {hold, func(e *ledgerv1.Event) { e.Outcome.Hold = nil }},
		"id of the hold":    {hold, func(e *ledgerv1.Event) { e.Outcome.Hold.HoldId = "x" }},
		"what is left":      {hold, func(e *ledgerv1.Event) { e.Outcome.Hold.Remaining = "8" }},
		"its end":           {hold, func(e *ledgerv1.Event) { e.Outcome.Hold.ExpiresAt = nil }},
		"its counter":       {hold, func(e *ledgerv1.Event) { e.Outcome.Hold.CounterAccount = "" }},
		"legs":              {legs, func(e *ledgerv1.Event) { e.Outcome.Legs = nil }},
		"account of a leg":  {legs, func(e *ledgerv1.Event) { e.Outcome.Legs[0].CounterAccount = "@z" }},
		"amount of a leg":   {legs, func(e *ledgerv1.Event) { e.Outcome.Legs[1].Amount = "4" }},
		"sender":            {legs, func(e *ledgerv1.Event) { e.Outcome.TransferAccount = "x" }},
		"reversal":          {reversal, func(e *ledgerv1.Event) { e.Outcome.Reversal = nil }},
		"what was reversed": {reversal, func(e *ledgerv1.Event) { e.Outcome.Reversal.CommandId = "x" }},
		"its total":         {reversal, func(e *ledgerv1.Event) { e.Outcome.Reversal.Total = "2" }},
		"a short head":      {reversal, func(e *ledgerv1.Event) { e.Head = e.Head[:19] }},
	} {
		e := proto.CloneOf(changed.event)
		changed.change(e)
		before := LinkOf(events[changed.event.GetOutcome().GetPosition()-2])
		if after, err := LinkAfter(before, e); !errors.Is(err, ErrChainBroken) || after != (Link{}) {
			t.Errorf("%s: %s %v", what, after, err)
		}
	}
}

func links(events []*ledgerv1.Event) []Link {
	all := make([]Link, len(events))
	for i, e := range events {
		all[i] = LinkOf(e)
	}
	return all
}

func TestNothingIsLinkedWithAGap(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	events := b.log()
	for what, gap := range map[string]func() error{
		"an event is missing":  func() error { _, err := FirstLink.Append(events[0], events[2]); return err },
		"an event comes twice": func() error { _, err := FirstLink.Append(events[0], events[0]); return err },
		"from elsewhere":       func() error { _, err := b.link.Append(events[0]); return err },
		"a decision is missing": func() error {
			call := b.call(b.credit("a", "1"), b.credit("a", "2"))
			b.run(call)
			_, _, err := b.link.Event(call.Commands[1], Decision{Outcome: &ledgerv1.Outcome{Position: b.link.Position + 2}})
			return err
		},
	} {
		if err := gap(); !errors.Is(err, ErrChainBroken) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What an outcome record leaves out cannot be another: no hash would show it.
func TestNothingIsLinkedThatItsRecordDoesNotSay(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	b.apply(b.debit("a", "900"))
	events := b.log()
	_, err := FirstLink.Append(events...)
	b.ok(err)
	const applied, rejected = 4, 5 // places
	for what, test := range map[string]struct {
		at     int
		change func(o *ledgerv1.Outcome)
	}{
		"a rejection with a delta":    {rejected, func(o *ledgerv1.Outcome) { o.Delta = "5" }},
		"a rejection without a delta": {rejected, func(o *ledgerv1.Outcome) { o.Delta = "" }},
		"a rejection that is applied": {rejected, func(o *ledgerv1.Outcome) {
			o.Status, o.Delta = ledgerv1.Status_STATUS_APPLIED, reasonWord(o.GetReason())
		}},
		"a time 2^48 ms later":  {applied, func(o *ledgerv1.Outcome) { o.DecidedAt = timestamppb.New(time.UnixMilli(b.now.UnixMilli() + 1<<48)) }},
		"a time 2^48 ms before": {applied, func(o *ledgerv1.Outcome) { o.DecidedAt = timestamppb.New(time.UnixMilli(b.now.UnixMilli() - 1<<48)) }},
	} {
		event := proto.CloneOf(events[test.at])
		test.change(event.GetOutcome())
		before := LinkOf(events[test.at-1])
		if text := outcomeRecord(event.GetOutcome()); text != outcomeRecord(events[test.at].GetOutcome()) {
			t.Errorf("%s: the record is another, %q", what, text)
		}
		if _, err := LinkAfter(before, event); !errors.Is(err, ErrChainBroken) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := LinkAfter(before, events[test.at]); err != nil {
			t.Errorf("unchanged: %v", err)
		}
	}
}

// An answer that does not fit the call is no result, whatever it says: the writer recovers.
func TestAnAnswerThatDoesNotFitItsCallIsNoResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	known, first, second := b.open("a", ""), b.credit("a", "1"), b.credit("a", "2")
	b.apply(known)
	call := b.call(known, first, second)
	reply, err := applyScript.Run(t.Context(), b.rdb, LiveKeys(b.shard), call.args(0)...).Slice()
	b.ok(err)
	answered := func() []any { return append(slices.Clone(reply[:4]), slices.Clone(reply[4].([]any))) } //nolint:forcetypeassert // a script's words
	if r := call.result(answered()); r.Err != nil || len(r.Decisions) != 3 || r.Head.Position != 3 {
		t.Fatalf("as answered: %+v", r)
	}
	said, record := reply[3].([]any)[0].(string), answered()[4].([]any)[0].(string) //nolint:forcetypeassert // a script's words
	knows := func(said ...any) func(r, records []any) []any {
		return func(r, _ []any) []any { r[3] = said; return r }
	}
	for what, forged := range map[string]func(r []any, records []any) []any{
		"nothing":                    func([]any, []any) []any { return nil },
		"cut short":                  func(r, _ []any) []any { return r[:2] },
		"no records":                 func(r, _ []any) []any { return r[:4] },
		"a word more":                func(r, _ []any) []any { return append(r, "more") },
		"another word":               func(r, _ []any) []any { r[0] = "DONE"; return r },
		"a number for a word":        func(r, _ []any) []any { r[1] = int64(3); return r },
		"position before":            func(r, _ []any) []any { r[1] = "2"; return r },
		"position behind":            func(r, _ []any) []any { r[1] = "4"; return r },
		"position in words":          func(r, _ []any) []any { r[1] = "three"; return r },
		"chain of 39 digits":         func(r, _ []any) []any { r[2] = Genesis.Chain[1:]; return r },
		"a record is missing":        func(r, records []any) []any { r[4] = records[:1]; return r },
		"a record too many":          func(r, records []any) []any { r[4] = append(records, records[1]); return r },
		"records the other way":      func(_, records []any) []any { slices.Reverse(records); return nil },
		"the same record twice":      func(_, records []any) []any { records[1] = records[0]; return nil },
		"a record of another":        func(_, records []any) []any { records[0] = strings.Repeat("f", 16) + record[16:]; return nil },
		"a record cut short":         func(_, records []any) []any { records[0] = record[:20]; return nil },
		"a record that is no text":   func(_, records []any) []any { records[0] = int64(1); return nil },
		"a record at another place":  func(_, records []any) []any { records[0] = record[:22] + "9" + record[23:]; return nil },
		"nothing known":              knows(),
		"a known one of number 0":    knows("0" + said[1:]),
		"a known one beyond them":    knows("4" + said[1:]),
		"another one is known":       knows("2" + said[1:]),
		"one more is known":          knows(said, "2"+said[1:]),
		"known in another way":       knows(strings.Replace(said, "remembered", "recalled", 1)),
		"known without a record":     knows("1 remembered"),
		"known by a number":          knows(int64(1)),
		"known in a text":            func(r, _ []any) []any { r[3] = said; return r },
		"known with half a record":   knows(said[:len("1 remembered ")+timeBytes+len("1 0")]),
		"out of sync without a word": func(r, _ []any) []any { r[0] = "OUT_OF_SYNC"; return r[:2] },
		"too old without a horizon":  func(r, _ []any) []any { r[0] = "TOO_OLD"; return r[:4] },
		"too old in words":           func(r, _ []any) []any { return append([]any{"TOO_OLD"}, r[1], r[2], "then", "3 x") },
	} {
		r := answered()
		if other := forged(r, r[4].([]any)); other != nil || what == "nothing" { //nolint:forcetypeassert // a script's words
			r = other
		}
		if got := call.result(r); got.Err == nil || got.Decisions != nil || got.Entry != "" || got.Head != (Head{}) || errors.Is(got.Err, ErrOutOfSync) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestAChainIsReadFromItsDigits(t *testing.T) {
	t.Parallel()
	want := Chain{0: 0xab, 19: 0x01}
	var got Chain
	if err := got.Scan(want.String()); err != nil || got != want {
		t.Errorf("%s is read as %s: %v", want, got, err)
	}
	for what, from := range map[string]any{"39 digits": want.String()[1:], "42 digits": want.String() + "00", "other digits": strings.Repeat("g", 40), "nothing": "", "bytes": want[:], "null": nil} {
		if err := new(Chain).Scan(from); err == nil {
			t.Errorf("%s are a chain", what)
		}
	}
}

func TestAChainOfAnotherLengthIsThatOfNoLink(t *testing.T) {
	t.Parallel()
	for _, chain := range [][]byte{nil, {}, make([]byte, 19), make([]byte, 21)} {
		if link := LinkOf(&ledgerv1.Event{Chain: chain}); link == FirstLink {
			t.Errorf("a chain of %d bytes leads to %s", len(chain), link)
		}
	}
	if link := LinkOf(&ledgerv1.Event{Chain: make([]byte, 20)}); link != FirstLink {
		t.Errorf("no events lead to %s", link)
	}
}
