// Package liar owns services that are no gRPC services, or whose gRPC is wrong.
package liar

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Kinds are all of them, with what each does. The names are those of their Services.
var Kinds = []struct{ Name, What string }{
	{"nothing", "nothing listens there"},
	{"http1", "HTTP/1.1 that answers 400 to what is no HTTP/1.1"},
	{"text", "HTTP/2 that answers 200 with text"},
	{"missing", "HTTP/2 that answers 404"},
	{"mute", "a connection that is accepted, and nothing more"},
	{"noise", "bytes that are no HTTP/2"},
	{"gone", "a connection that is closed at once"},
	{"without-status", "gRPC without grpc-status"},
	{"short-frame", "a gRPC message that is shorter than it says"},
	{"huge-frame", "a gRPC message that says it has 4 GiB"},
	{"compressed", "a gRPC message that is compressed, by nothing"},
	{"trailers-only", "grpc-status 0 and no message"},
}

// Names are those of Kinds.
func Names() []string {
	var names []string
	for _, kind := range Kinds {
		names = append(names, kind.Name)
	}
	return names
}

// lying are the gRPC that HTTP/2 handlers write.
var lying = map[string]http.HandlerFunc{
	"text": func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Type", "text/plain")
		_, _ = writer.Write([]byte("welcome\n"))
	},
	"missing": func(writer http.ResponseWriter, request *http.Request) { writer.WriteHeader(http.StatusNotFound) },
	"without-status": func(writer http.ResponseWriter, request *http.Request) {
		frame(writer, 0, 0, nil)
	},
	"short-frame": func(writer http.ResponseWriter, request *http.Request) {
		frame(writer, 0, 100, []byte("short"))
		writer.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	},
	"huge-frame": func(writer http.ResponseWriter, request *http.Request) {
		frame(writer, 0, 1<<32-1, nil)
		_ = http.NewResponseController(writer).Flush()
		block := make([]byte, 1<<16)
		for range 64 << 20 / len(block) {
			if _, err := writer.Write(block); err != nil {
				return
			}
		}
	},
	"compressed": func(writer http.ResponseWriter, request *http.Request) {
		frame(writer, 1, 4, []byte("abcd"))
		writer.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	},
	"trailers-only": func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Type", "application/grpc")
		writer.Header().Set("Grpc-Status", "0")
	},
}

// frame writes the beginning of a gRPC response.
func frame(writer http.ResponseWriter, flag byte, length uint32, message []byte) {
	writer.Header().Set("Content-Type", "application/grpc")
	head := binary.BigEndian.AppendUint32([]byte{flag}, length)
	_, _ = writer.Write(append(head, message...))
}

// Start starts the service of a name on the loopback, and returns its port.
func Start(name string) (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	handler, isHTTP2 := lying[name]
	switch {
	case name == "nothing":
		return port, listener.Close()
	case isHTTP2 || name == "http1":
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(isHTTP2)
		protocols.SetHTTP1(!isHTTP2)
		if !isHTTP2 {
			handler = lying["text"]
		}
		server := &http.Server{Handler: handler, Protocols: protocols}
		go func() { _ = server.Serve(listener) }()
	case name == "mute" || name == "noise" || name == "gone":
		go accept(listener, name)
	default:
		return 0, fmt.Errorf("no service %s", name)
	}
	return port, nil
}

// accept serves connections without HTTP.
func accept(listener net.Listener, name string) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			switch name {
			case "noise":
				_, _ = connection.Write([]byte("220 this is another protocol\r\n\x00\xff\xfe\r\n"))
				time.Sleep(time.Second)
			case "mute":
				_, _ = io.Copy(io.Discard, connection)
			}
		}()
	}
}
