// Package golden keeps wire samples: what was once written to Kafka must be readable, and mean the same, for ever.
//
// To add a sample, write <message>.<what>.json here and run `go test ./golden -add`: it encodes the sample to .binpb and
// lists both files in the manifest. A listed file is never changed and never removed, so the manifest only grows.
package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

var add = flag.Bool("add", false, "encode the samples that the manifest does not list yet, and list them")

func TestMain(m *testing.M) {
	flag.Parse()
	if *add {
		if err := addSamples(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

const manifestFile = "manifest.sha256"

// messages maps the first part of a sample's name to what it is a sample of.
var messages = map[string]func() proto.Message{
	"command":     func() proto.Message { return &ledgerv1.Command{} },
	"event":       func() proto.Message { return &ledgerv1.Event{} },
	"outcome":     func() proto.Message { return &ledgerv1.Outcome{} },
	"reply":       func() proto.Message { return &ledgerv1.Reply{} },
	"dead_letter": func() proto.Message { return &ledgerv1.DeadLetter{} },
}

func TestEverySampleIsReadAndWrittenByteForByte(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "*.binpb") {
		wire := read(t, file)
		message, err := newMessage(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(wire, message); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if unknown := message.ProtoReflect().GetUnknown(); len(unknown) > 0 {
			t.Errorf("%s: %d bytes of fields that the schema does not know", file, len(unknown))
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, wire) {
			t.Errorf("%s: written differently\n was %x\n now %x", file, wire, again)
		}
		readable, _ := newMessage(file)
		if err := protojson.Unmarshal(read(t, strings.TrimSuffix(file, ".binpb")+".json"), readable); err != nil {
			t.Errorf("%s: its JSON: %v", file, err)
		} else if !proto.Equal(message, readable) {
			t.Errorf("%s: the bytes say %v\nthe JSON says %v", file, message, readable)
		}
	}
}

func TestSamplesAreOnlyEverAdded(t *testing.T) {
	t.Parallel()
	listed := manifest(t)
	for file, sum := range listed {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%s: a listed sample vanished: %v", file, err)
		} else if got := sumOf(content); got != sum {
			t.Errorf("%s: a listed sample was changed; restore it, and add another sample instead", file)
		}
	}
	for _, file := range append(files(t, "*.binpb"), files(t, "*.json")...) {
		if listed[file] == "" {
			t.Errorf("%s: not in the manifest; run `go test ./golden -add`", file)
		}
	}
}

func TestEveryMessageHasASample(t *testing.T) {
	t.Parallel()
	have := strings.Join(files(t, "*.binpb"), "\n")
	for name := range messages {
		if !strings.Contains("\n"+have, "\n"+name+".") {
			t.Errorf("no sample of %s", name)
		}
	}
}

// addSamples encodes each JSON that the manifest does not list.
func addSamples() error {
	known, err := os.ReadFile(manifestFile)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	samples, err := filepath.Glob("*.json")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(known)), "\n")
	for _, file := range samples {
		if strings.Contains(string(known), "  "+file+"\n") {
			continue
		}
		added, err := addSample(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		lines = append(lines, added...)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	return os.WriteFile(manifestFile, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func addSample(file string) ([]string, error) {
	readable, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	message, err := newMessage(file)
	if err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(readable, message); err != nil {
		return nil, err
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	binary := strings.TrimSuffix(file, ".json") + ".binpb"
	return []string{sumOf(wire) + "  " + binary, sumOf(readable) + "  " + file}, os.WriteFile(binary, wire, 0o600)
}

func newMessage(file string) (proto.Message, error) {
	name, _, _ := strings.Cut(file, ".")
	create, ok := messages[name]
	if !ok {
		return nil, fmt.Errorf("%s: no message is called %q", file, name)
	}
	return create(), nil
}

// manifest returns the sum of each listed file. Its lines are those of sha256sum.
func manifest(t *testing.T) map[string]string {
	t.Helper()
	listed := make(map[string]string)
	for line := range strings.Lines(string(read(t, manifestFile))) {
		sum, file, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || listed[file] != "" {
			t.Fatalf("%s: malformed or repeated line %q", manifestFile, line)
		}
		listed[file] = sum
	}
	return listed
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no %s here", pattern)
	}
	return found
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A caller's retry of an old command must pass today's checks too.
func TestEverySampleOfACommandPasses(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "command.*.binpb") {
		cmd := &ledgerv1.Command{}
		if err := proto.Unmarshal(read(t, file), cmd); err != nil {
			t.Fatal(err)
		}
		if why, err := limits.Command(cmd); err != nil {
			t.Errorf("%s: %s: %v", file, why, err)
		}
	}
}

func TestEveryOperationHasASample(t *testing.T) {
	t.Parallel()
	seen := map[ledgerv1.Operation]bool{}
	for _, file := range files(t, "command.*.binpb") {
		cmd := &ledgerv1.Command{}
		if err := proto.Unmarshal(read(t, file), cmd); err != nil {
			t.Fatal(err)
		}
		seen[cmd.GetOperation()] = true
	}
	for number, name := range ledgerv1.Operation_name {
		if number != 0 && !seen[ledgerv1.Operation(number)] {
			t.Errorf("no sample of %s", name)
		}
	}
}
