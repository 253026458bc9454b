//go:build linux

package sandbox_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hotledger/hotledger/sandbox"
)

// parentRole makes a second run of this test binary start a server, tell its process id and wait to be killed.
const parentRole = "SANDBOX_TEST_PARENT"

func TestEnginesDieWithTheirParentHoweverItDies(t *testing.T) {
	ctx := testContext(t)
	if os.Getenv(parentRole) != "" {
		server, err := sandbox.StartRedis(ctx, sandbox.RedisOptions{Dir: os.Getenv(parentRole)})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("child", server.PID())
		select {}
	}
	t.Parallel()
	parent := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), parentRole+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	for lines := bufio.NewScanner(out); child == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "child "); ok {
			if child, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	handle, err := unix.PidfdOpen(child, 0) // names this very process, so a reused id cannot deceive the test
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	ended := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(ended, 60_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 1 {
			t.Fatalf("process %d outlives its parent: %v", child, err)
		}
		return
	}
}
