// Package client owns requests, and what a client can tell of their responses.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// smallWindow is how much a slow client lets lie between the proxy and itself.
	smallWindow = 64 << 10
	// slowPause is how long it waits after each piece.
	slowPause = 2 * time.Millisecond
	pieceSize = 16 << 10
)

// Request is a request to send.
type Request struct {
	Address      string
	Host, Method string
	Path         string
	Header       http.Header
	Body         []byte
	// IsChunked sends the body in pieces and without its length. Trailers come after it.
	IsChunked bool
	Trailers  http.Header
	// IsSlow reads the response at a pace that makes its sender wait.
	IsSlow bool
	// HTTP2 is prior knowledge without TLS.
	HTTP2 bool
	// Deadline bounds all of it.
	Deadline time.Duration
}

// Response is the outcome of a request.
type Response struct {
	Status  int
	Header  http.Header
	Trailer http.Header
	// Early are the received 1xx responses.
	Early []int
	// EarlyHeader are the headers of the last of them.
	EarlyHeader http.Header
	Body        []byte
	// Length is the Content-Length; -1 if there is none.
	Length int64
	// Err is why there is no head, or why the body is not whole.
	Err error
	// IsHang says that the deadline has passed.
	IsHang bool
	Took   time.Duration
}

// Kind is "whole", "cut" (a body that the client sees to be incomplete), "closed" (no response) or "hang".
func (response *Response) Kind() string {
	switch {
	case response.IsHang:
		return "hang"
	case response.Status == 0:
		return "closed"
	case response.Err != nil:
		return "cut"
	}
	return "whole"
}

// Do sends a request on its own connection, and reads the response to its end.
func Do(request Request) *Response {
	context, cancel := context.WithTimeout(context.Background(), request.Deadline)
	defer cancel()
	began := time.Now()
	response := do(context, request)
	response.Took = time.Since(began)
	response.IsHang = errors.Is(response.Err, context.Err()) && context.Err() != nil
	return response
}

func do(context context.Context, request Request) *Response {
	transport := transport(request)
	defer transport.CloseIdleConnections()
	response := &Response{}
	var mutex sync.Mutex
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		mutex.Lock()
		defer mutex.Unlock()
		response.Early, response.EarlyHeader = append(response.Early, code), http.Header(header)
		return nil
	}}
	message, err := http.NewRequestWithContext(httptrace.WithClientTrace(context, trace), request.Method, "http://"+request.Address+request.Path, nil)
	if err != nil {
		response.Err = err
		return response
	}
	message.Host = request.Host
	for name, values := range request.Header {
		message.Header[http.CanonicalHeaderKey(name)] = values
	}
	fill(message, request)
	reply, err := transport.RoundTrip(message)
	if err != nil {
		response.Err = err
		return response
	}
	defer reply.Body.Close()
	body, err := read(reply.Body, request.IsSlow)
	mutex.Lock()
	defer mutex.Unlock()
	response.Status, response.Header, response.Trailer, response.Length = reply.StatusCode, reply.Header, reply.Trailer, reply.ContentLength
	response.Body, response.Err = body, err
	return response
}

// fill gives a message its body and trailers.
func fill(message *http.Request, request Request) {
	switch {
	case request.IsChunked:
		message.Body, message.ContentLength = io.NopCloser(&pieces{rest: request.Body}), -1
	case len(request.Body) > 0:
		message.Body, message.ContentLength = io.NopCloser(bytes.NewReader(request.Body)), int64(len(request.Body))
	}
	if len(request.Trailers) > 0 {
		message.Trailer = request.Trailers.Clone()
	}
}

// transport is one for a single request.
func transport(request Request) *http.Transport {
	dialer := net.Dialer{}
	if request.IsSlow {
		dialer.Control = func(_, _ string, connection syscall.RawConn) error {
			return connection.Control(func(descriptor uintptr) {
				_ = syscall.SetsockoptInt(int(descriptor), syscall.SOL_SOCKET, syscall.SO_RCVBUF, smallWindow)
			})
		}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, Protocols: &http.Protocols{}}
	transport.Protocols.SetHTTP1(!request.HTTP2)
	transport.Protocols.SetUnencryptedHTTP2(request.HTTP2)
	if request.IsSlow {
		transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: smallWindow, MaxReceiveBufferPerConnection: smallWindow}
	}
	return transport
}

func read(body io.Reader, isSlow bool) ([]byte, error) {
	if !isSlow {
		return io.ReadAll(body)
	}
	var all bytes.Buffer
	piece := make([]byte, pieceSize)
	for {
		count, err := body.Read(piece)
		all.Write(piece[:count])
		if err == io.EOF {
			return all.Bytes(), nil
		}
		if err != nil {
			return all.Bytes(), err
		}
		time.Sleep(slowPause)
	}
}

// pieces gives a body in pieces, so that each is a chunk of its own.
type pieces struct{ rest []byte }

func (pieces *pieces) Read(into []byte) (int, error) {
	if len(pieces.rest) == 0 {
		return 0, io.EOF
	}
	count := copy(into, pieces.rest[:min(len(pieces.rest), pieceSize)])
	pieces.rest = pieces.rest[count:]
	return count, nil
}

// String describes a response in a line.
func (response *Response) String() string {
	parts := []string{fmt.Sprintf("%s, status %d, %d bytes", response.Kind(), response.Status, len(response.Body))}
	if response.Err != nil {
		parts = append(parts, response.Err.Error())
	}
	if len(response.Body) > 0 && len(response.Body) < 120 {
		parts = append(parts, fmt.Sprintf("%q", response.Body))
	}
	return strings.Join(parts, "; ")
}
