package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	// maxIdle is longer than any request takes, so that silence ends a request and not its connection.
	maxIdle = time.Minute
	// keepAlive is that of quic-go's own client: who only waits for a response hears of a reset when it sends something.
	keepAlive = 10 * time.Second
)

// http3Channel is the HTTP/3 connection that clients share, or a new one for each request if the plan says so. After a GOAWAY,
// a connection finishes its requests while a new one takes over. Nothing is retried: only the lower layer of quic-go's client
// is used.
type http3Channel struct {
	plan  *Plan
	tally *tally

	lock sync.Mutex
	conn *http3Connection
}

// http3Connection has a socket of its own, so that a Service chooses an endpoint for it alone.
type http3Connection struct {
	*http3.ClientConn
	quic      *quic.Conn
	known     *connection
	exchanges int
}

func (c *http3Channel) ask(event *Event) (string, *failure) {
	for try := 0; ; try++ {
		conn, failed := c.current(event)
		if failed != nil {
			return "", failed
		}
		pod, failed := conn.exchange(c.plan, event.Method, event.ID)
		switch {
		case c.plan.Reuse == NewConnection:
			conn.close()
		case failed != nil && failed.class == unsent:
			c.retire(conn)
		}
		if failed == nil || failed.class != unsent {
			return pod, failed
		}
		if try == unbegun {
			return "", fail(Unprocessed, failed.cause)
		}
	}
}

// current is a connection for a request.
func (c *http3Channel) current(event *Event) (*http3Connection, *failure) {
	if c.plan.Reuse == NewConnection {
		return c.open(event)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.conn != nil && c.conn.Context().Err() != nil {
		c.tally.closedWhileIdle()
		c.conn = nil
	}
	if c.conn == nil {
		conn, failed := c.open(event)
		if failed != nil {
			return nil, failed
		}
		c.conn = conn
	}
	c.conn.describe(event)
	c.conn.exchanges++
	return c.conn, nil
}

func (c *http3Channel) open(event *Event) (*http3Connection, *failure) {
	event.Opened = time.Now()
	socket, err := c.plan.Ports.listen()
	if err != nil {
		return nil, fail(ConnectFailed, err)
	}
	event.Local = socket.LocalAddr().String()
	conn, failed := c.plan.openHTTP3(socket)
	if failed != nil {
		return nil, failed
	}
	c.tally.opened(conn.known)
	conn.describe(event)
	return conn, nil
}

func (c *http3Connection) describe(event *Event) {
	event.Exchange, event.Opened, event.Connected = c.exchanges, c.known.opened, c.known.connected
	event.Local = c.LocalAddr().String()
}

// retire leaves a connection that takes no more requests to those that it carries: quic-go closes it after the last of them.
func (c *http3Channel) retire(conn *http3Connection) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.conn != conn {
		return
	}
	c.conn = nil
	if conn.Context().Err() != nil {
		c.tally.closedWhileIdle()
	} else {
		c.tally.announced()
	}
}

func (c *http3Channel) close() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.conn != nil {
		c.conn.close()
	}
}

// openHTTP3 connects from a socket, which is closed with the connection.
func (p *Plan) openHTTP3(socket net.PacketConn) (*http3Connection, *failure) {
	opened := time.Now()
	server, err := net.ResolveUDPAddr("udp", p.Address)
	if err != nil {
		_ = socket.Close()
		return nil, fail(ConnectFailed, err)
	}
	secure := p.TLS.Clone()
	secure.NextProtos = []string{http3.NextProtoH3}
	ctx, cancel := context.WithTimeout(context.Background(), p.ConnectTimeout)
	defer cancel()
	transport := &quic.Transport{Conn: socket}
	free := func() { _, _ = transport.Close(), socket.Close() }
	conn, err := transport.Dial(ctx, server, secure, &quic.Config{
		HandshakeIdleTimeout: p.ConnectTimeout, MaxIdleTimeout: maxIdle, KeepAlivePeriod: keepAlive,
	})
	if err != nil {
		free()
		return nil, connectingHTTP3(err)
	}
	context.AfterFunc(conn.Context(), free)
	known := &connection{opened: opened, connected: time.Now()}
	if certificates := conn.ConnectionState().TLS.PeerCertificates; len(certificates) > 0 {
		known.serial = certificates[0].SerialNumber.String()
	}
	over := &http3.Transport{DisableCompression: true}
	return &http3Connection{ClientConn: over.NewClientConn(conn), quic: conn, known: known}, nil
}

