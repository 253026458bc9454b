package clickhouse

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// answer writes the result of one request in the way it asked for, and its failure in the way ClickHouse tells it: by HTTP status
// while nothing is sent, else by an exception block at the end of the body.
type answer struct {
	w       http.ResponseWriter
	version string
	tag     string // announced in a header and repeated in the exception block, so that data cannot be taken for one

	begun   bool
	broken  bool         // the client cannot be reached
	held    bytes.Buffer // the beginning of the result, not sent yet: a failure can still become an HTTP status
	waitEnd bool         // hold everything
	frames  *compress.Writer
	gzip    *gzip.Writer
	method  string
	useGZIP bool
}

func newAnswer(w http.ResponseWriter, version string) *answer {
	a := &answer{w: w, version: version, tag: strings.ToLower(rand.Text()[:16])}
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.Header().Set("X-ClickHouse-Server-Display-Name", "hotledger-sandbox")
	w.Header().Set("X-ClickHouse-Exception-Tag", a.tag)
	return a
}

// describe takes over from the request how to send the result.
func (a *answer) describe(q *request) {
	a.w.Header().Set("X-ClickHouse-Query-Id", q.queryID)
	a.w.Header().Set("X-ClickHouse-Format", q.stmt.format)
	a.method, a.useGZIP = q.compressNative, q.compressGZIP
	a.waitEnd = q.waitEnd
}

// summary tells the counts of an insert.
func (a *answer) summary(r *result) {
	a.w.Header().Set("X-ClickHouse-Summary", fmt.Sprintf(`{"read_rows":"%d","written_rows":"%d","written_bytes":"%d"}`,
		r.api.resultRowsRead(r.handle), r.api.resultRowsWritten(r.handle), r.api.resultBytesWritten(r.handle)))
}

// write sends a part of the result. data is not kept.
func (a *answer) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if a.waitEnd || (!a.begun && a.held.Len()+len(data) <= heldBytesMax) {
		a.held.Write(data)
		return nil
	}
	if err := a.sendHeld(); err != nil {
		return err
	}
	return a.send(data)
}

// heldBytesMax is about one chunk of the engine.
const heldBytesMax = 64 << 10

func (a *answer) sendHeld() error {
	defer a.held.Reset()
	if a.held.Len() == 0 {
		return nil
	}
	return a.send(a.held.Bytes())
}

func (a *answer) send(data []byte) error {
	if !a.begun {
		a.begun = true
		if a.useGZIP {
			a.w.Header().Set("Content-Encoding", "gzip")
			a.gzip = gzip.NewWriter(a.w)
		}
	}
	var out io.Writer = a.w
	if a.gzip != nil {
		out = a.gzip
	}
	var err error
	if a.method == "" {
		_, err = out.Write(data)
	} else {
		err = a.sendFrames(out, data)
	}
	a.broken = err != nil
	return err
}

// frameBytesMax is the usual size of a compressed frame's content (max_compress_block_size).
const frameBytesMax = 1 << 20

func (a *answer) sendFrames(out io.Writer, data []byte) error {
	if a.frames == nil {
		method := compress.LZ4
		if a.method == "ZSTD" {
			method = compress.ZSTD
		}
		a.frames = compress.NewWriter(compress.LevelZero, method)
	}
	for len(data) > 0 {
		part := data[:min(len(data), frameBytesMax)]
		data = data[len(part):]
		if err := a.frames.Compress(part); err != nil {
			return fmt.Errorf("compress result: %w", err)
		}
		if _, err := out.Write(a.frames.Data); err != nil {
			return err
		}
	}
	return nil
}

// finish ends a successful answer.
func (a *answer) finish() {
	if a.sendHeld() != nil {
		return
	}
	if a.gzip != nil {
		_ = a.gzip.Close()
	}
}

// fail tells the client what went wrong, in the one place that is still open.
func (a *answer) fail(err error) {
	if a.broken {
		return
	}
	exception := asException(err)
	text := exception.Text
	if a.version != "" {
		text += " (version " + a.version + ")"
	}
	text += "\n"
	if !a.begun {
		a.w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(exception.Code))
		a.w.WriteHeader(statusOf(exception.Code))
		_, _ = io.WriteString(a.w, text)
		return
	}
	block := fmt.Sprintf("\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n", a.tag, text, len(text), a.tag)
	if a.send([]byte(block)) == nil && a.gzip != nil {
		_ = a.gzip.Close()
	}
}
