package writer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/hotledger/hotledger/schemas/topics"
)

// poison is a record that must become a dead letter.
type poison struct {
	name   string
	record *kgo.Record
	cause  string
}

func foreign(value []byte) *kgo.Record { return &kgo.Record{Value: value} }

func encoded(t *testing.T, c *ledgerv1.Command) []byte { return record(t, c).Value }

func changed(c *ledgerv1.Command, change func(*ledgerv1.Command)) *ledgerv1.Command {
	change(c)
	return c
}

func poisons(t *testing.T) []poison {
	whole := encoded(t, credit("whole", "a", "5"))
	notUTF8 := protowire.AppendBytes(protowire.AppendTag(bytes.Clone(whole), 7, protowire.BytesType), []byte("\xff\xfe"))
	headers := []kgo.RecordHeader{{Key: "k", Value: nil}, {Key: "k", Value: []byte{0, 255}}, {Key: "", Value: []byte{}}}
	named := func(id, account string) []byte {
		return encoded(t, answered(credit(id, account, "5")))
	}
	list := []poison{
		{"null", foreign(nil), causeNotACommand},
		{"empty", foreign([]byte{}), causeNotACommand},
		{"truncated", foreign(whole[:len(whole)-3]), causeNotACommand},
		{"json", foreign([]byte(`{"command_id":"x","amount":1e3}`)), causeNotACommand},
		{"deep json", foreign([]byte(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100))), causeNotACommand},
		{"text", foreign([]byte("hello")), causeNotACommand},
		{"not UTF-8", foreign(notUTF8), causeNotACommand},
		{"endless varint", foreign(bytes.Repeat([]byte{0xff}, 20)), causeNotACommand},
		{"with headers and an empty key", &kgo.Record{Key: []byte{}, Value: []byte("hello"), Headers: headers}, causeNotACommand},
		{"with a binary key", &kgo.Record{Key: []byte{0, 255, 10}, Value: []byte("hello")}, causeNotACommand},
		{"unknown fields alone", foreign(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1)), "INVALID_COMMAND_ID"},
		{"too large", foreign(encoded(t, changed(credit("large", "a", "5"), func(c *ledgerv1.Command) { c.Description = strings.Repeat("d", limits.CommandBytesMax) }))), causeTooLarge},
		{"as large as a broker takes", foreign(bytes.Repeat([]byte("x"), 999_000)), causeTooLarge},
		{"large headers", &kgo.Record{Value: whole, Headers: []kgo.RecordHeader{{Key: "h", Value: bytes.Repeat([]byte("h"), 900_000)}}}, causeTooLarge},
	}
	for _, id := range []string{"", strings.Repeat("i", 129), strings.Repeat("i", 60_000), "a\x00b", "a\nb", "\u0085"} {
		list = append(list,
			poison{fmt.Sprintf("command id %.10q", id), foreign(named(id, "a")), "INVALID_COMMAND_ID"},
			poison{fmt.Sprintf("account %.10q", id), foreign(named("p:"+fmt.Sprint(len(id)), id)), "INVALID_ACCOUNT"})
	}
	return list
}

