package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// LineSpeech is a dialogue in which each line of the client gets a line that names the pod.
var LineSpeech = Speech{Method: "LINE", Begin: func(conn net.Conn) Say {
	reader := bufio.NewReader(conn)
	return func(number int) (string, error) { return exchangeLine(conn, reader, strconv.Itoa(number)) }
}}

// AskLine sends one line on its own connection and returns the pod that responded.
func AskLine(ctx context.Context, address string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("connect to %s: %w", address, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(talkPatience))
	return exchangeLine(conn, bufio.NewReader(conn), "0")
}

// exchangeLine sends a line and reads the response, `NAME LINE`. It returns the name.
func exchangeLine(conn net.Conn, reader *bufio.Reader, line string) (string, error) {
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", writing(err)
	}
	answer, err := reader.ReadString('\n')
	if err != nil && answer == "" {
		return "", beforeHead(err)
	}
	if err != nil {
		return "", withinAnswer(err)
	}
	pod, back, found := strings.Cut(strings.TrimSuffix(answer, "\n"), " ")
	if !found || pod == "" || back != line {
		return "", fmt.Errorf("line %s was answered %q", line, answer)
	}
	return pod, nil
}
