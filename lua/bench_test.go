package lua

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// What the writer does in Go for every command, beside Protobuf and Kafka.

func BenchmarkFingerprintOf(b *testing.B) {
	command := &ledgerv1.Command{CommandId: "debit-1234567", Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: "flash-sale-17", Amount: "1", Currency: "EUR"}
	b.ReportAllocs()
	for b.Loop() {
		FingerprintOf(command)
	}
}

// fullCall is a call as the writer makes it, and Redis's answer to it.
func fullCall(b *testing.B) (Call, []any) {
	b.Helper()
	call, records := Call{Expected: Genesis, Now: time.UnixMilli(1772615400000)}, []any{}
	for i := range CommandsMax {
		c := &ledgerv1.Command{CommandId: fmt.Sprintf("debit-%d", i), Operation: ledgerv1.Operation_OPERATION_DEBIT, Account: "flash-sale-17", Amount: "1", Currency: "EUR"}
		body, err := proto.Marshal(c)
		if err != nil {
			b.Fatal(err)
		}
		fingerprint := FingerprintOf(c)
		call.Commands = append(call.Commands, Command{Command: c, Fingerprint: fingerprint, Body: body, AskedAt: call.Now})
		records = append(records, fmt.Sprintf("%s%s%d -1 %d %d EUR/2", fingerprint[:], appendTime(nil, call.Now.UnixMilli()), i+1, 999_999_999-i, i+3))
	}
	return call, []any{decidedWord, strconv.Itoa(CommandsMax), nextChain(Genesis.Chain, call.Now.UnixMilli(), call.bodies()), []any{}, records}
}

func BenchmarkArgs(b *testing.B) {
	call, _ := fullCall(b)
	b.ReportAllocs()
	for b.Loop() {
		call.args(time.Hour)
	}
	perCommand(b)
}

func BenchmarkResult(b *testing.B) {
	call, reply := fullCall(b)
	b.ReportAllocs()
	for b.Loop() {
		if r := call.result(reply); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	perCommand(b)
}

func BenchmarkEvents(b *testing.B) {
	call, reply := fullCall(b)
	r := call.result(reply)
	b.ReportAllocs()
	for b.Loop() {
		link := FirstLink
		for i, d := range r.Decisions {
			var err error
			if _, link, err = link.Event(call.Commands[i], d); err != nil {
				b.Fatal(err)
			}
		}
	}
	perCommand(b)
}

func BenchmarkLinkAfter(b *testing.B) {
	call, reply := fullCall(b)
	event, _, err := FirstLink.Event(call.Commands[0], call.result(reply).Decisions[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := LinkAfter(FirstLink, event); err != nil {
			b.Fatal(err)
		}
	}
}

func perCommand(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/CommandsMax, "ns/command")
}
