package load

import (
	"context"
	"fmt"
	"time"
)

// client is one of a stream's clients: one connection at a time, one request after the other.
type client struct {
	plan   *Plan
	tally  *tally
	number int
	conn   *connection
	// shared is in its place for protocols that carry many requests on a connection.
	shared channel
}

// channel sends requests of several clients.
type channel interface {
	// ask sends a request and returns the pod that responded.
	ask(event *Event) (pod string, failed *failure)
	close()
}

// behind is how far a client may fall behind its schedule and still make up for it.
const behind = time.Second

// run sends requests on schedule until ctx ends; a request that was begun is always finished.
func (c *client) run(ctx context.Context, start time.Time) {
	defer func() { c.conn.close() }()
	interval := time.Duration(float64(time.Second) * float64(c.plan.Clients) / float64(c.plan.Rate))
	// The clients of a stream are spread over the interval.
	due := start.Add(interval * time.Duration(c.number) / time.Duration(c.plan.Clients))
	for n := 0; ; n++ {
		if wait := time.Until(due); wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		} else if ctx.Err() != nil {
			return
		} else if wait < -behind {
			due = time.Now()
		}
		c.one(n, due)
		due = due.Add(interval)
	}
}

// one sends the nth request, which was due at the time given, and counts its outcome.
func (c *client) one(n int, due time.Time) {
	method := c.plan.method(n)
	id := fmt.Sprintf("%s-%d-%d", c.plan.Name, c.number, n)
	event := Event{Method: method, ID: id, Begin: time.Now()}
	pod, failed := c.send(&event)
	event.End = time.Now()
	if failed == nil {
		c.tally.countSuccess(&event, pod, event.End.Sub(due))
		return
	}
	event.Class, event.Reason, event.Detail = failed.class, failed.reason, failed.cause.Error()
	c.tally.failed(event)
}

// unbegun is how often a request is sent again that the server says it has not begun.
const unbegun = 6

// send tries the request, and once more where browsers do: an idempotent request whose reused connection was closed by the
// server before any byte of an answer (RFC 9112 §9.3.1). What the server has not begun is sent again whatever its method
// (RFC 9113 §8.7, RFC 9114 §4.1.1). Both are counted apart.
func (c *client) send(event *Event) (string, *failure) {
	pod, failed := c.attempt(event)
	for try := 0; try < unbegun && failed != nil && failed.class == Unprocessed; try++ {
		c.repeated(event, failed)
		pod, failed = c.attempt(event)
	}
	stale := failed != nil && (failed.class == Reset || failed.class == EOFBeforeHead)
	if !stale || event.Exchange == 0 || event.Method != "GET" {
		return pod, failed
	}
	c.repeated(event, failed)
	return c.attempt(event)
}

func (c *client) repeated(event *Event, failed *failure) {
	repeated := *event
	repeated.Class, repeated.Detail, repeated.End = failed.class, failed.cause.Error(), time.Now()
	c.tally.repeated(repeated)
}

func (c *client) attempt(event *Event) (string, *failure) {
	if c.shared != nil {
		return c.shared.ask(event)
	}
	if failed := c.connect(event); failed != nil {
		return "", failed
	}
	event.Exchange, event.Opened, event.Connected, event.Resent = c.conn.served, c.conn.opened, c.conn.connected, c.conn.resent
	event.Local = c.conn.raw.LocalAddr().String()
	got, failed := c.conn.exchange(c.plan.request(event.Method, event.ID), event.Method, c.plan.AnswerTimeout)
	if failed != nil {
		c.drop()
		return "", failed
	}
	switch {
	case c.plan.Reuse == NewConnection:
		c.drop()
	case got.last:
		c.tally.announced()
		c.drop()
	}
	return got.check(event.Method, event.ID)
}

// connect ensures a usable connection.
func (c *client) connect(event *Event) *failure {
	if c.conn != nil && c.conn.closedWhileIdle() {
		c.tally.closedWhileIdle()
		c.drop()
	}
	if c.conn != nil {
		return nil
	}
	event.Opened = time.Now()
	// Not the stream's context: a request that was begun is finished, so that its outcome is known.
	conn, failed := c.plan.open(context.Background())
	if failed != nil {
		return failed
	}
	c.tally.opened(conn)
	c.conn = conn
	return nil
}

func (c *client) drop() {
	c.conn.close()
	c.conn = nil
}
