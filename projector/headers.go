package projector

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"
)

// headerless decompresses batches and leaves out the headers of their records. Nobody here reads them, and the client would make six allocations per record
// for them, which took a seventh of the projector's CPU. A batch that is not compressed keeps them.
type headerless struct{ kgo.Decompressor }

// Decompress implements kgo.Decompressor.
func (h headerless) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	records, err := h.Decompressor.Decompress(src, codec)
	if err != nil || codec == kgo.CodecNone {
		return records, err
	}
	return withoutHeaders(records), nil
}

// withoutHeaders makes the records of a batch shorter, in their place. What is no record stays as it is: the client says so.
//
// A record is: length, attributes (a byte), timestamp, offset, key and value with their lengths, number of headers, headers; numbers are varints.
// (Kafka docs, "Record Batch")
func withoutHeaders(records []byte) []byte {
	out, left := records[:0], records
	for len(left) > 0 {
		length, n := binary.Varint(left)
		if n <= 0 || length < 0 || length > int64(len(left)-n) {
			break
		}
		record := left[n : n+int(length)]
		end := headersAt(record)
		if end < 0 {
			break
		}
		left = left[n+int(length):]
		out = binary.AppendVarint(out, int64(end)+1)
		out = append(append(out, record[:end]...), 0)
	}
	return append(out, left...)
}

// headersAt is where the number of headers stands in a record; -1 in what is none.
func headersAt(record []byte) int {
	at := 1 // after the attributes
	for _, sized := range [...]bool{false, false, true, true} {
		if at > len(record) {
			return -1
		}
		n, used := binary.Varint(record[at:])
		if used <= 0 {
			return -1
		}
		at += used
		if sized && n > 0 { // -1: null
			if n > int64(len(record)-at) {
				return -1
			}
			at += int(n)
		}
	}
	if at >= len(record) {
		return -1
	}
	return at
}
