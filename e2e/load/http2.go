package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// multiplexed is an HTTP/2 connection that clients share. After a GOAWAY, a connection finishes its requests while a new one
// takes over. Nothing is retried: only the lower layer of Go's client is used.
type multiplexed struct {
	plan  *Plan
	tally *tally

	lock      sync.Mutex
	conn      *http2.ClientConn
	opened    *connection
	exchanges int
}

func (m *multiplexed) ask(event *Event) (string, *failure) {
	conn, failed := m.current(event)
	if failed != nil {
		return "", failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.plan.AnswerTimeout)
	defer cancel()
	var body io.Reader
	if event.Method == http.MethodPost {
		body = strings.NewReader(event.ID)
	}
	target := fmt.Sprintf("https://%s%s?id=%s&delay=%s", m.plan.Host, m.plan.Path, event.ID, m.plan.Delay)
	request, err := http.NewRequestWithContext(ctx, event.Method, target, body)
	if err != nil {
		return "", fail(WriteFailed, err)
	}
	response, err := conn.RoundTrip(request)
	if err != nil {
		return "", m.failed(conn, err, beforeHead)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", m.failed(conn, err, withinAnswer)
	}
	return answer{status: response.StatusCode, body: string(text)}.check(event.Method, event.ID)
}

// current is a connection that takes a request.
func (m *multiplexed) current(event *Event) (*http2.ClientConn, *failure) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.conn == nil || !m.conn.CanTakeNewRequest() {
		m.retire()
		if failed := m.open(); failed != nil {
			return nil, failed
		}
	}
	event.Exchange, event.Opened, event.Connected, event.Resent = m.exchanges, m.opened.opened, m.opened.connected, m.opened.resent
	event.Local = m.opened.raw.LocalAddr().String()
	m.exchanges++
	return m.conn, nil
}

func (m *multiplexed) open() *failure {
	plan := *m.plan
	plan.TLS = plan.TLS.Clone()
	plan.TLS.NextProtos = []string{"h2"}
	opened, failed := plan.open(context.Background())
	if failed != nil {
		return failed
	}
	if err := opened.stream.SetDeadline(time.Time{}); err != nil {
		return fail(ConnectFailed, err)
	}
	transport := &http2.Transport{DisableCompression: true}
	conn, err := transport.NewClientConn(opened.stream)
	if err != nil {
		opened.close()
		return fail(ConnectFailed, err)
	}
	m.tally.opened(opened)
	m.conn, m.opened, m.exchanges = conn, opened, 0
	return nil
}

// retire lets the connection finish its requests.
func (m *multiplexed) retire() {
	if m.conn == nil {
		return
	}
	m.tally.announced()
	conn := m.conn
	m.conn = nil
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), m.plan.AnswerTimeout)
		defer cancel()
		// Its requests have an outcome of their own.
		_ = conn.Shutdown(ctx)
		_ = conn.Close()
	}()
}

// failed classifies the error of a request.
func (m *multiplexed) failed(conn *http2.ClientConn, err error, otherwise func(error) *failure) *failure {
	var reset http2.StreamError
	var away http2.GoAwayError
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fail(ReadTimeout, err)
	case errors.As(err, &reset) && reset.Code == http2.ErrCodeRefusedStream,
		strings.Contains(text, "graceful shutdown GOAWAY"), strings.Contains(text, "conn not usable"), strings.Contains(text, "conn could not be established"):
		return fail(Unprocessed, err)
	case errors.As(err, &reset):
		return fail(Class("reset "+reset.Code.String()), err)
	case errors.As(err, &away):
		return fail(Class("GOAWAY "+away.ErrCode.String()), err)
	case strings.Contains(text, "client connection lost"), strings.Contains(text, "connection is closed"):
		return fail(Reset, err)
	}
	return otherwise(err)
}

func (m *multiplexed) close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.conn != nil {
		_ = m.conn.Close()
	}
}
