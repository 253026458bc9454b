package clickhouse

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Exception is an error of the engine, with ClickHouse's own code and text.
type Exception struct {
	Code int    // for example 60, UNKNOWN_TABLE
	Text string // "Code: 60. DB::Exception: ... (UNKNOWN_TABLE)"
}

func (e *Exception) Error() string { return e.Text }

// Codes that this server itself gives, by ClickHouse's numbering.
const (
	codeBadArguments   = 36
	codeNotImplemented = 48
	codeIncorrectData  = 117
	codeAborted        = 236
	codeUnknown        = 1002
)

var exceptionCode = regexp.MustCompile(`Code: (\d+)\. `)

// parseException reads the text that the engine gave; a text without a code gets UNKNOWN_EXCEPTION.
func parseException(text string) *Exception {
	text = strings.TrimSpace(text)
	if match := exceptionCode.FindStringSubmatchIndex(text); match != nil {
		code, err := strconv.Atoi(text[match[2]:match[3]])
		if err == nil {
			return &Exception{Code: code, Text: text[match[0]:]}
		}
	}
	return exceptionf(codeUnknown, "UNKNOWN_EXCEPTION", "%s", text)
}

func exceptionf(code int, name, format string, args ...any) *Exception {
	return &Exception{Code: code, Text: fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, fmt.Sprintf(format, args...), name)}
}

// asException gives every error the form of an exception.
func asException(err error) *Exception {
	var exception *Exception
	if errors.As(err, &exception) {
		return exception
	}
	return exceptionf(codeUnknown, "UNKNOWN_EXCEPTION", "%v", err)
}

// statusOf is the HTTP status that ClickHouse answers a code with (its src/Server/HTTP/exceptionCodeToHTTPStatus.cpp, the codes that occur here).
func statusOf(code int) int {
	switch code {
	case 6, 26, 27, 36, 38, 41, 43, 53, 62, 69, 72, 117, 130, 131, 168, 169, 427, 457: // parse errors, wrong types and arguments
		return http.StatusBadRequest
	case 16, 46, 47, 50, 56, 60, 73, 81, 115: // unknown column, function, identifier, type, storage, table, format, database, setting
		return http.StatusNotFound
	case codeNotImplemented:
		return http.StatusNotImplemented
	default:
		return http.StatusInternalServerError
	}
}
