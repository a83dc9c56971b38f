package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LinesPlan is long connections on which each line of the client is answered by one that names the pod.
type LinesPlan struct {
	Address string
	Clients int
	// Beat is the time between two lines of a client.
	Beat time.Duration
	// Ports that connections come from; nil: any.
	Ports *Ports
}

// Talks is what has become of the connections.
type Talks struct {
	// Lines that were answered right, and Connections that were made.
	Lines, Connections int
	// Open are the connections that are open and were answered, by the pod that they are with.
	Open map[string]int
	// Cut are connections that ended before their client ended them; the Server is the pod. Wrong are lines with another answer.
	Cut   []Cut
	Wrong []Event
	// Longest is how long one connection lived that has ended.
	Longest time.Duration
}

// Answered is how many connections are open and were answered.
func (t Talks) Answered() int {
	all := 0
	for _, count := range t.Open {
		all += count
	}
	return all
}

// Talking keeps connections open until it is stopped: a client whose connection ends makes another one.
type Talking struct {
	plan    LinesPlan
	stop    context.CancelFunc
	clients sync.WaitGroup

	lock  sync.Mutex
	found Talks
}

// Talk begins.
func Talk(plan LinesPlan) *Talking {
	ctx, stop := context.WithCancel(context.Background())
	t := &Talking{plan: plan, stop: stop, found: Talks{Open: map[string]int{}}}
	for range plan.Clients {
		t.clients.Go(func() {
			for ctx.Err() == nil {
				t.connection(ctx)
			}
		})
	}
	return t
}

// Plan is what it does.
func (t *Talking) Plan() LinesPlan { return t.plan }

// Now is what has become of the connections so far.
func (t *Talking) Now() Talks {
	t.lock.Lock()
	defer t.lock.Unlock()
	found := t.found
	found.Open, found.Cut, found.Wrong = maps.Clone(found.Open), slices.Clone(found.Cut), slices.Clone(found.Wrong)
	return found
}

// Stop waits until every client has ended its connection.
func (t *Talking) Stop() Talks {
	t.stop()
	t.clients.Wait()
	return t.Now()
}

// connection is one connection, from its begin to its end.
func (t *Talking) connection(ctx context.Context) {
	event := Event{Method: "LINE", Begin: time.Now()}
	event.Opened = event.Begin
	pod, err := t.talk(ctx, &event)
	event.End = time.Now()
	t.over(event, pod, err)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(t.plan.Beat):
		}
	}
}

// talk makes a connection and sends lines until it is told to stop. Gives the pod that answered them.
func (t *Talking) talk(ctx context.Context, event *Event) (string, error) {
	dialing, cancel := context.WithTimeout(ctx, linePatience)
	defer cancel()
	conn, err := t.plan.Ports.dial(dialing, net.Dialer{}, t.plan.Address)
	if err != nil {
		if ctx.Err() != nil {
			return "", nil
		}
		return "", connecting(err)
	}
	defer conn.Close()
	event.Connected, event.Local = time.Now(), conn.LocalAddr().String()
	t.made()
	reader, ticker, pod := bufio.NewReader(conn), time.NewTicker(t.plan.Beat), ""
	defer ticker.Stop()
	for {
		from, err := exchangeLine(conn, reader, strconv.Itoa(event.Exchange))
		if err != nil {
			return pod, err
		}
		if pod != "" && from != pod {
			return pod, fmt.Errorf("a connection with %s was answered by %s", pod, from)
		}
		pod = from
		t.answered(pod, event.Exchange == 0)
		event.Exchange++
		select {
		case <-ctx.Done():
			return pod, nil
		case <-ticker.C:
		}
	}
}

func (t *Talking) made() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.found.Connections++
}

// answered counts a line, and the connection with its first one.
func (t *Talking) answered(pod string, first bool) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.found.Lines++
	if first {
		t.found.Open[pod]++
	}
}

// over counts the end of a connection; err is nil when its client ended it.
func (t *Talking) over(event Event, pod string, err error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if pod != "" {
		t.found.Open[pod]--
	}
	if !event.Connected.IsZero() {
		t.found.Longest = max(t.found.Longest, event.End.Sub(event.Connected))
	}
	var failed *failure
	switch {
	case err == nil:
	case errors.As(err, &failed):
		event.Class, event.Detail = failed.class, fmt.Sprintf("with pod %q: %v", pod, failed.cause)
		t.found.Cut = append(t.found.Cut, Cut{Event: event, Server: pod})
	default:
		event.Class, event.Detail = Wrong, err.Error()
		t.found.Wrong = append(t.found.Wrong, event)
	}
}

// linePatience bounds a connect, and the answer to a line.
const linePatience = 20 * time.Second

// AskLine sends one line on a connection of its own and gives the pod that answered it.
func AskLine(ctx context.Context, address string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("connect to %s: %w", address, err)
	}
	defer conn.Close()
	return exchangeLine(conn, bufio.NewReader(conn), "0")
}

// exchangeLine sends a line and takes its answer, `NAME LINE`. Gives the name.
func exchangeLine(conn net.Conn, reader *bufio.Reader, line string) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(linePatience))
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
