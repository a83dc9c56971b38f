// Package connections owns listeners whose connections can be reset one by one, as those of a process that is killed are.
package connections

import (
	"net"
	"sync"
)

// Listener keeps the connections that it has accepted.
type Listener struct {
	net.Listener
	mutex sync.Mutex
	open  map[string]*net.TCPConn
}

// Listen listens on a free port of the loopback.
func Listen() (*Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: listener, open: map[string]*net.TCPConn{}}, nil
}

// Port is where it listens.
func (listener *Listener) Port() int { return listener.Addr().(*net.TCPAddr).Port }

// Accept waits for the next connection.
func (listener *Listener) Accept() (net.Conn, error) {
	connection, err := listener.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp := connection.(*net.TCPConn)
	listener.mutex.Lock()
	listener.open[tcp.RemoteAddr().String()] = tcp
	listener.mutex.Unlock()
	return &tracked{tcp, listener}, nil
}

// Reset ends the connection of a peer with RST.
func (listener *Listener) Reset(peer string) { listener.end(peer, true) }

// Hangup ends the connection of a peer with FIN, in the middle of whatever was under way.
func (listener *Listener) Hangup(peer string) { listener.end(peer, false) }

func (listener *Listener) end(peer string, isReset bool) {
	listener.mutex.Lock()
	connection := listener.open[peer]
	listener.mutex.Unlock()
	if connection == nil {
		return
	}
	if isReset {
		_ = connection.SetLinger(0)
	}
	_ = connection.Close()
}

// tracked forgets its connection when it is closed.
type tracked struct {
	*net.TCPConn
	listener *Listener
}

func (connection *tracked) Close() error {
	connection.listener.mutex.Lock()
	delete(connection.listener.open, connection.RemoteAddr().String())
	connection.listener.mutex.Unlock()
	return connection.TCPConn.Close()
}
