// Package relay stands between clients and a server of UDP, and is the network that lies between them: it loses, holds back and delays
// datagrams, has a bandwidth, and takes other ports as a NAT does. Its decisions come from a seed.
package relay

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	// batch is how many datagrams one call to the kernel takes or gives.
	batch = 64
	// maxClients bounds the clients of a relay; what others send is dropped.
	maxClients = 64
	// socketBuffer is what the kernel may keep for a socket, as far as net.core.rmem_max and wmem_max allow.
	socketBuffer = 4 << 20
)

// Counts are counters of the relay, in datagrams.
type Counts struct {
	// Passed were not dropped. Lost were dropped by chance, Full where a queue had no room, and TooLong because they were longer than 1500
	// bytes. HeldBack have passed, but later than others that came after them.
	Passed, Lost, HeldBack, Full, TooLong int64
	// Rebound is how often another port was taken.
	Rebound int64
}

// Relay forwards between clients and one server.
type Relay struct {
	network Network
	seed    uint64
	server  *net.UDPAddr
	front   *net.UDPConn
	mutex   sync.Mutex
	// clients are by their address.
	clients map[netip.AddrPort]*client
	closed  bool
	running sync.WaitGroup

	passed, lost, heldBack, full, tooLong, rebound atomic.Int64
}

// client is one client, with a socket of its own towards the server.
type client struct {
	address *net.UDPAddr
	// up and down are the ways to the server and back. The relay's mutex guards the socket, the client's own the way down: sockets that
	// follow each other share it.
	up     *path
	back   *net.UDPConn
	toBack *ipv4.PacketConn
	mutex  sync.Mutex
	down   *path
	// sent counts the datagrams of the client.
	sent int
}

// Start begins to forward to a server on the loopback.
func Start(server *net.UDPAddr, network Network, seed uint64) (*Relay, error) {
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	enlarge(front)
	started := &Relay{network: network, seed: seed, server: server, front: front, clients: map[netip.AddrPort]*client{}}
	started.running.Go(started.forward)
	return started, nil
}

// enlarge asks for large buffers: what the kernel drops is in no seed.
func enlarge(socket *net.UDPConn) {
	_ = socket.SetReadBuffer(socketBuffer)
	_ = socket.SetWriteBuffer(socketBuffer)
}

// Address is where clients find the server.
func (relay *Relay) Address() net.Addr { return relay.front.LocalAddr() }

// Counts are those until now.
func (relay *Relay) Counts() Counts {
	return Counts{relay.passed.Load(), relay.lost.Load(), relay.heldBack.Load(), relay.full.Load(), relay.tooLong.Load(), relay.rebound.Load()}
}

// Rebind takes another port for each client.
func (relay *Relay) Rebind() error {
	relay.mutex.Lock()
	defer relay.mutex.Unlock()
	for _, client := range relay.clients {
		if err := relay.rebind(client); err != nil {
			return err
		}
	}
	return nil
}

// Close ends it.
func (relay *Relay) Close() {
	relay.mutex.Lock()
	relay.closed = true
	relay.front.Close()
	for _, client := range relay.clients {
		client.back.Close()
	}
	relay.mutex.Unlock()
	relay.running.Wait()
}

// rebind opens a port towards the server, the first or another one; the mutex is held.
func (relay *Relay) rebind(client *client) error {
	if relay.closed {
		return net.ErrClosed
	}
	back, err := net.DialUDP("udp4", nil, relay.server)
	if err != nil {
		return err
	}
	enlarge(back)
	if client.back != nil {
		client.back.Close()
		relay.rebound.Add(1)
	}
	client.back, client.toBack, client.sent = back, ipv4.NewPacketConn(back), 0
	relay.running.Go(func() { relay.forwardReplies(client, back) })
	return nil
}

// forward relays datagrams of clients.
func (relay *Relay) forward() {
	socket, datagrams := ipv4.NewPacketConn(relay.front), newDatagrams()
	defer datagrams.release()
	for {
		count, err := datagrams.receive(socket)
		if err != nil {
			return
		}
		now := time.Now()
		relay.mutex.Lock()
		for index := range count {
			one, from := datagrams.packet(index)
			client := relay.clientAt(from)
			if client == nil {
				buffers.Put(one.buffer)
				continue
			}
			relay.take(client.up, now, one)
			client.sent++
		}
		var next time.Time
		for _, client := range relay.clients {
			due, at := client.up.pop(time.Now(), datagrams.due[:0])
			datagrams.send(client.toBack, nil, due)
			datagrams.due = due
			if next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
			if every := relay.network.RebindEvery; every > 0 && client.sent >= every {
				// Without a free port the old one stays.
				_ = relay.rebind(client)
			}
		}
		relay.mutex.Unlock()
		_ = relay.front.SetReadDeadline(next)
	}
}

// clientAt returns the client with an address, a new one if necessary; the mutex is held.
func (relay *Relay) clientAt(address *net.UDPAddr) *client {
	at := address.AddrPort()
	if known := relay.clients[at]; known != nil {
		return known
	}
	if len(relay.clients) >= maxClients {
		return nil
	}
	number := uint64(len(relay.clients))
	one := &client{address: address, up: newPath(relay.network, relay.seed, 2*number), down: newPath(relay.network, relay.seed, 2*number+1)}
	if relay.rebind(one) != nil {
		return nil
	}
	relay.clients[at] = one
	return one
}

// forwardReplies takes what the server sends to a socket, until that is closed.
func (relay *Relay) forwardReplies(client *client, back *net.UDPConn) {
	from, to, datagrams := ipv4.NewPacketConn(back), ipv4.NewPacketConn(relay.front), newDatagrams()
	defer datagrams.release()
	for {
		// Datagrams of an earlier socket may be due before any arrives.
		client.mutex.Lock()
		due, next := client.down.pop(time.Now(), datagrams.due[:0])
		client.mutex.Unlock()
		datagrams.send(to, client.address, due)
		datagrams.due = due
		_ = back.SetReadDeadline(next)
		count, err := datagrams.receive(from)
		if err != nil {
			return
		}
		now := time.Now()
		client.mutex.Lock()
		for index := range count {
			one, _ := datagrams.packet(index)
			relay.take(client.down, now, one)
		}
		client.mutex.Unlock()
	}
}

// take decides about a datagram, and counts it.
func (relay *Relay) take(path *path, now time.Time, one *packet) {
	if one.size > mtu {
		relay.tooLong.Add(1)
		buffers.Put(one.buffer)
		return
	}
	switch path.take(now, one) {
	case passes:
		relay.passed.Add(1)
		if one.waitsFor > 0 {
			relay.heldBack.Add(1)
		}
		return
	case isLost:
		relay.lost.Add(1)
	case findsNoRoom:
		relay.full.Add(1)
	}
	buffers.Put(one.buffer)
}
