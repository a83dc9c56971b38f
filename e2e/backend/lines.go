package main

import (
	"bufio"
	"fmt"
	"net"
)

// answerLines serves connections on which each line gets a line in response.
func (a *answering) answerLines(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept a connection of lines: %w", err)
		}
		go a.converse(conn)
	}
}

// converse responds to each line with `NAME LINE`, where NAME is that of the pod, until the client ends the connection.
func (a *answering) converse(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, err := fmt.Fprintf(conn, "%s %s\n", a.pod, lines.Text()); err != nil {
			return
		}
	}
}
