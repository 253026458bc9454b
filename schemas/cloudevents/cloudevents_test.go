package cloudevents_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hotledger/hotledger/schemas/cloudevents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHeadersSayWhatTheRecordIs(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		cloudevents.Command:    "ledger.command.v1",
		cloudevents.Event:      "ledger.event.v1",
		cloudevents.Reply:      "ledger.reply.v1",
		cloudevents.DeadLetter: "ledger.deadletter.v1",
		"later":                "ledger.later.v1",
	} {
		got := make(map[string]string)
		for _, header := range cloudevents.Headers(kind, "id-1") {
			got[header.Key] = string(header.Value)
		}
		for key, value := range map[string]string{
			"ce_specversion": "1.0", "ce_type": want, "ce_source": cloudevents.Source, "ce_id": "id-1", "content-type": "application/protobuf",
		} {
			if got[key] != value {
				t.Errorf("%s: %s=%q, want %q", kind, key, got[key], value)
			}
		}
	}
}

func TestHeadersMayBeAppendedTo(t *testing.T) {
	t.Parallel()
	first := append(cloudevents.Headers(cloudevents.Event, "0/1"), cloudevents.Headers(cloudevents.Reply, "x")...)
	second := cloudevents.Headers(cloudevents.Event, "0/2")
	if string(first[3].Value) != "0/1" || string(second[3].Value) != "0/2" {
		t.Errorf("ids %q and %q", first[3].Value, second[3].Value)
	}
}
