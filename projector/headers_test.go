package projector

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// The library that writes and reads records is the judge.
func TestRecordsKeepAllButTheirHeaders(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		blob := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 300), rapid.Just([]byte(nil)))
		var in []byte
		var records []kmsg.Record
		for range rapid.IntRange(0, 5).Draw(t, "records") {
			r := kmsg.Record{
				Attributes: rapid.Int8().Draw(t, "attributes"), TimestampDelta64: rapid.Int64().Draw(t, "timestamp"), OffsetDelta: rapid.Int32().Draw(t, "offset"),
				Key: blob.Draw(t, "key"), Value: blob.Draw(t, "value"),
			}
			for range rapid.IntRange(0, 5).Draw(t, "headers") {
				r.Headers = append(r.Headers, kmsg.Header{Key: rapid.String().Draw(t, "name"), Value: blob.Draw(t, "content")})
			}
			body := r.AppendTo(nil)[1:] // after a length of 0
			r.Length = int32(len(body))
			in = append(binary.AppendVarint(in, int64(len(body))), body...)
			records = append(records, r)
		}
		rubbish := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "rubbish")
		rubbish = append([]byte{0x7f}, rubbish...) // longer than what follows
		out := withoutHeaders(slices.Concat(in, rubbish))
		for i, want := range records {
			length, n := binary.Varint(out)
			var got kmsg.Record
			if err := got.ReadFrom(out[:n+int(length)]); err != nil {
				t.Fatal(err)
			}
			if got.Attributes != want.Attributes || got.TimestampDelta64 != want.TimestampDelta64 || got.OffsetDelta != want.OffsetDelta ||
				!bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) || (got.Key == nil) != (want.Key == nil) || len(got.Headers) != 0 {
				t.Fatalf("record %d is %+v, was %+v", i, got, want)
			}
			out = out[n+int(length):]
		}
		if !bytes.Equal(out, rubbish) {
			t.Fatalf("what is no record became %x, was %x", out, rubbish)
		}
	})
}

func TestWhatIsNoRecordStaysAsItIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
		if out := withoutHeaders(slices.Clone(in)); len(out) > len(in) {
			t.Fatalf("%x became %x", in, out)
		}
	})
}
