package load

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// Moving is a client of HTTP/3 whose datagrams may come to another place from some moment on, without its knowledge: its connection
// then goes on there, or is not known there.
type Moving struct {
	plan   Plan
	socket *movingSocket
	conn   *http3Connection
	asked  int
}

// Moved is what a request met that was the first one after such a moment.
type Moved struct {
	// Reset is set if the connection ended with a stateless reset (RFC 9000 §10.3) and another one served the request.
	Reset bool
	// Datagrams of the request that the client sent before the reset.
	Datagrams int
	// Told is the time from the first of them to the reset, and Answered that to the whole response.
	Told, Answered time.Duration
	// RoundTrip to the server, as QUIC measured it before.
	RoundTrip time.Duration
}

// Move connects, and sends a first request.
func Move(plan Plan) (*Moving, error) {
	m := &Moving{plan: plan.withDefaults()}
	if err := m.connect(); err != nil {
		return nil, err
	}
	if err := m.get(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Moving) connect() error {
	inner, err := m.plan.Ports.listen()
	if err != nil {
		return err
	}
	m.socket = &movingSocket{ports: m.plan.Ports, inner: inner}
	conn, failed := m.plan.openHTTP3(m.socket)
	if failed != nil {
		return failed
	}
	m.conn = conn
	return nil
}

func (m *Moving) get() error {
	m.asked++
	if _, failed := m.conn.exchange(&m.plan, http.MethodGet, fmt.Sprintf("%s-%d", m.plan.Name, m.asked)); failed != nil {
		return failed
	}
	return nil
}

// Local is the address that the client sends from.
func (m *Moving) Local() *net.UDPAddr { return m.socket.LocalAddr().(*net.UDPAddr) }

// Rebind takes another port, as a NAT does.
func (m *Moving) Rebind() error { return m.socket.rebind() }

// Get sends a request after the datagrams were moved. An error is an outcome that no client should meet: silence, for one.
func (m *Moving) Get() (Moved, error) {
	moved := Moved{RoundTrip: m.conn.quic.ConnectionStats().SmoothedRTT}
	m.socket.startCount()
	start := time.Now()
	err := m.get()
	begun, sent := m.socket.counted()
	if sent == 0 {
		// An acknowledgement that was sent before had the reset already.
		begun = start
	}
	var gone *quic.StatelessResetError
	if errors.As(err, &gone) {
		moved.Reset, moved.Datagrams, moved.Told = true, sent, time.Since(begun)
		if err = m.connect(); err == nil {
			err = m.get()
		}
	}
	moved.Answered = time.Since(begun)
	return moved, err
}

// Close ends the connection.
func (m *Moving) Close() { m.conn.close() }

// movingSocket counts datagrams and can take another port.
type movingSocket struct {
	ports *Ports

	lock  sync.Mutex
	inner *net.UDPConn
	begun time.Time
	sent  int
}

func (s *movingSocket) current() *net.UDPConn {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.inner
}

func (s *movingSocket) rebind() error {
	next, err := s.ports.listen()
	if err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	last := s.inner
	s.inner = next
	// Readers continue at the next one.
	return last.Close()
}

// startCount counts from the next datagram on.
func (s *movingSocket) startCount() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.begun, s.sent = time.Time{}, 0
}

// counted are the datagrams since then, and when the first of them was sent.
func (s *movingSocket) counted() (time.Time, int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.begun, s.sent
}

func (s *movingSocket) ReadFrom(buffer []byte) (int, net.Addr, error) {
	for {
		inner := s.current()
		count, from, err := inner.ReadFrom(buffer)
		if err == nil || !errors.Is(err, net.ErrClosed) || inner == s.current() {
			return count, from, err
		}
	}
}

func (s *movingSocket) WriteTo(datagram []byte, to net.Addr) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.sent == 0 {
		s.begun = time.Now()
	}
	s.sent++
	return s.inner.WriteTo(datagram, to)
}

func (s *movingSocket) Close() error                        { return s.current().Close() }
func (s *movingSocket) LocalAddr() net.Addr                 { return s.current().LocalAddr() }
func (s *movingSocket) SetDeadline(at time.Time) error      { return s.current().SetDeadline(at) }
func (s *movingSocket) SetReadDeadline(at time.Time) error  { return s.current().SetReadDeadline(at) }
func (s *movingSocket) SetWriteDeadline(at time.Time) error { return s.current().SetWriteDeadline(at) }
func (s *movingSocket) SetReadBuffer(bytes int) error       { return s.current().SetReadBuffer(bytes) }
func (s *movingSocket) SetWriteBuffer(bytes int) error      { return s.current().SetWriteBuffer(bytes) }
