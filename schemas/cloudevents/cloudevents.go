// Package cloudevents says in Kafka headers what a record is, in the binary mode of the CloudEvents Kafka binding 1.0:
// the attributes are headers, the value is the Protobuf message alone.
package cloudevents

import "github.com/twmb/franz-go/pkg/kgo"

// What a record is. The header ce_type is "ledger.<kind>.v1".
const (
	Command    = "command"
	Event      = "event"
	Reply      = "reply"
	DeadLetter = "deadletter"
)

// The names of the headers.
const (
	HeaderSpecVersion = "ce_specversion"
	HeaderType        = "ce_type"
	HeaderSource      = "ce_source"
	HeaderID          = "ce_id"
	HeaderContentType = "content-type"
)

// Source is the value of ce_source. The pair of source and id names a record.
const Source = "/hotledger"

// The values that never change are shared by all records: a record's headers are read, never written to.
var (
	specVersion = []byte("1.0")
	source      = []byte(Source)
	contentType = []byte("application/protobuf")

	typeCommand    = []byte(Type(Command))
	typeEvent      = []byte(Type(Event))
	typeReply      = []byte(Type(Reply))
	typeDeadLetter = []byte(Type(DeadLetter))
)

// Type returns the value of ce_type for a kind: "ledger.command.v1".
func Type(kind string) string { return "ledger." + kind + ".v1" }

// Headers returns the headers of a record. The id names it within its kind: the command id for a command and its reply,
// "<shard>/<position>" for an event, "<topic>/<partition>/<offset>" of the original record for a dead letter.
// The caller owns the slice and may append to it (trace context), but must not write into the values.
func Headers(kind, id string) []kgo.RecordHeader {
	return AppendHeaders(make([]kgo.RecordHeader, 0, HeadersPerRecord), kind, []byte(id))
}

// HeadersPerRecord is how many headers a record has.
const HeadersPerRecord = 5

// AppendHeaders appends the headers of a record to some slice; the last value but one is id itself, which nobody may change afterwards.
func AppendHeaders(to []kgo.RecordHeader, kind string, id []byte) []kgo.RecordHeader {
	return append(to,
		kgo.RecordHeader{Key: HeaderSpecVersion, Value: specVersion},
		kgo.RecordHeader{Key: HeaderType, Value: typeOf(kind)},
		kgo.RecordHeader{Key: HeaderSource, Value: source},
		kgo.RecordHeader{Key: HeaderID, Value: id},
		kgo.RecordHeader{Key: HeaderContentType, Value: contentType},
	)
}

func typeOf(kind string) []byte {
	switch kind {
	case Command:
		return typeCommand
	case Event:
		return typeEvent
	case Reply:
		return typeReply
	case DeadLetter:
		return typeDeadLetter
	default:
		return []byte(Type(kind))
	}
}