func TestPoisonBecomesDeadLettersByteForByteAndThePartitionMovesOn(t *testing.T) {
	t.Parallel()
	l := setup(t)
	const account = "a"
	shard := int32(topics.ShardOf(account, shards))
	list := poisons(t)
	records := []*kgo.Record{record(t, open(account))}
	for i, p := range list {
		p.record.Topic, p.record.Partition = topics.Commands, shard
		records = append(records, p.record, record(t, credit(fmt.Sprintf("c%d", i), account, "1")))
	}
	l.run(t)
	for _, r := range records { // one by one: a batch of all of them would be more than a broker takes
		l.sendRaw(t, r)
	}
	events := l.audit(t)
	for i := range list {
		if got, want := events[fmt.Sprintf("c%d", i)].GetOutcome().GetAfter().GetBalance(), fmt.Sprint(i+1); got != want {
			t.Errorf("balance after c%d is %s, want %s", i, got, want)
		}
	}
	if len(events) != 1+len(list) {
		t.Errorf("%d events", len(events))
	}
	letters := l.letters(t)
	for _, p := range list {
		letter := letters[[2]int64{int64(shard), p.record.Offset}]
		delete(letters, [2]int64{int64(shard), p.record.Offset})
		if letter.GetCause() != p.cause || letter.GetDetail() == "" || letter.GetTopic() != topics.Commands || letter.GetDeadAt() == nil {
			t.Errorf("%s: cause %q (%.100s) of %s, want %s", p.name, letter.GetCause(), letter.GetDetail(), letter.GetTopic(), p.cause)
		}
		sameBytes(t, p.name, letter, p.record)
	}
	if len(letters) != 0 {
		t.Errorf("%d dead letters too many: %v", len(letters), letters)
	}
	replies := l.replies(t)
	for id, want := range map[string]ledgerv1.Reason{
		"":                        ledgerv1.Reason_REASON_INVALID_COMMAND_ID,
		"a\nb":                    ledgerv1.Reason_REASON_INVALID_COMMAND_ID,
		strings.Repeat("i", 129):  ledgerv1.Reason_REASON_INVALID_COMMAND_ID,
		strings.Repeat("i", 60e3): ledgerv1.Reason_REASON_INVALID_COMMAND_ID,
		"p:0":                     ledgerv1.Reason_REASON_INVALID_ACCOUNT,
		"p:129":                   ledgerv1.Reason_REASON_INVALID_ACCOUNT,
	} {
		if r := replies[id]; len(r) != 1 || r[0].GetOutcome().GetReason() != want || r[0].GetOutcome().GetStatus() != ledgerv1.Status_STATUS_REJECTED || r[0].GetDetail() == "" {
			t.Errorf("replies to %.20q: %v", id, r)
		}
	}
}

// sameBytes compares a dead letter with its original, as the log has it.
func sameBytes(t *testing.T, name string, letter *ledgerv1.DeadLetter, r *kgo.Record) {
	t.Helper()
	same := letter.GetHasKey() == (r.Key != nil) && letter.GetHasValue() == (r.Value != nil) &&
		bytes.Equal(letter.GetKey(), r.Key) && bytes.Equal(letter.GetValue(), r.Value) && len(letter.GetHeaders()) == len(r.Headers)
	for i, h := range letter.GetHeaders() {
		same = same && h.GetKey() == r.Headers[i].Key && bytes.Equal(h.GetValue(), r.Headers[i].Value)
	}
	if !same {
		t.Errorf("%s: the dead letter is not the record: key %t %.20q, value %t %d bytes, %d headers",
			name, letter.GetHasKey(), letter.GetKey(), letter.GetHasValue(), len(letter.GetValue()), len(letter.GetHeaders()))
	}
}

