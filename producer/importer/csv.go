package importer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// lineBytesMax is the longest line that is read. The longest that could be a valid command is well below.
const lineBytesMax = 16 << 10

// table reads a CSV file with a header, one record per physical line: no field of a command can hold a line break, so a
// quote that is never closed costs its own line and not the rest of the file.
type table struct {
	in      *bufio.Reader
	columns []string
	line    int // of what was read last, from 1
}

// newTable reads the header. It must name all needed columns and any of the optional ones, each once, in any order.
func newTable(r io.Reader, needed, optional []string) (*table, error) {
	t := &table{in: bufio.NewReaderSize(r, lineBytesMax)}
	if err := t.byteOrderMark(); err != nil {
		return nil, err
	}
	header, bad, err := t.next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("empty; the first line names the columns: %s", strings.Join(needed, ","))
	}
	if err != nil {
		return nil, err
	}
	if bad != nil {
		return nil, fmt.Errorf("line %d: %s", t.line, bad.text)
	}
	if why := unlike(header, needed, optional); why != "" {
		return nil, fmt.Errorf("line %d names the columns %.200q: %s", t.line, strings.Join(header, ","), why)
	}
	t.columns = slices.Clone(header)
	return t, nil
}

// unlike tells how a header differs from what it may be; "" where it does not.
func unlike(header, needed, optional []string) string {
	for i, column := range header {
		switch {
		case slices.Contains(header[:i], column):
			return fmt.Sprintf("%q is there twice", column)
		case !slices.Contains(needed, column) && !slices.Contains(optional, column):
			return fmt.Sprintf("%.40q is none of %s", column, strings.Join(slices.Concat(needed, optional), ","))
		}
	}
	for _, column := range needed {
		if !slices.Contains(header, column) {
			return fmt.Sprintf("%q is missing", column)
		}
	}
	return ""
}

// byteOrderMark skips the mark that some programs put in front of UTF-8, and refuses UTF-16.
func (t *table) byteOrderMark() error {
	start, _ := t.in.Peek(3)
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		_, err := t.in.Discard(3)
		return err
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return errors.New("written in UTF-16; save it as UTF-8")
	}
	return nil
}

// next returns the fields of the next line that is not empty, or what is wrong with the line. The error is io.EOF at
// the end, or the reader's.
func (t *table) next() ([]string, *problem, error) {
	for {
		text, tooLong, err := t.readLine()
		if err != nil {
			return nil, nil, err
		}
		if tooLong {
			return nil, problemf(0, "longer than %d bytes", lineBytesMax), nil
		}
		if text == "" {
			continue
		}
		if strings.ContainsRune(text, '\r') {
			return nil, problemf(0, "carriage return within the line; lines end with LF or CRLF"), nil
		}
		reader := csv.NewReader(strings.NewReader(text))
		reader.FieldsPerRecord = -1 // counted below, with the columns' names
		fields, err := reader.Read()
		var parse *csv.ParseError
		switch {
		case errors.As(err, &parse):
			return nil, problemf(0, "column %d: %v; a quoted field begins and ends with a quote on this line", parse.Column, parse.Err), nil
		case err != nil:
			return nil, problemf(0, "%v", err), nil
		case t.columns != nil && len(fields) != len(t.columns):
			return nil, problemf(0, "has %d columns, want %d: %s", len(fields), len(t.columns), strings.Join(t.columns, ",")), nil
		}
		return fields, nil, nil
	}
}

// readLine returns a line without its end. What is too long is skipped up to its end.
func (t *table) readLine() (text string, tooLong bool, err error) {
	t.line++
	slice, err := t.in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		slice, err = t.in.ReadSlice('\n')
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(slice) == 0 && !tooLong) {
		return "", false, err
	}
	text = strings.TrimSuffix(string(slice), "\n")
	return strings.TrimSuffix(text, "\r"), tooLong, nil
}

// record is a line by column name; a column that the file leaves out is "".
type record map[string]string

func (t *table) record(fields []string) record {
	r := make(record, len(fields))
	for i, column := range t.columns {
		r[column] = fields[i]
	}
	return r
}
