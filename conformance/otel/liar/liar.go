// Package liar owns faulty collectors: they never respond, or respond with nonsense or false statements.
package liar

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// gibibyte is the size of responses that must not be read to the end.
	gibibyte = 1 << 30
	// years is a time that must not be waited for, in seconds.
	years = 1_000_000_000
)

// Lie is a way to be wrong.
type Lie struct {
	Name string
	// Start starts a collector that is wrong in this way.
	Start func(address string) (*Liar, error)
}

// Liar is a collector that is wrong.
type Liar struct {
	// Contacts are the connections and requests that it got.
	Contacts atomic.Int64
	close    func()
}

// Close ends it with all of its connections.
func (liar *Liar) Close() { liar.close() }

// Lies are all ways in which a collector of the protocol, `grpc` or `http`, is wrong.
func Lies(protocol string) []Lie {
	lies := []Lie{
		{"accepts and never answers", raw(func(connection net.Conn) { _, _ = io.Copy(io.Discard, connection) })},
		{"closes at once", raw(func(net.Conn) {})},
		{"answers random bytes", raw(random)},
	}
	if protocol == "grpc" {
		return append(lies, grpcLies()...)
	}
	return append(lies, httpLies()...)
}

func httpLies() []Lie {
	answer := func(code int, headers ...string) http.HandlerFunc {
		return func(writer http.ResponseWriter, _ *http.Request) {
			for index := 0; index < len(headers); index += 2 {
				writer.Header().Set(headers[index], headers[index+1])
			}
			writer.WriteHeader(code)
		}
	}
	retryAfter := func(value string) http.HandlerFunc {
		return answer(http.StatusServiceUnavailable, "Retry-After", value)
	}
	return []Lie{
		{"a response of 1 GiB", web(func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Type", "application/x-protobuf")
			writer.Header().Set("Content-Length", strconv.Itoa(gibibyte))
			writeZeros(writer, gibibyte)
		})},
		{"headers without an end", raw(endlessHeaders)},
		{"one byte a second", web(func(writer http.ResponseWriter, request *http.Request) {
			writer.Header().Set("Content-Length", "1000")
			drip(writer, request)
		})},
		{"a message that is none", web(func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = writer.Write([]byte("\xff\xff\xff\xff no message"))
		})},
		{"rejects all spans", web(partial(1))},
		{"rejects more spans than it got", web(partial(1 << 40))},
		{"rejects less than none", web(partial(-7))},
		{"refuses for 30 years", web(retryAfter(strconv.Itoa(years)))},
		{"refuses until a date that is none", web(retryAfter("next Octember"))},
		{"400", web(answer(http.StatusBadRequest))},
		{"redirects to itself", web(answer(http.StatusTemporaryRedirect, "Location", "/v1/traces"))},
	}
}

func grpcLies() []Lie {
	refuse := func(code codes.Code) func(grpc.ServerStream) error {
		return func(grpc.ServerStream) error { return status.Error(code, strings.Repeat("no. ", 1000)) }
	}
	return []Lie{
		{"a message of 1 GiB", h2c(func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Type", "application/grpc")
			_, _ = writer.Write([]byte{0, 0x40, 0, 0, 0})
			writeZeros(writer, gibibyte)
		})},
		{"one byte a second", h2c(func(writer http.ResponseWriter, request *http.Request) {
			writer.Header().Set("Content-Type", "application/grpc")
			drip(writer, request)
		})},
		{"no status at the end", h2c(func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Type", "application/grpc")
			_, _ = writer.Write([]byte{0, 0, 0, 0, 0})
		})},
		{"a page in place of a message", h2c(func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Type", "text/html")
			_, _ = writer.Write([]byte("<h1>It works!</h1>"))
		})},
		{"rejects all spans", calls(partialCall(1))},
		{"rejects more spans than it got", calls(partialCall(1 << 40))},
		{"rejects less than none", calls(partialCall(-7))},
		{"refuses for 30 years", calls(func(grpc.ServerStream) error {
			refused := status.New(codes.Unavailable, "come back later")
			refused, err := refused.WithDetails(&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: years}})
			if err != nil {
				return err
			}
			return refused.Err()
		})},
		{"RESOURCE_EXHAUSTED", calls(refuse(codes.ResourceExhausted))},
		{"INVALID_ARGUMENT", calls(refuse(codes.InvalidArgument))},
		{"UNIMPLEMENTED", calls(refuse(codes.Unimplemented))},
	}
}

// partial is a response that confirms a message but for some spans; 1 stands for all of them.
func partial(rejected int64) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		writer.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = writer.Write(partialMessage(body, rejected))
	}
}