// Compressed, a record can be far larger than what a topic takes.
func TestABombIsCutToFitAndThePartitionMovesOn(t *testing.T) {
	t.Parallel()
	l := setup(t)
	bombs := map[string]*kgo.Record{
		"value":   {Value: make([]byte, 8<<20)},
		"headers": {Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: "h", Value: make([]byte, 8<<20)}}},
		"key":     {Value: []byte("x"), Key: make([]byte, 8<<20)},
		"all":     {Value: make([]byte, 3<<20), Key: make([]byte, 3<<20), Headers: []kgo.RecordHeader{{Key: "h", Value: make([]byte, 3<<20)}}},
	}
	shard := int32(topics.ShardOf("a", shards))
	producer, err := kgo.NewClient(kgo.SeedBrokers(l.cfg.Kafka.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(32<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	must(t, err)
	defer producer.Close()
	l.run(t)
	for name, bomb := range bombs {
		bomb.Topic, bomb.Partition = topics.Commands, shard
		if err := producer.ProduceSync(t.Context(), bomb).FirstErr(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	l.send(t, open("a"))
	l.audit(t)
	letters := l.letters(t)
	for name, bomb := range bombs {
		letter := letters[[2]int64{int64(shard), bomb.Offset}]
		if letter == nil || !strings.Contains(letter.GetDetail(), "cut to fit") || !bytes.HasPrefix(bomb.Value, letter.GetValue()) || !bytes.HasPrefix(bomb.Key, letter.GetKey()) {
			t.Errorf("%s: %d bytes of key, %d of value, %d headers, %s", name, len(letter.GetKey()), len(letter.GetValue()), len(letter.GetHeaders()), letter.GetDetail())
		}
	}
}

// badAmounts are what number parsers of other languages take for numbers.
var badAmounts = []string{
	"nan", "NaN", "inf", "-inf", "0x10", "1e3", " 5", "5 ", "+5", "05", "1.0", "-1", "-0", "0", "", "９", "1_000", "1.005",
}

func TestInvalidCommandsGetTheirReasonAsAnEvent(t *testing.T) {
	t.Parallel()
	l := setup(t)
	good := func() *ledgerv1.Command { return answered(credit("", "a", "5")) }
	type refusal struct {
		command *ledgerv1.Command
		want    ledgerv1.Reason
	}
	var list []refusal
	refuse := func(want ledgerv1.Reason, change func(*ledgerv1.Command)) {
		c := changed(good(), change)
		c.CommandId = fmt.Sprintf("bad-%d", len(list))
		list = append(list, refusal{c, want})
	}
	for _, amount := range badAmounts {
		refuse(ledgerv1.Reason_REASON_INVALID_AMOUNT, func(c *ledgerv1.Command) { c.Amount = amount })
		refuse(ledgerv1.Reason_REASON_INVALID_AMOUNT, func(c *ledgerv1.Command) { c.Operation, c.Amount = ledgerv1.Operation_OPERATION_DEBIT, amount })
	}
	for _, amount := range []string{"9223372036854775808", "1000000000000000000", strings.Repeat("9", 50_000)} {
		refuse(ledgerv1.Reason_REASON_LIMIT_EXCEEDED, func(c *ledgerv1.Command) { c.Amount = amount })
	}
	for _, currency := range []string{"", "XYZ", "eur", "EUR/3", "€", "POINTS"} {
		refuse(ledgerv1.Reason_REASON_INVALID_CURRENCY, func(c *ledgerv1.Command) { c.Currency = currency })
	}
	for _, operation := range []ledgerv1.Operation{0, 99, -1} {
		refuse(ledgerv1.Reason_REASON_INVALID_OPERATION, func(c *ledgerv1.Command) { c.Operation = operation })
	}
	refuse(ledgerv1.Reason_REASON_INVALID_ACCOUNT, func(c *ledgerv1.Command) { c.Account = "@world" })
	refuse(ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, func(c *ledgerv1.Command) { c.CounterAccount = "a" })
	refuse(ledgerv1.Reason_REASON_INVALID_COUNTER_ACCOUNT, func(c *ledgerv1.Command) { c.CounterAccount = "b\x00" })
	refuse(ledgerv1.Reason_REASON_INVALID_TEXT, func(c *ledgerv1.Command) { c.Reference = strings.Repeat("r", 257) })
	refuse(ledgerv1.Reason_REASON_CURRENCY_MISMATCH, func(c *ledgerv1.Command) { c.Currency = "JPY" })
	refuse(ledgerv1.Reason_REASON_INVALID_REPAIR, func(c *ledgerv1.Command) { c.Operation, c.Amount = ledgerv1.Operation_OPERATION_REPAIR, "" })

	commands := []*ledgerv1.Command{open("a")}
	for i, r := range list {
		commands = append(commands, r.command, credit(fmt.Sprintf("good-%d", i), "a", "1"))
	}
	l.run(t)
	l.send(t, commands...)
	events, replies := l.audit(t), l.replies(t)
	for i, r := range list {
		id := r.command.GetCommandId()
		o := events[id].GetOutcome()
		if o.GetStatus() != ledgerv1.Status_STATUS_REJECTED || o.GetReason() != r.want || o.GetDelta() != "0" {
			t.Errorf("%s (%.200v): %s %s %s, want %s", id, r.command, o.GetStatus(), o.GetReason(), o.GetDelta(), r.want)
		}
		if p := replies[id]; len(p) != 1 || p[0].GetOutcome().GetReason() != r.want || p[0].GetDetail() == "" {
			t.Errorf("%s: replies %v", id, p)
		}
		if !proto.Equal(events[id].GetCommand(), r.command) {
			t.Errorf("%s: the event carries another command", id)
		}
		if got, want := events[fmt.Sprintf("good-%d", i)].GetOutcome().GetAfter().GetBalance(), fmt.Sprint(i+1); got != want {
			t.Errorf("balance after good-%d is %s, want %s", i, got, want)
		}
	}
	if n := len(l.letters(t)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func TestBracesBlanksAndForeignKeysAreFine(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	names := []string{"}", "}x", "{}", "{", "a}b", "a{b}c", "{a}", "a}{b", " ", "a b", "日本", "a|b", "%s", `x') redis.call('flushall') --`, "REASON", "-"}
	for _, name := range names {
		l.send(t, open(name), credit("id"+name, name, "7"), credit(name, name, "1"))
	}
	nullKey, otherKey := record(t, credit("null key", "{}", "1")), record(t, credit("other key", "{}", "1"))
	nullKey.Key, otherKey.Key = nil, []byte("somebody else")
	l.sendRaw(t, nullKey, otherKey)
	events := l.audit(t)
	for _, name := range names {
		if got := events[name].GetOutcome().GetAfter().GetBalance(); got != "8" {
			t.Errorf("%q: balance %s", name, got)
		}
	}
	if got := events["other key"].GetOutcome().GetAfter().GetBalance(); got != "10" {
		t.Errorf("balance after foreign keys: %s", got)
	}
}

func TestAReusedIdIsAnsweredAndBuriedAndTheFirstOutcomeStands(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	first := answered(debit("pay", "a", "100"))
	records := []*kgo.Record{record(t, open("a")), record(t, credit("in", "a", "500")), record(t, first)}
	for _, change := range []func(*ledgerv1.Command){
		func(c *ledgerv1.Command) { c.Amount = "200" },
		func(c *ledgerv1.Command) { c.Operation = ledgerv1.Operation_OPERATION_CREDIT },
		func(c *ledgerv1.Command) { c.Currency = "USD" },
		func(c *ledgerv1.Command) { c.Amount = "nan" },
		func(c *ledgerv1.Command) { c.Metadata = map[string]string{"k": "v"} },
	} {
		r := record(t, changed(proto.CloneOf(first), change))
		r.Headers = []kgo.RecordHeader{{Key: "who", Value: []byte("another")}}
		records = append(records, r)
	}
	records = append(records, record(t, first))
	l.sendRaw(t, records...)
	events := l.audit(t)
	if o := events["pay"].GetOutcome(); o.GetAfter().GetBalance() != "400" || len(events) != 3 {
		t.Errorf("%d events, pay: %v", len(events), o)
	}
	letters := l.letters(t)
	for _, r := range records[3:8] {
		letter := letters[[2]int64{int64(r.Partition), r.Offset}]
		if letter.GetCause() != reason.Of(ledgerv1.Reason_REASON_COMMAND_ID_REUSED).Code {
			t.Errorf("offset %d: cause %q", r.Offset, letter.GetCause())
		}
		sameBytes(t, "reused", letter, r)
	}
	if len(letters) != 5 {
		t.Errorf("%d dead letters", len(letters))
	}
	var applied, reused int
	for _, reply := range l.replies(t)["pay"] {
		switch o := reply.GetOutcome(); {
		case o.GetStatus() == ledgerv1.Status_STATUS_APPLIED && o.String() == events["pay"].GetOutcome().String():
			applied++
		case o.GetReason() == ledgerv1.Reason_REASON_COMMAND_ID_REUSED && o.GetPosition() == 3 && reply.GetDetail() != "":
			reused++
		default:
			t.Errorf("reply %v", reply)
		}
	}
	if applied != 2 || reused != 5 {
		t.Errorf("%d replies with the outcome, %d of a reused id", applied, reused)
	}
}

func TestACommandOnTheWrongPartitionIsSentOnAndAppliedOnce(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, open("a"))
	l.run(t)
	headers := []kgo.RecordHeader{{Key: "traceparent", Value: []byte("00-1")}, {Key: "empty"}, {Key: "traceparent", Value: []byte("again")}}
	home := int32(topics.ShardOf("a", shards))
	// Unknown to this version, and to be kept.
	value := protowire.AppendBytes(protowire.AppendTag(encoded(t, answered(credit("lost", "a", "5"))), 777, protowire.BytesType), []byte("new field"))
	for partition := range int32(shards) {
		l.sendRaw(t, &kgo.Record{Topic: topics.Commands, Partition: partition, Key: []byte("whatever"), Value: value, Headers: headers})
	}
	until(t, "all four at home", func() string {
		n := 0
		for _, r := range l.read(t, topics.Commands) {
			if r.Partition != home || !bytes.Equal(r.Value, value) {
				continue
			}
			n++
			sentOn, when := r.Headers[:min(len(headers), len(r.Headers))], r.Headers[len(headers):]
			if fmt.Sprint(sentOn) != fmt.Sprint(headers) || len(when) > 1 || (len(when) == 1 && when[0].Key != firstSeenHeader) {
				t.Errorf("headers became %v", r.Headers)
			}
		}
		if n < shards {
			return fmt.Sprintf("%d of %d", n, shards)
		}
		return ""
	})
	events := l.audit(t)
	if got := events["lost"].GetOutcome().GetAfter().GetBalance(); got != "5" {
		t.Errorf("balance %s", got)
	}
	if n := len(l.replies(t)["lost"]); n != shards {
		t.Errorf("%d replies", n)
	}
	for _, r := range l.read(t, topics.Events) {
		if bytes.Contains(r.Value, []byte("lost")) && !bytes.Contains(r.Value, value) {
			t.Error("the event does not carry the command as it came")
		}
	}
}

func TestACommandThatIsSentOnKeepsTheTimeOfItsFirstRecord(t *testing.T) {
	t.Parallel()
	first, later := time.UnixMilli(1_700_000_000_000), time.UnixMilli(1_700_000_100_000)
	requested := func(at time.Time) *ledgerv1.Command {
		return &ledgerv1.Command{RequestedAt: timestamppb.New(at)}
	}
	said := func(values ...string) (headers []kgo.RecordHeader) {
		for _, value := range values {
			headers = append(headers, kgo.RecordHeader{Key: firstSeenHeader, Value: []byte(value)})
		}
		return headers
	}
	for name, c := range map[string]struct {
		command *ledgerv1.Command
		headers []kgo.RecordHeader
		want    time.Time
	}{
		"nothing said":                  {&ledgerv1.Command{}, nil, first},
		"asked for before":              {requested(first.Add(-time.Hour)), nil, first.Add(-time.Hour)},
		"asked for later":               {requested(later), nil, first},
		"no time":                       {&ledgerv1.Command{RequestedAt: &timestamppb.Timestamp{Nanos: -1}}, nil, first},
		"sent on before":                {&ledgerv1.Command{}, said("1699999999000"), first.Add(-time.Second)},
		"sent on before, asked earlier": {requested(first.Add(-time.Hour)), said("1699999999000"), first.Add(-time.Hour)},
		"a header that is no time":      {&ledgerv1.Command{}, said("", "now", "1e3"), first},
		"a header of later":             {&ledgerv1.Command{}, said("1800000000000"), first},
		"two headers":                   {&ledgerv1.Command{}, said("1800000000000", "1699999999000"), first.Add(-time.Second)},
	} {
		r := &kgo.Record{Timestamp: first, Headers: c.headers}
		if got := askedAt(c.command, r); !got.Equal(c.want) {
			t.Errorf("%s: asked at %s, not %s", name, got, c.want)
		}
		onTheWay := &kgo.Record{Timestamp: later, Headers: firstSeen(r)} // and a time later, at home
		if got := askedAt(c.command, onTheWay); !got.Equal(c.want) {
			t.Errorf("%s: asked at %s once it is sent on, not %s", name, got, c.want)
		}
		if again := firstSeen(onTheWay); len(again) != len(onTheWay.Headers) || headerBytes(onTheWay) != headerBytes(r) {
			t.Errorf("%s: headers grow to %v", name, again)
		}
	}
}
