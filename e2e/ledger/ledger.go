// Package ledger receives a note of every POST that any backend received, and reports duplicates. It never speaks to clients:
// it gets their results at the end.
package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
)

// Ledger listens for the notes of all backends of a test.
type Ledger struct {
	listener net.Listener

	lock sync.Mutex
	// Notes by id: "POD MARK". The mark distinguishes a repeated note from a repeated request.
	notes map[string][]string
	bad   []string
}

// Open listens at address, which pods must reach ("10.0.0.1:0").
func Open(address string) (*Ledger, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the notes of backends: %w", err)
	}
	l := &Ledger{listener: listener, notes: map[string][]string{}}
	go l.accept()
	return l, nil
}

// Address is where backends send their notes.
func (l *Ledger) Address() string { return l.listener.Addr().String() }

// Close ends listening. Notes that were received stay.
func (l *Ledger) Close() error {
	if err := l.listener.Close(); err != nil {
		return fmt.Errorf("close the ledger: %w", err)
	}
	return nil
}

func (l *Ledger) accept() {
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.complain(fmt.Sprintf("accept: %v", err))
			return
		}
		go l.read(conn)
	}
}

func (l *Ledger) read(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			l.complain(fmt.Sprintf("%q is no note", lines.Text()))
			continue
		}
		l.note(words[1], words[0]+" "+words[2])
	}
}

func (l *Ledger) note(id, mark string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, before := range l.notes[id] {
		if before == mark {
			return
		}
	}
	l.notes[id] = append(l.notes[id], mark)
}

func (l *Ledger) complain(text string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.bad = append(l.bad, text)
}

// Findings are the problems of the POSTs of one scenario.
type Findings struct {
	// Noted counts ids with the prefix that some backend had.
	Noted int
	// Doubled are ids that backends were given more than once, with who had them.
	Doubled []string
	// Unnoted are ids of successful requests that no backend reported: then the test itself is broken.
	Unnoted []string
	// Bad are notes that could not be read.
	Bad []string
}

// Findings compares the notes whose ids begin with prefix with the results of clients.
func (l *Ledger) Findings(prefix string, answered []string) Findings {
	l.lock.Lock()
	defer l.lock.Unlock()
	found := Findings{Bad: append([]string(nil), l.bad...)}
	for id, marks := range l.notes {
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		found.Noted++
		if len(marks) > 1 {
			found.Doubled = append(found.Doubled, id+": "+strings.Join(marks, ", "))
		}
	}
	for _, id := range answered {
		if len(l.notes[id]) == 0 {
			found.Unnoted = append(found.Unnoted, id)
		}
	}
	return found
}
