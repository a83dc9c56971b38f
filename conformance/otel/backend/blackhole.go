package backend

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// BlackHole is an address of the loopback at which connects get no answer: a socket that listens with a queue of one connection, which
// is full, and accepts none. The kernel drops each further SYN.
type BlackHole struct {
	// Address is its IPv4 address.
	Address string
	// Port is its port.
	Port    int
	socket  int
	fillers []net.Conn
}

// maxFillers bounds the connections that fill the queue.
const maxFillers = 8

// silence is how long a connect gets no response if the queue is full. A connect on the loopback takes microseconds.
const silence = 100 * time.Millisecond

// DigBlackHole makes a black hole at an address of 127.0.0.0/8, on this port, or on a free one where it is 0.
func DigBlackHole(address string, port int) (*BlackHole, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	hole := &BlackHole{Address: address, Port: port, socket: socket}
	if err := hole.listen(); err != nil {
		hole.Close()
		return nil, err
	}
	for len(hole.fillers) < maxFillers {
		filler, err := net.DialTimeout("tcp4", hole.target(), silence)
		if err != nil {
			return hole, nil
		}
		hole.fillers = append(hole.fillers, filler)
	}
	hole.Close()
	return nil, fmt.Errorf("%s still accepts after %d connections", hole.target(), maxFillers)
}

func (hole *BlackHole) listen() error {
	if err := unix.SetsockoptInt(hole.socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	local := &unix.SockaddrInet4{Port: hole.Port}
	copy(local.Addr[:], net.ParseIP(hole.Address).To4())
	if err := unix.Bind(hole.socket, local); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(hole.socket, 0); err != nil {
		return os.NewSyscallError("listen", err)
	}
	bound, err := unix.Getsockname(hole.socket)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	hole.Port = bound.(*unix.SockaddrInet4).Port
	return nil
}

func (hole *BlackHole) target() string { return fmt.Sprintf("%s:%d", hole.Address, hole.Port) }

// Close ends it: connects are refused from now on.
func (hole *BlackHole) Close() {
	for _, filler := range hole.fillers {
		filler.Close()
	}
	_ = unix.Close(hole.socket)
}
