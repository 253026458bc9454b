package sandbox

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// ask sends one inline command and returns the first piece of the answer, or why there is none.
func ask(t *testing.T, addr, command string) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return "", err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

func TestAProxyLosesAnswersOfRequestsThatWereExecuted(t *testing.T) {
	t.Parallel()
	server, err := StartRedis(t.Context(), RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	p, err := StartProxy(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Lose(func(request []byte) bool { return bytes.Contains(request, []byte("INCR")) })
	if answer, err := ask(t, p.Addr(), "INCR n"); err == nil || p.Lost() != 1 {
		t.Errorf("answered %q, lost %d", answer, p.Lost())
	}
	p.Lose(nil)
	if answer, err := ask(t, p.Addr(), "GET n"); err != nil || answer != "$1\r\n1\r\n" {
		t.Errorf("n is %q %v", answer, err)
	}
	p.Refuse(true)
	if answer, err := ask(t, p.Addr(), "PING"); err == nil {
		t.Errorf("a refused connection was answered %q", answer)
	}
	p.Refuse(false)
	if answer, err := ask(t, p.Addr(), "PING"); err != nil || answer != "+PONG\r\n" {
		t.Errorf("after it: %q %v", answer, err)
	}
}
