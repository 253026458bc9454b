package lua

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// classes says of every field of a command whether it is part of the payload that a repeated id is compared with. A new field fails
// TestEveryFieldOfACommandIsClassified until it stands here, and until FingerprintOf agrees.
var classes = map[string]bool{
	"command_id":        false, // what is looked up, not what is compared
	"operation":         true,
	"account":           true,
	"amount":            true,
	"currency":          true,
	"counter_account":   true,
	"reference":         true,
	"description":       true,
	"metadata":          true,
	"effective_time":    true,
	"deadline":          true,
	"expected_sequence": true,
	"requested_at":      false,
	"source":            false,
	"reply_to":          false,
	"traceparent":       false,
	"open.floor":        true,
	"open.ceiling":      true,
	"hold.expires_at":   true,
	"hold_id":           true,
	"limits.floor":      true,
	"limits.ceiling":    true,
	"direction":         true,
	"legs.amount":       true,

	"legs.counter_account": true,

	"reverse.command_id": true, "reverse.allow_overdraft": true,
	"origin.command_id": true, "origin.account": true, "origin.reason": true,

	"repair.generation": true,
	"repair.run_id":     false,
	"repair.break_id":   false,

	"repair.seen.sequence": true, "repair.seen.balance": true, "repair.seen.held": true, "repair.seen.floor": true, "repair.seen.unit": true, "repair.seen.ceiling": true, "repair.seen.status": true,
	"repair.log.sequence": true, "repair.log.balance": true, "repair.log.held": true, "repair.log.floor": true, "repair.log.unit": true, "repair.log.ceiling": true, "repair.log.status": true,
}

// leaves are the paths of all fields that hold a value.
func leaves(message protoreflect.MessageDescriptor, prefix string) []string {
	var paths []string
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		path := prefix + string(field.Name())
		if path == "origin.outcome" {
			continue // what a derived command tells its caller; it says nothing about what it does
		}
		if field.Kind() == protoreflect.MessageKind && !field.IsMap() && field.Message().FullName() != "google.protobuf.Timestamp" {
			paths = append(paths, leaves(field.Message(), path+".")...)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// set changes the field at the path to another value than full has.
func set(t *testing.T, c *ledgerv1.Command, path string) {
	t.Helper()
	message := c.ProtoReflect()
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field.IsList() {
			message = message.Mutable(field).List().AppendMutable().Message()
			continue
		}
		message = message.Mutable(field).Message()
	}
	field := message.Descriptor().Fields().ByName(protoreflect.Name(names[len(names)-1]))
	switch {
	case field.IsMap():
		message.Mutable(field).Map().Set(protoreflect.ValueOfString("another").MapKey(), protoreflect.ValueOfString("one"))
	case field.Kind() == protoreflect.StringKind:
		message.Set(field, protoreflect.ValueOfString("another"))
	case field.Kind() == protoreflect.EnumKind:
		message.Set(field, protoreflect.ValueOfEnum(4))
	case field.Kind() == protoreflect.BoolKind:
		message.Set(field, protoreflect.ValueOfBool(true))
	case field.Kind() == protoreflect.Uint64Kind:
		message.Set(field, protoreflect.ValueOfUint64(987))
	case field.Kind() == protoreflect.MessageKind:
		message.Set(field, protoreflect.ValueOfMessage(timestamppb.New(time.Unix(987, 654)).ProtoReflect()))
	default:
		t.Fatalf("%s is of a kind that this test can not set: %s", path, field.Kind())
	}
}

func full() *ledgerv1.Command {
	sequence := uint64(7)
	return &ledgerv1.Command{
		CommandId: "id", Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: "account", Amount: "1250", Currency: "USD", CounterAccount: "@shop",
		Reference: "reference", Description: "description", Metadata: map[string]string{"a": "1", "b": "2", "c": ""},
		EffectiveTime: timestamppb.New(time.Unix(1_700_000_000, 5)), Deadline: timestamppb.New(time.Unix(1_800_000_000, 6)), ExpectedSequence: &sequence,
		RequestedAt: timestamppb.New(time.Unix(1_700_000_001, 0)), Source: "source", ReplyTo: "reply", Traceparent: "trace",
		Open: &ledgerv1.OpenTerms{Floor: "-1"},
		Repair: &ledgerv1.RepairTerms{
			Seen:       &ledgerv1.AccountSnapshot{Sequence: 1, Balance: "2", Held: "3", Floor: "-4", Unit: "USD/2"},
			Log:        &ledgerv1.AccountSnapshot{Sequence: 5, Balance: "6", Held: "7", Floor: "-8", Unit: "USD/2"},
			Generation: "generation", RunId: "run", BreakId: "break",
		},
	}
}

func TestEveryFieldOfACommandIsClassified(t *testing.T) {
	t.Parallel()
	paths := leaves((&ledgerv1.Command{}).ProtoReflect().Descriptor(), "")
	slices.Sort(paths)
	if known := slices.Sorted(maps.Keys(classes)); !slices.Equal(paths, known) {
		t.Fatalf("fields\n%v\nclassified\n%v", paths, known)
	}
	for _, path := range paths {
		for _, base := range []*ledgerv1.Command{full(), {Repair: &ledgerv1.RepairTerms{}}} {
			before := FingerprintOf(base)
			set(t, base, path)
			if changes := FingerprintOf(base) != before; changes != classes[path] {
				t.Errorf("%s: part of the fingerprint is %t, expected %t", path, changes, classes[path])
			}
		}
	}
}

// These values are in the logs of ledgers: one that changes makes every redelivered command look like another one.
func TestFingerprintsNeverChange(t *testing.T) {
	t.Parallel()
	for _, golden := range []struct {
		want    string
		command *ledgerv1.Command
	}{
		{"e3b0c44298fc9987eedf4db6eee1438c", &ledgerv1.Command{}},
		{"2bd806c97f0eefc0d25114d6d8852397", &ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: "alice", Amount: "1250", Currency: "USD"}},
		{"2bd806c97f0e13eaa48567d65081ffab", &ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_CREDIT, Account: "alice", Amount: most, Currency: "POINTS/0"}},
		{"67ca9d2b2ae99602c6fa088bdb4c5d9b", &ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_OPEN, Account: "Größe {1}", Currency: "JPY", Open: &ledgerv1.OpenTerms{Floor: "-500"}}},
		{"81b637d8fcd230faa5581cc54b7b30be", &ledgerv1.Command{Operation: ledgerv1.Operation_OPERATION_REPAIR, Account: "bob", Repair: &ledgerv1.RepairTerms{Log: &ledgerv1.AccountSnapshot{Sequence: 3, Balance: "4", Held: "0", Floor: "0", Unit: "USD/2"}, Generation: "g"}}},
		{"9af211329b2f564108d9376faaa21a4f", full()},
	} {
		fingerprint := FingerprintOf(golden.command)
		if got := hex.EncodeToString(fingerprint[:]); got != golden.want {
			t.Errorf("%s of %v, not %s", got, golden.command, golden.want)
		}
	}
}

