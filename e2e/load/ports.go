package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// Ports are the local ports of new connections, used one after the other, so that each rests as long as there are ports.
//
// The kernel would use some of them again within seconds. Fairway closes a connection for which its client asked so, and
// remembers it for 60 s (TIME_WAIT). kube-proxy hides a client behind the node's address and a random port, one that no
// connection it still knows has. It forgets a connection when the client uses its port again, and may then choose a port that
// Fairway's kernel remembers: that kernel refuses the SYN, the client's sends it again at once, and after a second when
// that is refused as well.
type Ports struct {
	all  []int
	next atomic.Int64
}

// PortRange is the ports from First to Last.
type PortRange struct{ First, Last int }

// NewPorts uses the ports of all ranges.
func NewPorts(ranges ...PortRange) *Ports {
	p := &Ports{}
	for _, each := range ranges {
		for port := each.First; port <= each.Last; port++ {
			p.all = append(p.all, port)
		}
	}
	return p
}

// busy is how many ports in a row may be taken by others.
const busy = 1000

// dial connects from the next port that is free; without ports from any.
func (p *Ports) dial(ctx context.Context, dialer net.Dialer, address string) (net.Conn, error) {
	if p == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	for range min(busy, len(p.all)) {
		place := int((p.next.Add(1) - 1) % int64(len(p.all)))
		dialer.LocalAddr = &net.TCPAddr{Port: p.all[place]}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("connect to %s: %d local ports in a row are taken", address, min(busy, len(p.all)))
}

// listen takes the next port that is free for datagrams; without ports any.
func (p *Ports) listen() (*net.UDPConn, error) {
	if p == nil {
		return net.ListenUDP("udp", nil)
	}
	for range min(busy, len(p.all)) {
		place := int((p.next.Add(1) - 1) % int64(len(p.all)))
		socket, err := net.ListenUDP("udp", &net.UDPAddr{Port: p.all[place]})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return socket, err
		}
	}
	return nil, fmt.Errorf("take a port for datagrams: %d in a row are taken", min(busy, len(p.all)))
}
