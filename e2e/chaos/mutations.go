package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A mutation breaks one rule of the protocol on purpose, in a copy of the tree. If nothing notices, the proof is worth little. MUTATIONS.md keeps
// the results.
type mutation struct {
	name, breaks string
	edits        []edit
	// module and test that are asked where the seeds found nothing.
	module, test string
}

// edit replaces the only occurrence of old in a file.
type edit struct{ file, old, new string }

// MutationOptions of Mutate.
type MutationOptions struct {
	// Seeds per mutation, at most; they end with the first violation.
	Seeds int
	// Only runs the mutations whose names contain it.
	Only string
	Out  io.Writer
}

// mutationMax bounds one command on a mutated tree.
const mutationMax = 15 * time.Minute

// Mutate breaks the protocol in one place after the other and says what noticed. The number is that of mutations that nothing noticed.
func Mutate(ctx context.Context, o MutationOptions) (survived int, err error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..")
	for _, m := range mutations {
		if !strings.Contains(m.name, o.Only) {
			continue
		}
		caught, err := m.run(ctx, root, o.Seeds)
		if err != nil {
			return survived, fmt.Errorf("mutation %q: %w", m.name, err)
		}
		if caught == "" {
			survived, caught = survived+1, "NOTHING"
		}
		_, _ = fmt.Fprintf(o.Out, "%-34s caught by %s\n", m.name, caught) // to a terminal
	}
	return survived, nil
}

func (m mutation) run(ctx context.Context, root string, seeds int) (caught string, err error) {
	dir, err := os.MkdirTemp("", "hotledger-mutation-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyTree(root, dir); err != nil {
		return "", err
	}
	for _, e := range m.edits {
		if err := e.apply(dir); err != nil {
			return "", err
		}
	}
	if seeds > 0 {
		if out, err := inTree(ctx, filepath.Join(dir, "e2e"), "go", "build", "-o", filepath.Join(dir, "chaos"), "./cmd/chaos"); err != nil {
			return "", fmt.Errorf("does not build: %w: %s", err, out)
		}
		out, err := inTree(ctx, filepath.Join(dir, "e2e"), filepath.Join(dir, "chaos"), "--seeds", fmt.Sprint(seeds), "--seed", "1")
		if err != nil && bytes.Contains(out, []byte("VIOLATED")) {
			return "a seed: " + firstComplaint(out), nil
		}
		if err != nil {
			return "", fmt.Errorf("run seeds: %w: %s", err, out)
		}
	}
	if m.test == "" {
		return "", nil
	}
	if out, err := inTree(ctx, filepath.Join(dir, m.module), "go", "test", "-count=1", "-run", "^"+m.test+"$", "./..."); err != nil {
		if !bytes.Contains(out, []byte("--- FAIL")) {
			return "", fmt.Errorf("run test: %w: %s", err, out)
		}
		return "the test " + m.module + " " + m.test, nil
	}
	return "", nil
}

func inTree(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, mutationMax)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...) //nolint:gosec // go, and what it built
	command.Dir = dir
	return command.CombinedOutput()
}

// firstComplaint is the first line of a violated seed's report that says what was wrong.
func firstComplaint(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, "  - "); ok {
			return strings.TrimSpace(text)
		}
	}
	return "?"
}

// find reads the file of an edit in a tree; the error says that the code has moved on.
func (e edit) find(dir string) (path string, text []byte, err error) {
	path = filepath.Join(dir, e.file)
	if text, err = os.ReadFile(path); err != nil { //nolint:gosec // of this repository
		return path, nil, err
	}
	if n := bytes.Count(text, []byte(e.old)); n != 1 {
		return path, nil, fmt.Errorf("%s holds the text to break %d times, not once: %q", e.file, n, e.old)
	}
	return path, text, nil
}

// Stale names the mutations that no longer fit the tree at root.
func Stale(root string) (stale []error) {
	for _, m := range mutations {
		for _, e := range m.edits {
			if _, _, err := e.find(root); err != nil {
				stale = append(stale, fmt.Errorf("mutation %q: %w", m.name, err))
			}
		}
	}
	return stale
}

func (e edit) apply(dir string) error {
	path, text, err := e.find(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.Replace(text, []byte(e.old), []byte(e.new), 1), 0o600)
}

// copyTree copies what git tracks or would track.
func copyTree(root, dir string) error {
	list, err := exec.Command("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard").Output() //nolint:gosec // this repository
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	for _, name := range slices.Sorted(strings.Lines(string(list))) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root, name)) //nolint:gosec // of this repository
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		target := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(target, text, 0o600); err != nil { //nolint:gosec // in the copy
			return err
		}
	}
	return nil
}