func TestFingerprintsAreTheSameInEveryOrder(t *testing.T) {
	t.Parallel()
	var one Fingerprints
	for _, account := range []string{"", "alice", "alice", "", "", "bob", "alice", "alice and bob", "alice", strings.Repeat("long", 50), strings.Repeat("long", 50), ""} {
		c := full()
		c.Account = account
		if got, want := one.Of(c), FingerprintOf(c); got != want {
			t.Errorf("%x, not %x, for a command on %q", got, want, account)
		}
	}
}

func TestTheEncodingOfAMessageIsNotPartOfItsFingerprint(t *testing.T) {
	t.Parallel()
	want := FingerprintOf(full())
	wire, err := proto.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	var backwards []byte
	for rest := wire; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		backwards = append(slices.Clone(rest[:n]), backwards...)
		rest = rest[n:]
	}
	unknown := protowire.AppendString(protowire.AppendTag(slices.Clone(wire), 9999, protowire.BytesType), "from a newer producer")
	for what, text := range map[string][]byte{"as sent": wire, "fields backwards": backwards, "unknown field": unknown} {
		c := &ledgerv1.Command{}
		if err := proto.Unmarshal(text, c); err != nil {
			t.Fatal(err)
		}
		if got := FingerprintOf(c); got != want {
			t.Errorf("%s: %x, not %x", what, got, want)
		}
	}
	many := full()
	for i := range 32 {
		many.Metadata[fmt.Sprint("key ", i)] = fmt.Sprint(i)
	}
	first := FingerprintOf(many)
	for range 50 {
		if got := FingerprintOf(proto.CloneOf(many)); got != first {
			t.Fatalf("the order of the metadata changed it: %x, not %x", got, first)
		}
	}
}

// Commands from few, colliding words: where one field ends and the next begins has to be part of what is hashed.
func TestDifferentPayloadsHaveDifferentFingerprints(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	word := func() string {
		return []string{"", "", "", "set", "1", "11", "\x00\x00\x00\x00\x00\x00\x00\x00", strings.Repeat("\x00", 16)}[random.IntN(8)]
	}
	moment := func() *timestamppb.Timestamp {
		return []*timestamppb.Timestamp{nil, nil, {}, {Seconds: 3}, {Seconds: 8}, {Nanos: 3}}[random.IntN(6)]
	}
	state := func() *ledgerv1.AccountSnapshot {
		return []*ledgerv1.AccountSnapshot{nil, {}, {Balance: word(), Held: word(), Sequence: uint64(random.IntN(2))}}[random.IntN(3)]
	}
	payloads := map[Fingerprint]string{}
	for range 30_000 {
		c := &ledgerv1.Command{Account: word(), Amount: word(), Description: word(), EffectiveTime: moment(), Deadline: moment()}
		for range random.IntN(3) {
			if c.Metadata == nil {
				c.Metadata = map[string]string{}
			}
			c.Metadata[word()] = word()
		}
		if random.IntN(3) == 0 {
			n := uint64(random.IntN(4))
			c.ExpectedSequence = &n
		}
		if random.IntN(2) == 0 {
			c.Repair = &ledgerv1.RepairTerms{Seen: state(), Log: state(), Generation: word()}
		}
		if floor := word(); floor != "" {
			c.Open = &ledgerv1.OpenTerms{Floor: floor}
		}
		text, fingerprint := payload(c), FingerprintOf(c)
		if other, ok := payloads[fingerprint]; ok && other != text {
			t.Fatalf("%x stands for both %q and %q", fingerprint, other, text)
		}
		payloads[fingerprint] = text
	}
}
