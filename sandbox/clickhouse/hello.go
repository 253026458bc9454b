package clickhouse

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
)

// hello is the first statement of clickhouse-go on every connection. It reads the answer in the form of its own revision, and
// everything after that in the form of the revision that the answer names.
const hello = "SELECT displayName(), version(), revision(), timezone()"

// plainRevision asks the client for the plain form of Native, the only one that the engine writes.
const plainRevision = 0

// isHello recognises the statement. A person who types it, without a client_protocol_version, gets the engine's own answer.
func isHello(params url.Values, sql string) (clientRevision int, ok bool) {
	clientRevision, err := strconv.Atoi(params.Get("client_protocol_version"))
	return clientRevision, err == nil && clientRevision > plainRevision && params.Get("default_format") == "Native" && strings.TrimSpace(sql) == hello
}

// helloBlock encodes the answer for a client of that revision.
func helloBlock(clientRevision int, version, timezone string) ([]byte, error) {
	columns := []struct {
		name string
		data proto.ColInput
	}{
		{"displayName()", textColumn("hotledger-sandbox")},
		{"version()", textColumn(version)},
		{"revision()", &proto.ColUInt32{plainRevision}},
		{"timezone()", textColumn(timezone)},
	}
	input := make([]proto.InputColumn, len(columns))
	for i, column := range columns {
		input[i] = proto.InputColumn{Name: column.name, Data: column.data}
	}
	var buffer proto.Buffer
	block := proto.Block{Columns: len(columns), Rows: 1, Info: proto.BlockInfo{BucketNum: -1}}
	if err := block.EncodeBlock(&buffer, clientRevision, input); err != nil {
		return nil, fmt.Errorf("encode the answer to hello: %w", err)
	}
	return buffer.Buf, nil
}

func textColumn(text string) proto.ColInput {
	column := new(proto.ColStr)
	column.Append(text)
	return column
}
