// Package load sends a stream of requests from outside of the pods and counts every outcome. It speaks HTTP/1.1 by itself over
// plain connections, so that nothing is repeated or hidden; the one thing it may repeat, as browsers do, it counts. It never
// judges: which outcomes a scenario allows, package verdict says.
package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// Class is the outcome of one request at its client.
type Class string

// All classes but those of status codes, which are "status 502" and so on.
const (
	// OK is a complete 200 response with the right body.
	OK Class = "ok"
	// ConnectRefused is a connection that was refused.
	ConnectRefused Class = "connect refused"
	// ConnectTimeout is a connect that took too long.
	ConnectTimeout Class = "connect timeout"
	// ConnectFailed is a connection that failed in any other way, such as an unreachable network.
	ConnectFailed Class = "connect failed"
	// TLSFailure is a handshake that failed or was not finished in time.
	TLSFailure Class = "TLS failure"
	// WriteFailed is a request that could not be written, but for a reset.
	WriteFailed Class = "write failed"
	// Reset is a connection that was reset before the first byte of the response; for HTTP/3, one that ended with a stateless
	// reset.
	Reset Class = "reset"
	// EOFBeforeHead is a connection that was closed before the first byte of the response.
	EOFBeforeHead Class = "EOF before head"
	// Unprocessed is a request of HTTP/2 or HTTP/3 that the server has not begun, and says so.
	Unprocessed Class = "not begun"
	// Truncated is a connection that was closed or reset within the response.
	Truncated Class = "truncated"
	// ReadTimeout is a response that was late or incomplete.
	ReadTimeout Class = "read timeout"
	// Malformed is a response that is not HTTP.
	Malformed Class = "malformed answer"
	// WrongBody is a 200 response to another request.
	WrongBody Class = "wrong body"
)

// Event is a request that failed, or that was selected to be recorded.
type Event struct {
	Class Class `json:"class"`
	// Reason is Fairway's, from the body of a response other than 200.
	Reason string `json:"reason,omitempty"`
	Method string `json:"method"`
	ID     string `json:"id"`
	// Begin is when the request was begun, its connection included; End when its outcome was known.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Exchange is how many requests the connection had carried before this one.
	Exchange int `json:"exchange"`
	// Opened is when the connection was requested, Connected when it was established, its TLS handshake included.
	Opened    time.Time `json:"opened"`
	Connected time.Time `json:"connected"`
	// Resent counts the segments that the client's kernel had to repeat before the connection was there.
	Resent int    `json:"resent,omitempty"`
	Local  string `json:"local,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// String is one line for people.
func (e Event) String() string {
	text := fmt.Sprintf("%s +%s %s %s: %s", e.Begin.Format("15:04:05.000"), e.End.Sub(e.Begin).Round(time.Millisecond), e.Method, e.ID, e.Class)
	if e.Reason != "" {
		text += " " + e.Reason
	}
	connected := "never connected"
	if !e.Connected.IsZero() {
		connected = "connected after " + e.Connected.Sub(e.Opened).Round(time.Millisecond).String()
	}
	if e.Resent > 0 {
		connected += fmt.Sprintf(" with %d segments resent", e.Resent)
	}
	return fmt.Sprintf("%s (request %d of its connection, opened %s, %s, from %s) %s",
		text, e.Exchange+1, e.Opened.Format("15:04:05.000"), connected, e.Local, e.Detail)
}

// Phase is where a slow request spent most of its time.
type Phase string

// The phases of a request.
const (
	// Resending is a new connection whose first segment was lost or ignored: the client's kernel repeats it after 1 s.
	Resending Phase = "connecting, a segment was resent"
	// Connecting is a new connection that was slow for any other reason.
	Connecting Phase = "connecting"
	// Waiting is everything after the request was written.
	Waiting Phase = "waiting for the answer"
)

// Phase says where the request spent most of its time.
func (e Event) Phase() Phase {
	connecting := e.Connected.Sub(e.Opened)
	switch {
	case e.Exchange > 0 || 2*connecting < e.End.Sub(e.Begin):
		return Waiting
	case e.Resent > 0:
		return Resending
	default:
		return Connecting
	}
}

// failure is an error with the class that it means to the client.
type failure struct {
	class  Class
	reason string
	cause  error
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v", f.class, f.cause) }

func (f *failure) Unwrap() error { return f.cause }

func fail(class Class, cause error) *failure { return &failure{class: class, cause: cause} }

func connecting(err error) *failure {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail(ConnectRefused, err)
	case isReset(err):
		// Accepted by the kernel, and reset before the client saw that.
		return fail(Reset, err)
	case timedOut(err):
		return fail(ConnectTimeout, err)
	default:
		return fail(ConnectFailed, err)
	}
}

func writing(err error) *failure {
	switch {
	case isReset(err):
		return fail(Reset, err)
	case timedOut(err):
		return fail(ReadTimeout, err)
	default:
		return fail(WriteFailed, err)
	}
}

// beforeHead classifies an error before the first byte of the response.
func beforeHead(err error) *failure {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fail(EOFBeforeHead, err)
	case isReset(err):
		return fail(Reset, err)
	case timedOut(err):
		return fail(ReadTimeout, err)
	default:
		return fail(Malformed, err)
	}
}

// withinAnswer classifies an error after the first byte of the response.
func withinAnswer(err error) *failure {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isReset(err):
		return fail(Truncated, err)
	case timedOut(err):
		return fail(ReadTimeout, err)
	default:
		return fail(Malformed, err)
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
