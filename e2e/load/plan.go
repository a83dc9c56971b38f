package load

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"
)

// Reuse is the use of a connection after a response.
type Reuse int

const (
	// KeepAlive uses a connection until the server says that it closes it.
	KeepAlive Reuse = iota
	// NewConnection makes a connection for each request and asks the server to close it.
	NewConnection
)

// String names the way in results.
func (r Reuse) String() string {
	if r == NewConnection {
		return "new connections"
	}
	return "keep-alive"
}

// Protocol is the protocol of a client.
type Protocol int

const (
	// HTTP1 is HTTP/1.1, one request at a time on a connection.
	HTTP1 Protocol = iota
	// HTTP2 has the requests of several clients on one connection.
	HTTP2
	// GRPC has unary calls in place of requests, with the client of grpc-go.
	GRPC
	// HTTP3 has the requests of several clients on one connection of QUIC, with the client of quic-go.
	HTTP3
)

// String names the protocol in results.
func (p Protocol) String() string { return [...]string{"HTTP/1.1", "HTTP/2", "gRPC", "HTTP/3"}[p] }

// Plan is a stream of requests.
type Plan struct {
	// Name begins the ids of its requests and must differ from stream to stream.
	Name string
	// Address is where to connect: "10.0.0.1:80", "[fd00::1]:80".
	Address string
	Host    string
	// Path begins with a slash and has no query.
	Path string
	// Delay is how long the backend waits before it responds.
	Delay time.Duration
	// TLS is nil for plain HTTP.
	TLS *tls.Config
	// Clients is how many clients there are, each with one request at a time.
	Clients int
	// Protocol that they speak. All but HTTP/1.1 need TLS here.
	Protocol Protocol
	// Sharing is how many clients share a connection of HTTP/2, HTTP/3 or gRPC; 0: all.
	Sharing int
	// Rate is in requests per second over all clients.
	Rate  int
	Reuse Reuse
	// Ports that its connections come from; nil: any.
	Ports *Ports
	// PostEvery makes each such request of a client a POST; 0: none, 1: all.
	PostEvery int
	// ConnectTimeout and AnswerTimeout default to 20 s: longer than what Fairway promises in any fault, and than a lost
	// SYN or three cost a client on a busy machine (1, 3 and 7 s).
	ConnectTimeout time.Duration
	AnswerTimeout  time.Duration
}

func (p Plan) withDefaults() Plan {
	if p.ConnectTimeout == 0 {
		p.ConnectTimeout = 20 * time.Second
	}
	if p.AnswerTimeout == 0 {
		p.AnswerTimeout = 20 * time.Second
	}
	if p.Path == "" {
		p.Path = "/"
	}
	if p.Sharing == 0 {
		p.Sharing = p.Clients
	}
	return p
}

// request is the bytes of one request.
func (p *Plan) request(method, id string) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s?id=%s", method, p.Path, id)
	if p.Delay > 0 {
		fmt.Fprintf(&text, "&delay=%s", p.Delay)
	}
	fmt.Fprintf(&text, " HTTP/1.1\r\nHost: %s\r\nUser-Agent: fairway-e2e\r\n", p.Host)
	if p.Reuse == NewConnection {
		text.WriteString("Connection: close\r\n")
	}
	if method == "POST" {
		fmt.Fprintf(&text, "Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(id), id)
	} else {
		text.WriteString("\r\n")
	}
	return []byte(text.String())
}

// method is that of a client's nth request.
func (p *Plan) method(n int) string {
	if p.Protocol == GRPC {
		return "POST"
	}
	if p.PostEvery > 0 && n%p.PostEvery == p.PostEvery-1 {
		return "POST"
	}
	return "GET"
}
