package relay

// This file owns how datagrams come from the kernel and go to it.

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/net/ipv4"
)

// buffers are for one datagram each, with a byte by which a longer one is known.
var buffers = sync.Pool{New: func() any { return new([mtu + 1]byte) }}

// datagrams are the buffers of one task that receives and sends.
type datagrams struct {
	owned    [batch]*[mtu + 1]byte
	received [batch]ipv4.Message
	sent     [batch]ipv4.Message
	due      []*packet
}

func newDatagrams() *datagrams {
	made := &datagrams{}
	for index := range batch {
		made.lend(index)
		made.sent[index].Buffers = make([][]byte, 1)
	}
	return made
}

// lend gives a buffer to be filled.
func (datagrams *datagrams) lend(index int) {
	datagrams.owned[index] = buffers.Get().(*[mtu + 1]byte)
	datagrams.received[index].Buffers = [][]byte{datagrams.owned[index][:]}
}

// release gives the buffers back.
func (datagrams *datagrams) release() {
	for _, one := range datagrams.owned {
		buffers.Put(one)
	}
}

// receive takes available datagrams, or waits for some until the deadline of the socket. An error means that the socket is
// closed.
func (datagrams *datagrams) receive(socket *ipv4.PacketConn) (int, error) {
	for {
		count, err := socket.ReadBatch(datagrams.received[:], 0)
		switch {
		case err == nil:
			return count, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, nil
		case errors.Is(err, net.ErrClosed):
			return 0, err
		}
		// The kernel reports ICMP errors of earlier datagrams here.
	}
}

// packet is one that was received, which has its buffer from now on.
func (datagrams *datagrams) packet(index int) (*packet, *net.UDPAddr) {
	from, _ := datagrams.received[index].Addr.(*net.UDPAddr)
	one := &packet{buffer: datagrams.owned[index], size: datagrams.received[index].N}
	datagrams.lend(index)
	return one, from
}

// send sends to an address, or to the one that the socket is connected to.
func (datagrams *datagrams) send(socket *ipv4.PacketConn, to *net.UDPAddr, all []*packet) {
	for len(all) > 0 {
		some := all[:min(len(all), batch)]
		for index, one := range some {
			datagrams.sent[index].Buffers[0] = one.buffer[:one.size]
			if to != nil {
				datagrams.sent[index].Addr = to
			}
		}
		for rest := datagrams.sent[:len(some)]; len(rest) > 0; {
			count, err := socket.WriteBatch(rest, 0)
			if count <= 0 {
				// The kernel refuses a datagram because of an earlier one (ICMP) once, and takes it then.
				if errors.Is(err, syscall.ECONNREFUSED) {
					continue
				}
				count = 1
			}
			rest = rest[count:]
		}
		for _, one := range some {
			buffers.Put(one.buffer)
		}
		all = all[len(some):]
	}
}
