package main

// This file owns a connection on which everything is written byte by byte.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/wire"
)

// link is a connection to the server.
type link struct {
	*quic.Conn
	mutex sync.Mutex
	// streams are the server's unidirectional streams by type.
	streams map[uint64]*quic.ReceiveStream
	// settings are nil until they are received.
	settings map[uint64]uint64
	// goAways are the IDs of GOAWAY frames.
	goAways []uint64
	// fault is an error of the server's streams.
	fault error
}

// tlsFor is the client configuration for a host.
func (lab *laboratory) tlsFor(host string) *tls.Config {
	return &tls.Config{ServerName: host, RootCAs: lab.plan.Certificates.Roots, NextProtos: []string{"h3"}}
}

// dial connects to the server, from a port of its own.
func (lab *laboratory) dial() (*link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	connection, err := quic.DialAddr(ctx, lab.process.Address.String(), lab.tlsFor(peer.PlainHost), &quic.Config{MaxIdleTimeout: time.Minute})
	if err != nil {
		return nil, err
	}
	opened := &link{Conn: connection, streams: map[uint64]*quic.ReceiveStream{}}
	go opened.accept()
	return opened, nil
}

// open dials and sends the first bytes of a client.
func (lab *laboratory) open() (*link, error) {
	opened, err := lab.dial()
	if err == nil {
		err = opened.sendSettings()
	}
	return opened, err
}

func (link *link) sendSettings() error {
	stream, err := link.OpenUniStream()
	if err == nil {
		_, err = stream.Write(controlStart)
	}
	return err
}

// controlStart is a control stream with its SETTINGS.
var controlStart = wire.Join(wire.Varint(wire.ControlStream), wire.SettingsFrame())

// accept reads the streams of the server until the connection ends.
func (link *link) accept() {
	for {
		stream, err := link.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		go link.read(stream)
	}
}

func (link *link) read(stream *quic.ReceiveStream) {
	kind, err := quicvarint.Read(quicvarint.NewReader(stream))
	if err != nil {
		return
	}
	link.mutex.Lock()
	isSecond := link.streams[kind] != nil
	link.streams[kind] = stream
	if isSecond && kind <= wire.DecoderStream {
		link.fault = fmt.Errorf("a second stream of type %d", kind)
	}
	link.mutex.Unlock()
	if kind != wire.ControlStream {
		_, _ = io.Copy(io.Discard, stream)
		return
	}
	for err == nil {
		err = link.readControl(stream)
	}
	link.mutex.Lock()
	defer link.mutex.Unlock()
	// Streams fail before the connection's context is cancelled, so the context does not say yet that the connection has ended.
	hasEnded := errors.Is(err, net.ErrClosed)
	if !hasEnded && link.fault == nil && !errors.As(err, new(*quic.StreamError)) {
		link.fault = err
	}
}

// readControl reads a frame of the control stream.
func (link *link) readControl(stream io.Reader) error {
	kind, payload, err := wire.ReadFrame(stream)
	if err != nil {
		return err
	}
	link.mutex.Lock()
	defer link.mutex.Unlock()
	switch {
	case (kind == wire.Settings) != (link.settings == nil):
		return fmt.Errorf("frame %#x on the control stream, which begins with one SETTINGS", kind)
	case kind == wire.Settings:
		link.settings, err = wire.DecodeSettings(payload)
	case kind == wire.GoAway:
		var id uint64
		id, _, err = quicvarint.Parse(payload)
		link.goAways = append(link.goAways, id)
	case kind < 0x10:
		err = fmt.Errorf("frame %#x of the server on its control stream", kind)
	}
	return err
}

// seen calls a function that inspects the received data.
func (link *link) seen(look func() bool) bool {
	link.mutex.Lock()
	defer link.mutex.Unlock()
	return look()
}

// end closes the connection.
func (link *link) end() { _ = link.CloseWithError(noError, "") }

// request is a request without a body.
func request(host, path string, more ...wire.Field) []byte {
	return wire.Frame(wire.Headers, wire.Fields(append(head("GET", host, path), more...)...))
}

// head are the pseudo-headers of a request.
func head(method, host, path string) []wire.Field {
	return []wire.Field{{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: host}, {Name: ":path", Value: path}}
}

// exchange sends a request and reads the response.
func (link *link) exchange(host, path string, more ...wire.Field) (*wire.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	stream, err := link.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.SetDeadline(time.Now().Add(deadline)); err != nil {
		return nil, err
	}
	if _, err := stream.Write(request(host, path, more...)); err != nil {
		return nil, err
	}
	if err := stream.Close(); err != nil {
		return nil, err
	}
	return wire.ReadResponse(stream)
}

// isServed reports whether a request gets 200.
func (link *link) isServed() bool {
	response, err := link.exchange(peer.PlainHost, "/")
	return err == nil && response.Status == "200"
}

// isOtherServed says whether another client, with a connection of its own, is served.
func (lab *laboratory) isOtherServed() bool {
	if lab.witness == nil || lab.witness.Context().Err() != nil {
		opened, err := lab.open()
		if err != nil {
			return false
		}
		lab.witness = opened
	}
	return lab.witness.isServed()
}

// readSettings notes the server's SETTINGS.
func (lab *laboratory) readSettings() error {
	opened, err := lab.open()
	if err != nil {
		return fmt.Errorf("no connection: %w", err)
	}
	defer opened.end()
	if !until(deadline, func() bool { return opened.seen(func() bool { return opened.settings != nil }) }) {
		return errors.New("the server sends no SETTINGS")
	}
	names := map[uint64]string{wire.TableCapacity: "QPACK_MAX_TABLE_CAPACITY", wire.MaxFieldSection: "MAX_FIELD_SECTION_SIZE",
		wire.BlockedStreams: "QPACK_BLOCKED_STREAMS", wire.ExtendedConnect: "ENABLE_CONNECT_PROTOCOL", 0x33: "H3_DATAGRAM"}
	for id, value := range opened.settings {
		if names[id] == "" {
			names[id] = fmt.Sprintf("%#x", id)
		}
		lab.results.Settings[names[id]] = value
	}
	return nil
}
