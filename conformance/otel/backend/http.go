package backend

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Query parameters that control the response.
const (
	// ResetFirst is how many requests for the path get a reset of the connection first.
	ResetFirst = "reset"
	// FailFirst is how many requests for the path get 503 first.
	FailFirst = "fail"
	// Status is the status of the response.
	Status = "status"
	// Delay is how long the response takes, as a duration of Go.
	Delay = "delay"
	// Close asks for the end of the connection after the response.
	Close = "close"
)

// originalURI is the header with the target of the request that the authentication service decides about.
const originalURI = "X-Original-Url"

// ServeHTTP starts an endpoint for HTTP/1.1 and HTTP/2 without TLS on the loopback. It returns its port.
func ServeHTTP(record *Record, role Role) (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler(record, role), Protocols: protocols}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func handler(record *Record, role Role) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		path, query := request.URL.Path, request.URL.Query()
		if role == Guard {
			path = guarded(request)
			query = nil
		}
		sight, before := record.begin(role, path, request.Header.Values)
		number := func(name string) int {
			value, _ := strconv.Atoi(query.Get(name))
			return value
		}
		if delay, err := time.ParseDuration(query.Get(Delay)); err == nil {
			wait(request, delay)
		}
		status := http.StatusOK
		switch {
		case before < number(ResetFirst):
			record.end(sight, 0, -1)
			reset(writer)
			return
		case before < number(FailFirst):
			status = http.StatusServiceUnavailable
		case number(Status) != 0:
			status = number(Status)
		}
		if query.Has(Close) {
			writer.Header().Set("Connection", "close")
		}
		writer.WriteHeader(status)
		_, _ = writer.Write([]byte("ok\n"))
		record.end(sight, status, -1)
	}
}

// guarded is the path of the request that the authentication service decides about.
func guarded(request *http.Request) string {
	target := request.Header.Get(originalURI)
	if _, rest, isURL := strings.Cut(target, "://"); isURL {
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			target = rest[slash:]
		}
	}
	path, _, _ := strings.Cut(target, "?")
	return path
}

// wait lets the time pass, or returns when the request is given up.
func wait(request *http.Request, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-request.Context().Done():
	}
}

// reset breaks the connection of HTTP/1, or the stream of HTTP/2, without a response.
func reset(writer http.ResponseWriter) {
	connection, _, err := http.NewResponseController(writer).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, isTCP := connection.(*net.TCPConn); isTCP {
		_ = tcp.SetLinger(0)
	}
	connection.Close()
}
