package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const exchangeTimeout = 30 * time.Second

func dialTarget(address string) (net.Conn, error) {
	connection, err := net.DialTimeout("tcp", address, exchangeTimeout)
	if err != nil {
		return nil, err
	}
	return connection, connection.SetDeadline(time.Now().Add(exchangeTimeout))
}

// sendHTTP1 sends bytes as they are, and returns the status of the response.
func sendHTTP1(address string, raw []byte, method string) (int, error) {
	connection, err := dialTarget(address)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	if _, err := connection.Write(raw); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// http2Exchange is one request on a connection of its own.
type http2Exchange struct {
	framer               *http2.Framer
	connection, stream   int64 // what may still be sent
	initial              int64
	status               int
	done                 bool
	decoder              *hpack.Decoder
	fragments            bytes.Buffer
	endsAfterTheseFields bool
}

// sendHTTP2 sends a request with prior knowledge, frame by frame, so that no client library changes it.
func sendHTTP2(address string, m *message) (int, error) {
	connection, err := dialTarget(address)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	x := &http2Exchange{framer: http2.NewFramer(connection, connection), connection: 65535, stream: 65535, initial: 65535}
	x.decoder = hpack.NewDecoder(4096, func(field hpack.HeaderField) {
		if field.Name == ":status" {
			_, _ = fmt.Sscan(field.Value, &x.status)
		}
	})
	if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
		return 0, err
	}
	if err := x.framer.WriteSettings(); err != nil {
		return 0, err
	}
	if err := x.sendHead(m); err != nil {
		return 0, err
	}
	for body := m.Body; len(body) > 0 && !x.done; {
		size := min(x.connection, x.stream, 16384, int64(len(body)))
		if size <= 0 {
			if err := x.read(); err != nil {
				return x.status, err
			}
			continue
		}
		if err := x.framer.WriteData(1, size == int64(len(body)), body[:size]); err != nil {
			return x.status, err
		}
		body = body[size:]
		x.connection -= size
		x.stream -= size
	}
	for !x.done {
		if err := x.read(); err != nil {
			return x.status, err
		}
	}
	return x.status, nil
}

func (x *http2Exchange) sendHead(m *message) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	field := func(name, value string) { _ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	field(":method", m.Method)
	field(":scheme", "http")
	field(":path", m.Target)
	if host, ok := m.first("host"); ok {
		field(":authority", host)
	}
	for _, each := range m.Headers {
		if each.Name != "host" {
			field(strings.ToLower(each.Name), each.Value)
		}
	}
	rest := block.Bytes()
	piece := rest[:min(len(rest), 16384)]
	rest = rest[len(piece):]
	err := x.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: piece, EndStream: len(m.Body) == 0, EndHeaders: len(rest) == 0,
	})
	for err == nil && len(rest) > 0 {
		piece = rest[:min(len(rest), 16384)]
		rest = rest[len(piece):]
		err = x.framer.WriteContinuation(1, len(rest) == 0, piece)
	}
	return err
}

// read handles one frame of the peer.
func (x *http2Exchange) read() error {
	frame, err := x.framer.ReadFrame()
	if err != nil {
		return err
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if value, ok := f.Value(http2.SettingInitialWindowSize); ok {
			x.stream += int64(value) - x.initial
			x.initial = int64(value)
		}
		return x.framer.WriteSettingsAck()
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			x.connection += int64(f.Increment)
		} else {
			x.stream += int64(f.Increment)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return x.framer.WritePing(true, f.Data)
		}
	case *http2.HeadersFrame:
		x.endsAfterTheseFields = f.StreamEnded()
		return x.fields(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return x.fields(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		x.done = x.done || f.StreamEnded()
		if size := uint32(len(f.Data())); size > 0 && !x.done {
			if err := x.framer.WriteWindowUpdate(0, size); err != nil {
				return err
			}
			return x.framer.WriteWindowUpdate(1, size)
		}
	case *http2.RSTStreamFrame:
		if f.ErrCode == http2.ErrCodeNo && x.status != 0 {
			x.done = true
			return nil
		}
		return fmt.Errorf("the stream was reset: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		if f.LastStreamID < 1 {
			return fmt.Errorf("the connection was ended: %v", f.ErrCode)
		}
	}
	return nil
}

func (x *http2Exchange) fields(fragment []byte, last bool) error {
	x.fragments.Write(fragment)
	if !last {
		return nil
	}
	_, err := x.decoder.Write(x.fragments.Bytes())
	x.fragments.Reset()
	if err == nil {
		err = x.decoder.Close()
	}
	x.done = x.done || x.endsAfterTheseFields
	if x.done && x.status == 0 && err == nil {
		err = errors.New("a response without a status")
	}
	return err
}