// close cannot fail in a way that matters: all its requests have an outcome.
func (c *http3Connection) close() {
	_ = c.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

// unsent is a request of which nothing was sent, because its connection takes no more: no outcome of a request.
const unsent Class = "not sent"

// exchange sends a request and reads its whole response.
func (c *http3Connection) exchange(plan *Plan, method, id string) (string, *failure) {
	ctx, cancel := context.WithTimeout(context.Background(), plan.AnswerTimeout)
	defer cancel()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(id)
	}
	target := fmt.Sprintf("https://%s%s?id=%s&delay=%s", plan.Host, plan.Path, id, plan.Delay)
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return "", fail(WriteFailed, err)
	}
	response, err := c.RoundTrip(request)
	switch {
	case err == nil:
	case strings.HasPrefix(err.Error(), "http3: conn unusable"):
		return "", fail(unsent, err)
	case isRejected(err):
		return "", fail(Unprocessed, err)
	default:
		return "", failedHTTP3(err, beforeHead)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", failedHTTP3(err, withinAnswer)
	}
	return answer{status: response.StatusCode, body: string(text)}.check(method, id)
}

// isRejected says whether the server has not begun the request (RFC 9114 §4.1.1).
func isRejected(err error) bool {
	var reset *quic.StreamError
	return errors.As(err, &reset) && reset.Remote && http3.ErrCode(reset.ErrorCode) == http3.ErrCodeRequestRejected
}

// failedHTTP3 classes what a request met. The end of a connection counts as it does over TCP.
func failedHTTP3(err error, otherwise func(error) *failure) *failure {
	var (
		reset  *quic.StreamError
		closed *quic.ApplicationError
		broken *quic.TransportError
		gone   *quic.StatelessResetError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fail(ReadTimeout, err)
	case errors.As(err, &gone):
		return otherwise(fmt.Errorf("%w: %w", syscall.ECONNRESET, err))
	case errors.As(err, &reset):
		return fail(Class("reset "+http3.ErrCode(reset.ErrorCode).String()), err)
	case errors.As(err, &closed) && http3.ErrCode(closed.ErrorCode) == http3.ErrCodeNoError:
		return otherwise(fmt.Errorf("%w: %w", io.EOF, err))
	case errors.As(err, &closed):
		return fail(Class("closed with "+http3.ErrCode(closed.ErrorCode).String()), err)
	case errors.As(err, &broken):
		return fail(Class("closed with "+broken.ErrorCode.String()), err)
	}
	return otherwise(err)
}

// connectingHTTP3 classifies an error while connecting.
func connectingHTTP3(err error) *failure {
	var (
		broken *quic.TransportError
		gone   *quic.StatelessResetError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fail(ConnectTimeout, err)
	case errors.As(err, &gone):
		return fail(Reset, err)
	case errors.As(err, &broken) && broken.ErrorCode == quic.ConnectionRefused:
		return fail(ConnectRefused, err)
	case errors.As(err, &broken) && broken.ErrorCode.IsCryptoError():
		return fail(TLSFailure, err)
	}
	return connecting(err)
}

// GetHTTP3 sends one GET over its own connection and returns the outcome.
func GetHTTP3(plan Plan) Sight {
	plan = plan.withDefaults()
	plan.Reuse = NewConnection
	channel := &http3Channel{plan: &plan, tally: newTally()}
	event := Event{Method: http.MethodGet, ID: "probe", Begin: time.Now()}
	pod, failed := channel.ask(&event)
	if failed != nil {
		return Sight{Class: failed.class, Reason: failed.cause.Error(), At: time.Now()}
	}
	return Sight{Class: OK, Pod: pod, At: time.Now()}
}
