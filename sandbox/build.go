// Package sandbox runs the three engines of a ledger on one machine, without containers: Kafka (kfake), Redis (redis-server) and
// ClickHouse (libchdb behind ClickHouse's HTTP interface). For tests, demos and development.
package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// engineBinary returns the path of one of this module's commands: the one that the environment names (SANDBOX_CLICKHOUSE_BIN,
// SANDBOX_KAFKA_BIN), else the one beside this executable, else one built from this module's source into the cache.
//
// The command is built without -race whatever the caller is built with: the detector has no view into libchdb.
func engineBinary(ctx context.Context, name string) (string, error) {
	variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_BIN"
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := builtBinary(ctx, name)
	if err != nil {
		return "", fmt.Errorf("find %s (not in %s, not beside this executable): %w", name, variable, err)
	}
	return path, nil
}

// builtBinary builds the command unless the cache has it for this source. Test packages that start at the same time wait for one build.
func builtBinary(ctx context.Context, name string) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("locate this module's source: built with -trimpath")
	}
	source := filepath.Dir(file)
	key, err := sourceKey(source)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cacheDir(), "sandbox", key)
	binary := filepath.Join(dir, name)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("create cache directory: %w", err)
	}
	unlock, err := lockFile(binary + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil { // built while this process waited
		return binary, nil
	}
	temporary := fmt.Sprintf("%s.%d", binary, os.Getpid())
	build := exec.CommandContext(ctx, "go", "build", "-o", temporary, "./cmd/"+name) //nolint:gosec // a command of this module, named in this package
	build.Dir = source
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, output)
	}
	if err := os.Rename(temporary, binary); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return binary, nil
}

// sourceKey names a state of this module's source and of the toolchain.
func sourceKey(source string) (string, error) {
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, runtime.Version(), runtime.GOOS, runtime.GOARCH))
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch name := entry.Name(); {
		case strings.HasSuffix(name, "_test.go"):
			return nil
		case strings.HasSuffix(name, ".go"), name == "go.mod", name == "go.sum":
			return hashFile(sum, path)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read this module's source: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

func hashFile(sum hash.Hash, path string) error {
	content, err := os.ReadFile(path) //nolint:gosec // a file of this module
	if err != nil {
		return err
	}
	sum.Write(fmt.Appendln(nil, path, len(content)))
	sum.Write(content)
	return nil
}

// cacheDir is where engines are kept outside the source tree.
func cacheDir() string {
	if dir := os.Getenv("HOTLEDGER_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "hotledger")
	}
	return filepath.Join(home, ".cache", "hotledger")
}

// lockFile waits for an exclusive lock, which ends with the process at the latest.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a file of the cache
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
