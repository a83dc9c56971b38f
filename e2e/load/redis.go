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

// RedisSpeech is a speech in which each client counts in a Redis, whose identity is the name of the server: every number must be one
// more than the one before.
var RedisSpeech = Speech{Method: "INCR", Begin: func(conn net.Conn) Say {
	reader, server := bufio.NewReader(conn), ""
	key := fmt.Sprintf("%s at %d", conn.LocalAddr(), time.Now().UnixNano())
	return func(number int) (string, error) {
		if number == 0 {
			id, err := identity(conn, reader)
			if err != nil {
				return "", err
			}
			server = id
		}
		answer, err := command(conn, reader, "INCR", key)
		if err != nil {
			return server, err
		}
		if wanted := strconv.Itoa(number + 1); answer != wanted {
			return server, fmt.Errorf("INCR answered %q, not %s", answer, wanted)
		}
		return server, nil
	}
}}

// RedisIdentity is that of the process at an address.
func RedisIdentity(ctx context.Context, address string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("connect to Redis at %s: %w", address, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(talkPatience))
	return identity(conn, bufio.NewReader(conn))
}

// identity is what Redis calls itself until its process ends.
func identity(conn net.Conn, reader *bufio.Reader) (string, error) {
	text, err := command(conn, reader, "INFO", "server")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); found {
			return id, nil
		}
	}
	return "", fmt.Errorf("INFO has no run_id: %q", text)
}

// command sends a command and reads its response (RESP).
func command(conn net.Conn, reader *bufio.Reader, words ...string) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, text.String()); err != nil {
		return "", writing(err)
	}
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", beforeHead(err)
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case ':', '+':
		return rest, nil
	case '$':
		length, err := strconv.Atoi(rest)
		if err != nil || length < 0 {
			return "", fmt.Errorf("%s answered %q", words[0], line)
		}
		body := make([]byte, length+2)
		if _, err := io.ReadFull(reader, body); err != nil {
			return "", withinAnswer(err)
		}
		return string(body[:length]), nil
	default:
		return "", fmt.Errorf("%s answered %q", words[0], line)
	}
}
