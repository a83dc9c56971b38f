// Package backend is the endpoint: it records requests, and responds as they ask.
package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Request headers that control the response.
const (
	// SizeHeader is how long the body of the response is.
	SizeHeader = "x-reply-size"
	// FormHeader has words: "chunked", "trailers", "early" (a 103 before the response), "slow" (reads and writes with pauses),
	// "cut" (breaks off in the middle of the body), "echo" (answers with the body of the request, while it comes).
	FormHeader = "x-reply-form"
	// StatusHeader is the status of the response.
	StatusHeader = "x-reply-status"
	// CaseHeader names the case.
	CaseHeader = "x-case"
)

// The headers and trailers of responses.
const (
	EarlyHeader      = "X-Early"
	TrailerName      = "X-Reply-Trailer"
	TrailerValue     = "from the endpoint"
	pieceSize        = 16 << 10
	slowPause        = 2 * time.Millisecond
	backendSignature = "X-Backend"
)

// Sight is a request as the endpoint got it.
type Sight struct {
	Count              int
	Method, Path, Host string
	Protocol           string
	Header, Trailer    http.Header
	Length             int
	ContentLength      int64
	Digest             string
	IsWhole            bool
	Body               []byte
	ReadError          string
	TransferEncodings  []string
	finished           bool
}

// Server is the endpoint.
type Server struct {
	// Port takes HTTP/1.1, and HTTP/2 without TLS.
	Port   int
	server *http.Server
	mutex  sync.Mutex
	sights map[string]*Sight
	// trailers are those of requests over HTTP/2, by the names of their cases.
	trailers map[string]http.Header
}

// Start starts it on the loopback.
func Start() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &Server{Port: listener.Addr().(*net.TCPAddr).Port, sights: map[string]*Sight{},
		trailers: map[string]http.Header{}}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server.server = &http.Server{Handler: http.HandlerFunc(server.serve), Protocols: protocols}
	go func() { _ = server.server.Serve(watched{listener, server}) }()
	return server, nil
}

// Close ends it.
func (server *Server) Close() { _ = server.server.Close() }

// Of returns the recorded request of a case. A request that has not ended is not whole.
func (server *Server) Of(name string) Sight {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	sight := server.sights[name]
	if sight == nil {
		return Sight{}
	}
	found := *sight
	if trailers := server.trailers[name]; trailers != nil {
		found.Trailer = trailers
	}
	return found
}

// Ended says whether no request of the case is under way.
func (server *Server) Ended(name string) bool {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	sight := server.sights[name]
	return sight == nil || sight.finished
}

// Forget drops the records of a case.
func (server *Server) Forget(name string) {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	delete(server.sights, name)
	delete(server.trailers, name)
}

// Text is the body of every message of a length. Each piece of it is different, and all of it is in lower case.
func Text(size int) []byte {
	text := make([]byte, size)
	state := uint32(2_463_534_242)
	for index := range text {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		text[index] = 'a' + byte(state%26)
	}
	return text
}

// Digest is the SHA-256 of a body.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func (server *Server) serve(writer http.ResponseWriter, request *http.Request) {
	name := request.Header.Get(CaseHeader)
	forms := strings.Fields(request.Header.Get(FormHeader))
	has := map[string]bool{}
	for _, form := range forms {
		has[form] = true
	}
	sight := &Sight{Method: request.Method, Path: request.RequestURI, Host: request.Host, Header: request.Header.Clone(),
		Protocol: request.Proto, ContentLength: request.ContentLength, TransferEncodings: request.TransferEncoding}
	server.mutex.Lock()
	if before := server.sights[name]; before != nil {
		sight.Count = before.Count
	}
	sight.Count++
	server.sights[name] = sight
	server.mutex.Unlock()

	body, err := read(request.Body, has["slow"])
	server.mutex.Lock()
	sight.Body, sight.Length, sight.Digest, sight.IsWhole, sight.Trailer = body, len(body), Digest(body), err == nil, request.Trailer.Clone()
	if err != nil {
		sight.ReadError = err.Error()
	}
	sight.finished = true
	server.mutex.Unlock()
	if err != nil {
		return
	}
	server.reply(writer, request, has)
}

// read reads a body, at a pace that makes its sender wait if requested.
func read(body io.Reader, isSlow bool) ([]byte, error) {
	if !isSlow {
		return io.ReadAll(body)
	}
	var all []byte
	piece := make([]byte, pieceSize)
	for {
		count, err := io.ReadFull(body, piece)
		all = append(all, piece[:count]...)
		if err == io.EOF || err == io.ErrUnexpectedEOF && count < len(piece) && isEnd(body) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		time.Sleep(slowPause)
	}
}

// isEnd says whether nothing follows: ReadFull has the same error for the end of a body and for one that was cut.
func isEnd(body io.Reader) bool {
	_, err := body.Read(make([]byte, 1))
	return err == io.EOF
}

func (server *Server) reply(writer http.ResponseWriter, request *http.Request, has map[string]bool) {
	size, _ := strconv.Atoi(request.Header.Get(SizeHeader))
	status, _ := strconv.Atoi(request.Header.Get(StatusHeader))
	if status == 0 {
		status = http.StatusOK
	}
	if has["early"] {
		writer.Header().Set(EarlyHeader, "yes")
		writer.WriteHeader(http.StatusEarlyHints)
		writer.Header().Del(EarlyHeader)
	}
	writer.Header().Set(backendSignature, "yes")
	writer.Header().Set("Content-Type", "text/plain")
	writer.Header().Set("X-Two", "one")
	writer.Header().Add("X-Two", "two")
	if !has["chunked"] {
		writer.Header().Set("Content-Length", strconv.Itoa(size))
	}
	if has["trailers"] {
		writer.Header().Set("Trailer", TrailerName)
	}
	writer.WriteHeader(status)
	body := Text(size)
	if has["cut"] {
		body = body[:size/2]
	}
	controller := http.NewResponseController(writer)
	for len(body) > 0 {
		piece := body[:min(pieceSize, len(body))]
		body = body[len(piece):]
		if _, err := writer.Write(piece); err != nil {
			return
		}
		if has["chunked"] || has["slow"] {
			_ = controller.Flush()
		}
		if has["slow"] {
			time.Sleep(slowPause)
		}
	}
	if has["cut"] {
		_ = controller.Flush()
		panic(http.ErrAbortHandler)
	}
	if has["trailers"] {
		writer.Header().Set(TrailerName, TrailerValue)
	}
}
