package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// notes is the connection to the test's ledger: one line for each POST. A written line outlives this process, because the
// kernel has it.
type notes struct {
	address string
	pod     string

	lock sync.Mutex
	conn net.Conn
}

// patience bounds the delay of a response when the ledger cannot be reached. A SYN that is lost on a busy machine is sent again
// after 1, 3 and 7 s; a response without a note would look like a faulty ledger.
const patience = 10 * time.Second

// write notes one POST. A note that failed on an old connection is tried once on a new one; the ledger may see it twice
// then, and tells such a repeated note from a request that came twice by its mark.
func (n *notes) write(id string) error {
	if n.address == "" {
		return nil
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	line := fmt.Appendf(nil, "%s %s %d\n", n.pod, id, time.Now().UnixNano())
	if n.conn != nil {
		if n.send(line) == nil {
			return nil
		}
	}
	conn, err := net.DialTimeout("tcp", n.address, patience)
	if err != nil {
		return fmt.Errorf("reach the ledger at %s: %w", n.address, err)
	}
	n.conn = conn
	return n.send(line)
}

func (n *notes) send(line []byte) error {
	if err := n.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return n.drop(err)
	}
	if _, err := n.conn.Write(line); err != nil {
		return n.drop(err)
	}
	return nil
}

func (n *notes) drop(err error) error {
	closed := n.conn.Close()
	n.conn = nil
	if closed != nil {
		return fmt.Errorf("write to the ledger: %w (and closing: %w)", err, closed)
	}
	return fmt.Errorf("write to the ledger: %w", err)
}
