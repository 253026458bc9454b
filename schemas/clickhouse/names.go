package clickhouse

import (
	"bytes"
	"io"
	"io/fs"
	"strings"
)

// namedFS shows the migrations with the databases' names in place of ${LEDGER} and ${FINANCE}. (goose's own substitution
// reads the environment of the process, which could name one pair of databases only.)
type namedFS struct {
	fs.FS
	databases Databases
}

// Open opens a migration, or the directory.
func (n namedFS) Open(name string) (fs.File, error) {
	file, err := n.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		_ = file.Close()
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	named := strings.NewReplacer("${LEDGER}", n.databases.Ledger, "${FINANCE}", n.databases.Finance).Replace(string(text))
	return &namedFile{File: file, text: bytes.NewReader([]byte(named))}, nil
}

// namedFile is a migration whose text was replaced.
type namedFile struct {
	fs.File
	text *bytes.Reader
}

// Read reads the replaced text.
func (f *namedFile) Read(p []byte) (int, error) {
	return f.text.Read(p)
}
