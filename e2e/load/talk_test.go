package load

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"
)

// lined starts a server on loopback that responds to the lines of a connection; an empty response ends the connection.
func lined(t *testing.T, answer func(nth int, line string) string) string {
	t.Helper()
	return accepting(t, func(conn net.Conn) {
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		for nth := 0; lines.Scan(); nth++ {
			text := answer(nth, lines.Text())
			if text == "" {
				return
			}
			if _, err := fmt.Fprintln(conn, text); err != nil {
				return
			}
		}
	})
}

// runTalks lets clients talk until the condition holds.
func runTalks(t *testing.T, address string, clients int, enough func(Talks) bool) (at, after Talks) {
	t.Helper()
	talking := Talk(TalkPlan{Address: address, Clients: clients, Beat: time.Millisecond, Speech: LineSpeech})
	defer talking.Stop()
	for end := time.Now().Add(20 * time.Second); !enough(talking.Now()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %+v", talking.Now())
		}
	}
	return talking.Now(), talking.Stop()
}

func TestAConnectionStaysUntilItsClientEndsIt(t *testing.T) {
	address := lined(t, func(_ int, line string) string { return "a " + line })
	at, after := runTalks(t, address, 3, func(seen Talks) bool { return seen.Answers >= 30 && seen.AnsweredCount() == 3 })
	if at.Open["a"] != 3 || at.Connections != 3 {
		t.Errorf("while it runs: %+v", at)
	}
	if after.AnsweredCount() != 0 || after.Connections != 3 || len(after.Cut) > 0 || len(after.Wrong) > 0 {
		t.Errorf("at its end: %+v", after)
	}
}

func TestAConnectionThatIsCutIsCountedWithItsServerAndMadeAgain(t *testing.T) {
	address := lined(t, func(nth int, line string) string {
		if nth == 3 {
			return ""
		}
		return "a " + line
	})
	_, after := runTalks(t, address, 2, func(seen Talks) bool { return len(seen.Cut) >= 4 })
	for _, cut := range after.Cut {
		if cut.Server != "a" || cut.Exchange != 3 || cut.Connected.IsZero() || cut.Class != EOFBeforeHead && cut.Class != Reset {
			t.Errorf("%s: %+v", cut.Server, cut.Event)
		}
	}
	if after.AnsweredCount() != 0 || after.Connections < len(after.Cut) || len(after.Wrong) > 0 {
		t.Errorf("at its end: %+v", after)
	}
}

func TestAWrongAnswerIsNoCut(t *testing.T) {
	for name, answer := range map[string]func(int, string) string{
		"another line": func(int, string) string { return "a something" },
		"another pod":  func(nth int, line string) string { return fmt.Sprintf("pod-%d %s", nth, line) },
	} {
		t.Run(name, func(t *testing.T) {
			_, after := runTalks(t, lined(t, answer), 1, func(seen Talks) bool { return len(seen.Wrong) > 0 })
			if len(after.Cut) > 0 || after.AnsweredCount() != 0 {
				t.Errorf("%+v", after)
			}
		})
	}
}
