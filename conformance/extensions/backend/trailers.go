package backend

// This file owns how trailers of requests over HTTP/2 are seen: Go's server passes on only those that were announced, which clients and
// proxies need not do (RFC 9110 §6.6.2).

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/http"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// frameHead is the length of the head of a frame.
	frameHead = 9
	// tableSize is what Go's server lets the table of its client have.
	tableSize = 4096
)

// watched is a listener whose connections are read along.
type watched struct {
	net.Listener
	server *Server
}

func (listener watched) Accept() (net.Conn, error) {
	connection, err := listener.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &reader{Conn: connection, server: listener.server, preface: []byte(http2.ClientPreface), names: map[uint32]string{}}, nil
}

// reader observes the bytes of an HTTP/2 client while they are read.
type reader struct {
	net.Conn
	server *Server
	// preface is the unread part of the preface. Connections without it, or with unreadable frames, are ignored.
	preface []byte
	isOther bool
	held    bytes.Buffer
	framer  *http2.Framer
	// names are those of cases, by their streams.
	names map[uint32]string
}

func (reader *reader) Read(into []byte) (int, error) {
	count, err := reader.Conn.Read(into)
	reader.inspect(into[:count])
	return count, err
}

func (reader *reader) inspect(piece []byte) {
	if reader.isOther {
		return
	}
	length := min(len(piece), len(reader.preface))
	if !bytes.Equal(piece[:length], reader.preface[:length]) {
		reader.isOther = true
		return
	}
	reader.preface = reader.preface[length:]
	reader.held.Write(piece[length:])
	if reader.framer == nil {
		reader.framer = http2.NewFramer(nil, &reader.held)
		reader.framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	}
	for reader.held.Len() >= frameHead {
		head := reader.held.Bytes()
		if reader.held.Len() < frameHead+int(binary.BigEndian.Uint32(append([]byte{0}, head[:3]...))) {
			return
		}
		frame, err := reader.framer.ReadFrame()
		if err != nil {
			reader.isOther = true
			return
		}
		if headers, isHeaders := frame.(*http2.MetaHeadersFrame); isHeaders {
			reader.headers(headers)
		}
	}
}

func (reader *reader) headers(frame *http2.MetaHeadersFrame) {
	name, isTrailers := reader.names[frame.StreamID]
	if isTrailers {
		trailers := http.Header{}
		for _, field := range frame.RegularFields() {
			trailers.Add(field.Name, field.Value)
		}
		reader.server.mutex.Lock()
		reader.server.trailers[name] = trailers
		reader.server.mutex.Unlock()
		delete(reader.names, frame.StreamID)
		return
	}
	for _, field := range frame.RegularFields() {
		if strings.EqualFold(field.Name, CaseHeader) && !frame.StreamEnded() {
			reader.names[frame.StreamID] = field.Value
		}
	}
}
