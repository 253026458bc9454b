package e2e

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

// What each module may import of the others, outside its tests. Tests of a module may also use sandbox.
var mayImport = map[string][]string{
	"schemas":       {},
	"sandbox":       {},
	"lua":           {"schemas"},
	"chassis":       {"schemas"},
	"producer":      {"schemas", "chassis"},
	"ledger-writer": {"schemas", "lua", "chassis"},
	"projector":     {"schemas", "lua", "chassis"},
	"reconciler":    {"schemas", "lua", "chassis", "producer"},
	"e2e":           {"schemas", "lua", "chassis", "producer", "ledger-writer", "projector", "reconciler", "sandbox"},
}

// Packages that only tests use, though their files are no _test.go: several packages' tests share them. They may import what tests may.
var testSupport = []string{"producer/internal/answering"}

const modulePrefix = "github.com/hotledger/hotledger/"

// sources calls visit with every file of the repository that git tracks or would track.
func sources(t *testing.T, pattern string, visit func(path, text string)) {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", pattern).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for path := range strings.Lines(string(list)) {
		path = strings.TrimSpace(path)
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue // deleted and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		found++
		visit(path, string(text))
	}
	if found == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheModuleGraphPointsOneWay(t *testing.T) {
	t.Parallel()
	sources(t, "*.go", func(path, text string) {
		module, _, _ := strings.Cut(path, "/")
		allowed := append([]string{module}, mayImport[module]...)
		forTests := strings.HasSuffix(path, "_test.go") || slices.Contains(testSupport, filepath.Dir(path))
		if forTests {
			allowed = append(allowed, "sandbox")
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		for _, spec := range file.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), modulePrefix)
			if target, _, _ := strings.Cut(imported, "/"); ours && !slices.Contains(allowed, target) {
				t.Errorf("%s imports %s, which %s may not", path, imported, module)
			}
			if slices.Contains(testSupport, imported) && !forTests {
				t.Errorf("%s imports %s, which is for tests", path, imported)
			}
		}
	})
}

func TestFilesStaySmall(t *testing.T) {
	t.Parallel()
	limits := map[string]int{"*.go": 400, "*.lua": 140, "*/README.md": 120}
	for pattern, limit := range limits {
		sources(t, pattern, func(path, text string) {
			if lines := strings.Count(text, "\n"); lines > limit && !strings.HasSuffix(path, ".pb.go") {
				t.Errorf("%s has %d lines, the limit is %d", path, lines, limit)
			}
		})
	}
}

func TestEveryModuleSaysTheSameGoVersionAndIsInTheWorkspace(t *testing.T) {
	t.Parallel()
	directive := regexp.MustCompile(`(?m)^go (\S+)$`)
	work := read(t, "go.work")
	want := directive.FindStringSubmatch(work)[1]
	sources(t, "*go.mod", func(path, text string) {
		if got := directive.FindStringSubmatch(text); len(got) == 0 || got[1] != want {
			t.Errorf("%s: go directive %v, go.work says %s", path, got, want)
		}
		if module := filepath.Dir(path); !strings.Contains(work, "./"+module+"\n") {
			t.Errorf("%s is not in go.work", module)
		}
		if strings.Contains(text, "v0.0.0-0001") {
			t.Errorf("%s: local modules are required at v0.0.0", path)
		}
	})
}

func TestModulesAgreeOnTheirLibraries(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^\s+(\S+\.\S+/\S+|\S+\.\S+) (v\S+)`)
	versions, first := map[string]string{}, map[string]string{}
	sources(t, "*go.mod", func(path, text string) {
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			if have, ok := versions[m[1]]; ok && have != m[2] {
				t.Errorf("%s requires %s %s, %s requires %s", path, m[1], m[2], first[m[1]], have)
			}
			versions[m[1]], first[m[1]] = m[2], path
		}
	})
}

func TestEveryTopFolderIsInTheReadmesMap(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || e.Name() == "bin" {
			continue
		}
		if !strings.Contains(readme, "`"+e.Name()+"/`") {
			t.Errorf("README.md does not say what %s/ is", e.Name())
		}
	}
}

func TestEveryFileAndFunctionThatTheArchitectureNamesExists(t *testing.T) {
	t.Parallel()
	text := read(t, "ARCHITECTURE.md")
	names := regexp.MustCompile("`([a-z0-9_./-]+\\.(?:go|lua|sql|proto))(?::([A-Za-z.]+))?`").FindAllStringSubmatch(text, -1)
	if len(names) < 20 {
		t.Fatalf("ARCHITECTURE.md names only %d files", len(names))
	}
	for _, m := range names {
		source, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
			continue
		}
		if m[2] == "" {
			continue
		}
		function := m[2][strings.LastIndex(m[2], ".")+1:]
		if !regexp.MustCompile(`func (\([^)]*\) )?` + function + `[(\[]`).Match(source) {
			t.Errorf("ARCHITECTURE.md names %s:%s, which is not there", m[1], m[2])
		}
	}
}

func TestDecisionsAreNumberedAndStateTheirParts(t *testing.T) {
	t.Parallel()
	entries, err := fs.Glob(os.DirFS(root), "docs/decisions/*.md")
	if err != nil || len(entries) < 5 {
		t.Fatalf("decisions: %v %v", entries, err)
	}
	for i, path := range entries {
		if want := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(filepath.Base(path), want) {
			t.Errorf("%s: want the number %s", path, want)
		}
		text := read(t, path)
		for _, part := range []string{"# ", "## Context", "## Decision", "## Consequences"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %q", path, part)
			}
		}
	}
}

func TestGeneratedFilesAndModuleFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	for module := range mayImport {
		t.Run(module, func(t *testing.T) {
			tidy := exec.CommandContext(t.Context(), "go", "mod", "tidy", "-diff")
			tidy.Dir = filepath.Join(root, module)
			if out, err := tidy.CombinedOutput(); err != nil {
				t.Errorf("go mod tidy would change %s/go.mod or go.sum: %v\n%s", module, err, out)
			}
		})
	}
}
