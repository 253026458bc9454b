package projector

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// A decoder uses its memory again: what one event says must not show in the next one's row.
func TestNothingOfAnEventIsInTheNextRow(t *testing.T) {
	t.Parallel()
	at := timestamppb.New(decidedAt)
	chain, fingerprint := bytes.Repeat([]byte{7}, chainBytes), bytes.Repeat([]byte{8}, fingerprintBytes)
	full := &ledgerv1.Event{
		Outcome: &ledgerv1.Outcome{
			CommandId: "full", Account: "a", Status: ledgerv1.Status_STATUS_APPLIED, Shard: 0, Position: 1, Delta: "-3", DecidedAt: at, BusinessDate: "2026-11-30", TransferAccount: "b",
			After:    &ledgerv1.AccountState{Balance: "1", Held: "2", Floor: "-3", Ceiling: "7", Sequence: 4, Unit: "EUR/2", Status: "frozen"},
			Legs:     []*ledgerv1.Leg{{CounterAccount: "@x", Amount: "1"}, {CounterAccount: "@y", Amount: "2"}},
			Hold:     &ledgerv1.HoldState{HoldId: "h", Remaining: "5", ExpiresAt: at, CounterAccount: "@z"},
			Reversal: &ledgerv1.Reversal{CommandId: "r", Total: "9"},
		},
		Command: &ledgerv1.Command{
			CommandId: "full", Account: "a", Operation: ledgerv1.Operation_OPERATION_TRANSFER, Amount: "3", Currency: "EUR", CounterAccount: "c", Reference: "ref",
			Description: "text", Metadata: map[string]string{"k": "v"}, EffectiveTime: at, Source: "s",
			Legs: []*ledgerv1.Leg{{CounterAccount: "@v", Amount: "8"}, {CounterAccount: "@w", Amount: "9"}},
		},
		Chain: chain, Fingerprint: fingerprint, Head: chain,
	}
	bare := &ledgerv1.Event{
		Outcome: &ledgerv1.Outcome{
			CommandId: "bare", Account: "a", Status: ledgerv1.Status_STATUS_REJECTED, Position: 2, Delta: "0", DecidedAt: timestamppb.New(decidedAt.Add(1e9)), BusinessDate: "2026-12-01",
		},
		Command: &ledgerv1.Command{CommandId: "bare", Account: "a"}, Chain: chain, Fingerprint: fingerprint,
	}
	block := func(decoders ...*decoder) []byte {
		made := newRows()
		for i, event := range []*ledgerv1.Event{full, bare, full, bare} {
			d, r := decoders[i%len(decoders)], row{}
			record := recordOf(t, 0, event)
			decoded, err := d.decode(record)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.read(&r, record, decoded); err != nil {
				t.Fatal(err)
			}
			made.append(0, &r)
			copy(record.Value, bytes.Repeat([]byte("x"), len(record.Value))) // a block keeps nothing of a record
		}
		made.close(4)
		return bytes.Join(made.native(), nil)
	}
	one := new(decoder)
	if again, fresh := block(one), block(new(decoder), new(decoder), new(decoder), new(decoder)); !bytes.Equal(again, fresh) {
		t.Fatalf("a decoder that is used again makes\n%q\nnew ones make\n%q", again, fresh)
	}
}

// The time of the event before is none of this one's.
func TestAnEventWithoutATimeOfDecisionIsRefused(t *testing.T) {
	t.Parallel()
	event := newLedger().event(0, func(*ledgerv1.Command) {})
	d := new(decoder)
	for _, at := range []*timestamppb.Timestamp{timestamppb.New(decidedAt), nil, {}, {Seconds: 1, Nanos: -1}, timestamppb.New(decidedAt)} {
		event.Outcome.DecidedAt = at
		if _, err := d.decode(recordOf(t, 0, event)); (err == nil) != (at.GetNanos() >= 0 && at.GetSeconds() > 0) {
			t.Errorf("decided at %v: %v", at, err)
		}
	}
}

func TestDaysAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	dates := calendar{}
	for _, c := range []struct {
		text string
		day  uint16
		ok   bool
	}{
		{"1970-01-01", 0, true}, {"", 0, false}, {"1970-01-02", 1, true}, {"1970-01-02", 1, true}, {"2149-06-06", 65535, true}, {"2149-06-07", 0, false}, {"1969-12-31", 0, false},
		{"2149-06-06", 65535, true}, {"2026-02-30", 0, false}, {"2026-2-3", 0, false}, {"2026-11-30", 20787, true},
	} {
		if day, err := dates.day(c.text); day != c.day || (err == nil) != c.ok {
			t.Errorf("%q: day %d, %v", c.text, day, err)
		}
	}
}
