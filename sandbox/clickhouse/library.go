package clickhouse

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// LibraryVersion is the version of the npm package @chdb/lib-linux-x64-gnu that holds the library this server was tested with.
const LibraryVersion = "26.7.3-stable.1"

// ErrLibraryMissing means that libchdb.so is neither at CHDB_LIB_PATH nor in the cache.
var ErrLibraryMissing = errors.New("libchdb.so not found, run scripts/install-engines.sh")

// LibraryPath says where libchdb.so is looked for: CHDB_LIB_PATH when set, else the place in the cache where
// scripts/install-engines.sh puts it (HOTLEDGER_CACHE, default ~/.cache/hotledger).
func LibraryPath() string {
	if path := os.Getenv("CHDB_LIB_PATH"); path != "" {
		return path
	}
	cache := os.Getenv("HOTLEDGER_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = os.TempDir()
		}
		cache = filepath.Join(home, ".cache", "hotledger")
	}
	return filepath.Join(cache, "chdb", LibraryVersion, "libchdb.so")
}

// api is the part of chdb.h that this server calls. A connection accepts one statement at a time; different
// connections run in parallel.
type api struct {
	setSignalHandlers func(enabled int32)
	connect           func(argc int32, argv **byte) *unsafe.Pointer
	close             func(conn *unsafe.Pointer)

	query  func(conn unsafe.Pointer, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr, names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) unsafe.Pointer
	stream func(conn unsafe.Pointer, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr, names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) unsafe.Pointer
	fetch  func(conn, stream unsafe.Pointer) unsafe.Pointer
	cancel func(conn, stream unsafe.Pointer)

	insert        func(conn unsafe.Pointer, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr, names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) unsafe.Pointer
	insertAppend  func(insert unsafe.Pointer, data *byte, dataLen uintptr) int32
	insertDone    func(insert unsafe.Pointer) unsafe.Pointer
	insertCancel  func(insert unsafe.Pointer)
	insertError   func(insert unsafe.Pointer) *byte
	insertDestroy func(insert unsafe.Pointer)

	resultDestroy      func(result unsafe.Pointer)
	resultBuffer       func(result unsafe.Pointer) *byte
	resultLen          func(result unsafe.Pointer) uintptr
	resultError        func(result unsafe.Pointer) *byte
	resultRowsRead     func(result unsafe.Pointer) uint64
	resultRowsWritten  func(result unsafe.Pointer) uint64
	resultBytesWritten func(result unsafe.Pointer) uint64
}

// loadLibrary maps libchdb.so into this process, once: a second load would start a second engine over the same symbols.
var loadLibrary = sync.OnceValues(func() (*api, error) {
	path := LibraryPath()
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w (looked at %s)", ErrLibraryMissing, path)
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	a := &api{}
	for name, function := range map[string]any{
		"chdb_set_signal_handlers_enabled": &a.setSignalHandlers,
		"chdb_connect":                     &a.connect,
		"chdb_close_conn":                  &a.close,
		"chdb_query_with_params_n":         &a.query,
		"chdb_stream_query_with_params_n":  &a.stream,
		"chdb_stream_fetch_result":         &a.fetch,
		"chdb_stream_cancel_query":         &a.cancel,
		"chdb_stream_insert_with_params_n": &a.insert,
		"chdb_stream_append":               &a.insertAppend,
		"chdb_stream_done":                 &a.insertDone,
		"chdb_stream_cancel_insert":        &a.insertCancel,
		"chdb_stream_insert_error":         &a.insertError,
		"chdb_destroy_insert_stream":       &a.insertDestroy,
		"chdb_destroy_query_result":        &a.resultDestroy,
		"chdb_result_buffer":               &a.resultBuffer,
		"chdb_result_length":               &a.resultLen,
		"chdb_result_error":                &a.resultError,
		"chdb_result_rows_read":            &a.resultRowsRead,
		"chdb_result_rows_written":         &a.resultRowsWritten,
		"chdb_result_bytes_written":        &a.resultBytesWritten,
	} {
		symbol, err := purego.Dlsym(library, name)
		if err != nil {
			return nil, fmt.Errorf("find %s in %s: %w", name, path, err)
		}
		purego.RegisterFunc(function, symbol)
	}
	// The engine's own crash handlers would replace those that the Go runtime needs for its stacks and for preemption.
	a.setSignalHandlers(0)
	return a, nil
})

// cArgs builds a NULL-terminated argv; pinner keeps it in place while C reads it.
func cArgs(pinner *runtime.Pinner, args []string) **byte {
	argv := make([]*byte, len(args)+1)
	for i, arg := range args {
		argv[i] = pinned(pinner, arg)
	}
	pinner.Pin(&argv[0])
	return &argv[0]
}

// pinned copies text to the heap, ended by a NUL, and keeps it in place while C reads it.
func pinned(pinner *runtime.Pinner, text string) *byte {
	first := &append([]byte(text), 0)[0]
	pinner.Pin(first)
	return first
}

// goString copies a NUL-terminated C string.
func goString(text *byte) string {
	if text == nil {
		return ""
	}
	length := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(text), length)) != 0 { //nolint:gosec // the engine ends every text with a NUL
		length++
	}
	return string(unsafe.Slice(text, length)) //nolint:gosec // length was counted above
}
