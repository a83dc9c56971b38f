package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RedisPlan is long connections to a Redis, each of which counts in it.
type RedisPlan struct {
	Address string
	Clients int
	// Beat is the time between two commands of a client.
	Beat time.Duration
	// Life is how long every second client keeps a connection before it makes another one, so that some are with new servers.
	Life time.Duration
	// Ports that connections come from; nil: any.
	Ports *Ports
}

// Cut is a connection that ended while its client wanted it.
type Cut struct {
	Event
	// Server is the identity of the process that the connection was with; "" if it never said so.
	Server string
}

// Sessions is what became of the connections.
type Sessions struct {
	// Commands that were answered right, and Connections that were made.
	Commands, Connections int
	// Cut are connections that ended, Wrong commands with another answer.
	Cut   []Cut
	Wrong []Event
	// Longest is how long one connection lived.
	Longest time.Duration
	Took    time.Duration
}

// Sitting keeps connections to a Redis until it is stopped.
type Sitting struct {
	plan    RedisPlan
	stop    context.CancelFunc
	clients sync.WaitGroup
	begun   time.Time

	lock  sync.Mutex
	found Sessions
}

// Sit begins.
func Sit(plan RedisPlan) *Sitting {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sitting{plan: plan, stop: stop, begun: time.Now()}
	for number := range plan.Clients {
		s.clients.Go(func() {
			for session := 0; ctx.Err() == nil; session++ {
				life, cancel := context.WithCancel(ctx)
				if number%2 == 1 && plan.Life > 0 {
					renewed := time.AfterFunc(plan.Life, cancel)
					context.AfterFunc(life, func() { renewed.Stop() })
				}
				s.session(life, fmt.Sprintf("%d-%d-%d", s.begun.UnixNano(), number, session))
				cancel()
			}
		})
	}
	return s
}

// Stop waits until every client has closed its connection.
func (s *Sitting) Stop() Sessions {
	s.stop()
	s.clients.Wait()
	s.lock.Lock()
	defer s.lock.Unlock()
	s.found.Took = time.Since(s.begun)
	return s.found
}

// session is one connection, from its begin to its end.
func (s *Sitting) session(ctx context.Context, key string) {
	event := Event{Method: "INCR", ID: key, Begin: time.Now()}
	event.Opened = event.Begin
	server, commands, err := s.count(ctx, key, &event)
	event.End, event.Exchange = time.Now(), commands
	s.lock.Lock()
	s.found.Connections++
	s.found.Commands += commands
	s.found.Longest = max(s.found.Longest, event.End.Sub(event.Begin))
	var failed *failure
	switch {
	case err == nil:
	case errors.As(err, &failed):
		event.Class, event.Detail = failed.class, failed.cause.Error()
		s.found.Cut = append(s.found.Cut, Cut{Event: event, Server: server})
	default:
		event.Class, event.Detail = Wrong, err.Error()
		s.found.Wrong = append(s.found.Wrong, event)
	}
	s.lock.Unlock()
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(s.plan.Beat):
		}
	}
}

// count makes a connection and counts on it until it is told to stop. Every number must be one more than the one before.
func (s *Sitting) count(ctx context.Context, key string, event *Event) (server string, commands int, err error) {
	dialing, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := s.plan.Ports.dial(dialing, net.Dialer{}, s.plan.Address)
	if err != nil {
		if ctx.Err() != nil {
			return "", 0, nil
		}
		return "", 0, connecting(err)
	}
	defer conn.Close()
	event.Connected, event.Local = time.Now(), conn.LocalAddr().String()
	reader := bufio.NewReader(conn)
	if server, err = identity(conn, reader); err != nil {
		return "", 0, err
	}
	for ticker := time.NewTicker(s.plan.Beat); ; {
		answer, err := command(conn, reader, "INCR", key)
		if err != nil {
			ticker.Stop()
			return server, commands, err
		}
		if wanted := strconv.Itoa(commands + 1); answer != wanted {
			ticker.Stop()
			return server, commands, fmt.Errorf("INCR answered %q, not %s", answer, wanted)
		}
		commands++
		select {
		case <-ctx.Done():
			ticker.Stop()
			return server, commands, nil
		case <-ticker.C:
		}
	}
}

// RedisIdentity is that of the process at an address.
func RedisIdentity(ctx context.Context, address string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("connect to Redis at %s: %w", address, err)
	}
	defer conn.Close()
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

// command sends one and takes its answer (RESP).
func command(conn net.Conn, reader *bufio.Reader, words ...string) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
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
