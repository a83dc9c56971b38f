package ledger

import (
	"fmt"
	"net"
	"testing"
	"time"
)

func send(t *testing.T, l *Ledger, lines ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		fmt.Fprintln(conn, line)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, l *Ledger, prefix string, notes int) Findings {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		found := l.Findings(prefix, nil)
		if found.Noted == notes {
			return found
		}
		if time.Now().After(end) {
			t.Fatalf("%d notes, expected %d", found.Noted, notes)
		}
	}
}

func opened(t *testing.T) *Ledger {
	t.Helper()
	l, err := Open("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestAPostThatTwoPodsHadIsDoubled(t *testing.T) {
	l := opened(t)
	send(t, l, "pod-a s-1 100", "pod-b s-1 101", "pod-a s-2 102")
	found := await(t, l, "s-", 2)
	if len(found.Doubled) != 1 {
		t.Fatalf("%+v", found)
	}
}

func TestAPostThatOnePodHadTwiceIsDoubled(t *testing.T) {
	l := opened(t)
	// The last note has an id of its own: when it is there, so are those before it on its connection.
	send(t, l, "pod-a s-1 100", "pod-a s-1 200", "pod-a s-2 300")
	if found := await(t, l, "s-", 2); len(found.Doubled) != 1 {
		t.Fatalf("%+v", found)
	}
}

func TestANoteThatWasSentAgainIsOneNote(t *testing.T) {
	l := opened(t)
	send(t, l, "pod-a s-1 100")
	send(t, l, "pod-a s-1 100", "pod-a s-2 101")
	if found := await(t, l, "s-", 2); len(found.Doubled) != 0 {
		t.Fatalf("%+v", found)
	}
}

func TestAnAnswerThatNobodyNotedIsFound(t *testing.T) {
	l := opened(t)
	send(t, l, "pod-a s-1 100", "pod-a other-1 101")
	await(t, l, "other-", 1)
	found := l.Findings("s-", []string{"s-1", "s-2"})
	if len(found.Unnoted) != 1 || found.Unnoted[0] != "s-2" || found.Noted != 1 {
		t.Fatalf("%+v", found)
	}
}
