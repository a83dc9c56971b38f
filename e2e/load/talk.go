package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// talkPatience bounds a connect, and a response.
const talkPatience = 20 * time.Second

// TalkPlan is a set of long connections on which clients send something at every beat, and get responses that identify the
// server.
type TalkPlan struct {
	Address string
	Clients int
	// Beat is the time between two messages of a client.
	Beat time.Duration
	// Ports that connections come from; nil: any.
	Ports  *Ports
	Speech Speech
}

// Speech is how clients speak.
type Speech struct {
	// Method is the name of a message in events.
	Method string
	// Begin is called with each new connection.
	Begin func(net.Conn) Say
}

// Say sends the next message on a connection, the first for number 0, and reads the response. It returns the name of the
// server.
type Say func(number int) (server string, err error)

// Cut is a connection that ended unexpectedly.
type Cut struct {
	Event
	// Server is the server of the connection; "" if it never responded.
	Server string
}

// Talks are the results of the connections.
type Talks struct {
	// Correct responses, and established connections.
	Answers, Connections int
	// Open are the open connections with a response, by server.
	Open map[string]int
	// Cut are connections that ended before their client ended them, Wrong those with a wrong response.
	Cut   []Cut
	Wrong []Event
	// Longest is how long one connection lived that has ended.
	Longest time.Duration
}

// AnsweredCount is the number of open connections with a response.
func (t Talks) AnsweredCount() int {
	all := 0
	for _, count := range t.Open {
		all += count
	}
	return all
}

// Talking keeps connections open until it is stopped: a client whose connection ends opens another one.
type Talking struct {
	plan    TalkPlan
	stop    context.CancelFunc
	clients sync.WaitGroup

	lock  sync.Mutex
	found Talks
}

// Talk begins.
func Talk(plan TalkPlan) *Talking {
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

// Plan is the plan of the connections.
func (t *Talking) Plan() TalkPlan { return t.plan }

// Now are the results so far.
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
	event := Event{Method: t.plan.Speech.Method, Begin: time.Now()}
	event.Opened = event.Begin
	server, err := t.talk(ctx, &event)
	event.End = time.Now()
	t.over(event, server, err)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(t.plan.Beat):
		}
	}
}

// talk opens a connection and sends messages on it until it is stopped. It returns the server that responded.
func (t *Talking) talk(ctx context.Context, event *Event) (string, error) {
	dialing, cancel := context.WithTimeout(ctx, talkPatience)
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
	t.countConnect()
	say, ticker, server := t.plan.Speech.Begin(conn), time.NewTicker(t.plan.Beat), ""
	defer ticker.Stop()
	for {
		_ = conn.SetDeadline(time.Now().Add(talkPatience))
		from, err := say(event.Exchange)
		if err != nil {
			return server, err
		}
		if server != "" && from != server {
			return server, fmt.Errorf("a connection with %s was answered by %s", server, from)
		}
		server = from
		t.countAnswer(server, event.Exchange == 0)
		event.Exchange++
		select {
		case <-ctx.Done():
			return server, nil
		case <-ticker.C:
		}
	}
}

func (t *Talking) countConnect() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.found.Connections++
}

// countAnswer counts a response, and the connection with its first one.
func (t *Talking) countAnswer(server string, first bool) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.found.Answers++
	if first {
		t.found.Open[server]++
	}
}

// over counts the end of a connection; err is nil when its client ended it.
func (t *Talking) over(event Event, server string, err error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if server != "" {
		t.found.Open[server]--
	}
	if !event.Connected.IsZero() {
		t.found.Longest = max(t.found.Longest, event.End.Sub(event.Connected))
	}
	var failed *failure
	switch {
	case err == nil:
	case errors.As(err, &failed):
		event.Class, event.Detail = failed.class, fmt.Sprintf("with %q: %v", server, failed.cause)
		t.found.Cut = append(t.found.Cut, Cut{Event: event, Server: server})
	default:
		event.Class, event.Detail = Wrong, err.Error()
		t.found.Wrong = append(t.found.Wrong, event)
	}
}