func partialMessage(request []byte, rejected int64) []byte {
	got := ptraceotlp.NewExportRequest()
	if rejected == 1 && got.UnmarshalProto(request) == nil {
		rejected = int64(got.Traces().SpanCount())
	}
	response := ptraceotlp.NewExportResponse()
	response.PartialSuccess().SetRejectedSpans(rejected)
	response.PartialSuccess().SetErrorMessage(strings.Repeat("no. ", 1000))
	message, _ := response.MarshalProto()
	return message
}

// bytes is a message that is taken and sent as it is.
type bytes struct{ value []byte }

// codec passes messages on without reading them.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(value any) ([]byte, error) {
	message, isBytes := value.(*bytes)
	if !isBytes {
		return nil, fmt.Errorf("%T is no message of this server", value)
	}
	return message.value, nil
}

func (codec) Unmarshal(data []byte, value any) error {
	message, isBytes := value.(*bytes)
	if !isBytes {
		return fmt.Errorf("%T is no message of this server", value)
	}
	message.value = append([]byte(nil), data...)
	return nil
}

func partialCall(rejected int64) func(grpc.ServerStream) error {
	return func(stream grpc.ServerStream) error {
		request := &bytes{}
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		return stream.SendMsg(&bytes{partialMessage(request.value, rejected)})
	}
}

// writeZeros writes zeros until all are written or the client stops reading.
func writeZeros(writer io.Writer, size int) {
	piece := make([]byte, 1<<16)
	for sent := 0; sent < size; sent += len(piece) {
		if _, err := writer.Write(piece); err != nil {
			return
		}
	}
}

// drip writes a byte a second until the client stops reading.
func drip(writer http.ResponseWriter, request *http.Request) {
	for request.Context().Err() == nil {
		if _, err := writer.Write([]byte{0}); err != nil || http.NewResponseController(writer).Flush() != nil {
			return
		}
		select {
		case <-request.Context().Done():
		case <-time.After(time.Second):
		}
	}
}

func random(connection net.Conn) {
	_, _ = bufio.NewReader(connection).ReadByte()
	source := rand.New(rand.NewPCG(1, 2))
	piece := make([]byte, 4096)
	for index := range piece {
		piece[index] = byte(source.Uint32())
	}
	_, _ = connection.Write(piece)
}

func endlessHeaders(connection net.Conn) {
	_, _ = bufio.NewReader(connection).ReadByte()
	_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\n")
	line := "X-More: " + strings.Repeat("more", 1000) + "\r\n"
	for range gibibyte / len(line) {
		if _, err := io.WriteString(connection, line); err != nil {
			return
		}
	}
}

// raw serves connections by a function; when it returns, the connection is closed.
func raw(serve func(net.Conn)) func(string) (*Liar, error) {
	return func(address string) (*Liar, error) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		liar := &Liar{}
		var mutex sync.Mutex
		open := map[net.Conn]bool{}
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				liar.Contacts.Add(1)
				mutex.Lock()
				open[connection] = true
				mutex.Unlock()
				go func() {
					serve(connection)
					connection.Close()
					mutex.Lock()
					delete(open, connection)
					mutex.Unlock()
				}()
			}
		}()
		liar.close = func() {
			listener.Close()
			mutex.Lock()
			defer mutex.Unlock()
			for connection := range open {
				connection.Close()
			}
		}
		return liar, nil
	}
}

// web serves HTTP/1.
func web(handler http.HandlerFunc) func(string) (*Liar, error) {
	return served(handler, func(protocols *http.Protocols) { protocols.SetHTTP1(true) })
}

// h2c serves HTTP/2 without TLS.
func h2c(handler http.HandlerFunc) func(string) (*Liar, error) {
	return served(handler, func(protocols *http.Protocols) { protocols.SetUnencryptedHTTP2(true) })
}

func served(handler http.HandlerFunc, choose func(*http.Protocols)) func(string) (*Liar, error) {
	return func(address string) (*Liar, error) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		liar, protocols := &Liar{}, &http.Protocols{}
		choose(protocols)
		server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
			liar.Contacts.Add(1)
			handler(writer, request)
		})}
		go func() { _ = server.Serve(listener) }()
		liar.close = func() { _ = server.Close() }
		return liar, nil
	}
}

// calls serves gRPC.
func calls(handle func(grpc.ServerStream) error) func(string) (*Liar, error) {
	return func(address string) (*Liar, error) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		liar := &Liar{}
		server := grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			liar.Contacts.Add(1)
			return handle(stream)
		}))
		go func() { _ = server.Serve(listener) }()
		liar.close = server.Stop
		return liar, nil
	}
}

// Closing is a collector that is only closed.
func Closing(close func()) *Liar { return &Liar{close: close} }
