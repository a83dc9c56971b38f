// Package backend is the endpoints: one that does what requests ask for, and recorders that keep every byte of requests.
package backend

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// Headers by which a client asks for something, and in which the endpoint says what it saw.
const (
	SizeHeader    = "X-Reply-Size"
	HashHeader    = "X-Request-Hash"
	LengthHeader  = "X-Request-Length"
	ProtoHeader   = "X-Request-Proto"
	TrailerHeader = "X-Request-Trailer"
	ReplyTrailer  = "X-Reply-Trailer"
	WantsTrailer  = "X-Wants-Trailer" // A proxy may drop TE, and what the request says about trailers with it.
)

// Server is an endpoint that speaks HTTP/1.1 and HTTP/2 without TLS.
type Server struct {
	Port     int
	listener net.Listener
	server   *http.Server
	mutex    sync.Mutex
	held     map[string]chan struct{}
	gone     map[string]error
	waiting  int
}

// Start starts an endpoint on the loopback.
func Start() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &Server{Port: listener.Addr().(*net.TCPAddr).Port, listener: listener, held: map[string]chan struct{}{}, gone: map[string]error{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/body", body)
	mux.HandleFunc("/early", early)
	mux.HandleFunc("/early-data", earlyData)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/held", server.hold)
	mux.HandleFunc("/endless", server.endless)
	mux.HandleFunc("/swallow", server.discardBody)
	mux.HandleFunc("/websocket", webSocket)
	mux.HandleFunc("/", func(writer http.ResponseWriter, request *http.Request) { fmt.Fprint(writer, "here") })
	server.server = &http.Server{Handler: mux, Protocols: new(http.Protocols), MaxHeaderBytes: 1 << 20}
	server.server.Protocols.SetHTTP1(true)
	server.server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.server.Serve(listener) }()
	return server, nil
}

// Close ends it and its connections.
func (server *Server) Close() { _ = server.server.Close() }

// Pattern is a reader of bytes that depend on where they stand.
func Pattern(size int64) io.Reader { return io.LimitReader(&pattern{}, size) }

type pattern struct{ at uint64 }

func (pattern *pattern) Read(into []byte) (int, error) {
	for index := range into {
		into[index] = byte(pattern.at*31 + pattern.at>>8*7 + pattern.at>>16)
		pattern.at++
	}
	return len(into), nil
}

// Hash is the hash of what a reader has, and how much that is.
func Hash(reader io.Reader) (string, int64, error) {
	hash := sha256.New()
	length, err := io.Copy(hash, reader)
	return hex.EncodeToString(hash.Sum(nil)), length, err
}

// body reads the request to its end, and responds with the requested size and with trailers.
func body(writer http.ResponseWriter, request *http.Request) {
	hash, length, err := Hash(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	header := writer.Header()
	header.Set(HashHeader, hash)
	header.Set(LengthHeader, strconv.FormatInt(length, 10))
	header.Set(ProtoHeader, request.Proto)
	header.Set(TrailerHeader, request.Trailer.Get(TrailerHeader))
	if request.Header.Get(WantsTrailer) != "" {
		header.Set("Trailer", ReplyTrailer)
	}
	size, _ := strconv.ParseInt(request.Header.Get(SizeHeader), 10, 64)
	if request.Header.Get("X-Known-Length") != "" {
		header.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	_, _ = io.Copy(writer, Pattern(size))
	header.Set(ReplyTrailer, hash)
}

func early(writer http.ResponseWriter, request *http.Request) {
	writer.Header().Set("Link", "</style.css>; rel=preload")
	writer.WriteHeader(http.StatusEarlyHints)
	writer.Header().Del("Link")
	fmt.Fprint(writer, "late")
}

// earlyData responds with the Early-Data header of the request (RFC 8470 §5.1).
func earlyData(writer http.ResponseWriter, request *http.Request) {
	fmt.Fprint(writer, request.Header.Get("Early-Data"))
}

// echo returns each piece of the request before the next one is sent, as a streaming gRPC service does.
func echo(writer http.ResponseWriter, request *http.Request) {
	control := http.NewResponseController(writer)
	_ = control.EnableFullDuplex()
	writer.Header().Set("Content-Type", request.Header.Get("Content-Type"))
	writer.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	writer.WriteHeader(http.StatusOK)
	_ = control.Flush()
	buffer := make([]byte, 32<<10)
	for {
		count, err := request.Body.Read(buffer)
		if count > 0 {
			_, _ = writer.Write(buffer[:count])
			_ = control.Flush()
		}
		if err != nil {
			break
		}
	}
	writer.Header().Set("Grpc-Status", "0")
	writer.Header().Set("Grpc-Message", "done")
}

// hold responds when Release is called.
func (server *Server) hold(writer http.ResponseWriter, request *http.Request) {
	server.mutex.Lock()
	gate := server.gate(request.URL.Query().Get("gate"))
	server.waiting++
	server.mutex.Unlock()
	select {
	case <-gate:
	case <-request.Context().Done():
	}
	server.mutex.Lock()
	server.waiting--
	server.mutex.Unlock()
	fmt.Fprint(writer, "released")
}

// gate creates the gate on first use; the mutex is held.
func (server *Server) gate(name string) chan struct{} {
	if server.held[name] == nil {
		server.held[name] = make(chan struct{})
	}
	return server.held[name]
}

// Held is the number of waiting requests.
func (server *Server) Held() int {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	return server.waiting
}

// Release lets the requests of a gate go.
func (server *Server) Release(gate string) {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	close(server.gate(gate))
}

// HasLeft says whether an exchange of /endless or /swallow ended because its client left.
func (server *Server) HasLeft(id string) bool {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	return server.gone[id] != nil
}

func (server *Server) recordDeparture(id string, err error) {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	server.gone[id] = err
}

// endless sends until the client leaves.
func (server *Server) endless(writer http.ResponseWriter, request *http.Request) {
	_, err := io.Copy(writer, &pattern{})
	server.recordDeparture(request.URL.Query().Get("id"), err)
}

// discardBody reads until the body ends; a client that leaves is noted.
func (server *Server) discardBody(writer http.ResponseWriter, request *http.Request) {
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		server.recordDeparture(request.URL.Query().Get("id"), err)
	}
}

// webSocket takes an upgrade (RFC 6455 §4.2) and gives back all bytes.
func webSocket(writer http.ResponseWriter, request *http.Request) {
	key := request.Header.Get("Sec-Websocket-Key")
	if request.Header.Get("Upgrade") != "websocket" || key == "" {
		http.Error(writer, "no upgrade", http.StatusBadRequest)
		return
	}
	connection, buffered, err := writer.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	accept := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(accept[:]))
	_, _ = io.Copy(connection, buffered)
}
