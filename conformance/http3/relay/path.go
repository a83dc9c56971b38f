package relay

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Network is what happens to datagrams, in each direction alike.
type Network struct {
	// Loss is the share of datagrams that are dropped.
	Loss float64
	// Held is the fraction of datagrams that are held back until HeldFor later ones have passed them, or HeldAtMost is over.
	Held       float64
	HeldFor    int
	HeldAtMost time.Duration
	// Delay is how long each datagram takes.
	Delay time.Duration
	// Rate is the bandwidth in bytes a second, 0 for no limit. Queue bounds the bytes that wait for it; a datagram that finds no room is
	// dropped (drop-tail).
	Rate, Queue int
	// RebindEvery is after how many datagrams of a client the relay takes another port towards the server, as a NAT does that has lost its
	// mapping; 0 for never. What the server has sent to the old port is lost.
	RebindEvery int
}

const (
	// maxQueued bounds the datagrams that a direction holds, whatever the network.
	maxQueued = 16_384
	// mtu is the longest datagram that passes.
	mtu = 1500
)

// fate is what became of a datagram.
type fate int

const (
	passes fate = iota
	isLost
	findsNoRoom
)

// packet is a datagram on its way.
type packet struct {
	buffer *[mtu + 1]byte
	size   int
	due    time.Time
	number uint64
	// waitsFor is how many other datagrams must pass it, if it is held back.
	waitsFor int
}

// path is one direction of a client's datagrams. It knows no sockets and no clock.
type path struct {
	network Network
	random  *rand.Rand
	queue   packets
	held    []*packet
	number  uint64
	// free is when the bandwidth is free again.
	free time.Time
}

// newPath is a path whose decisions are those of a seed. They depend on the place of a datagram in its direction alone, never on the time.
func newPath(network Network, seed, stream uint64) *path {
	return &path{network: network, random: rand.New(rand.NewPCG(seed, stream))}
}

// take decides about a datagram.
func (path *path) take(now time.Time, one *packet) fate {
	// Both are drawn for each datagram: a decision about one changes none about the next.
	drop, hold := path.random.Float64() < path.network.Loss, path.random.Float64() < path.network.Held
	if drop {
		return isLost
	}
	if len(path.queue)+len(path.held) >= maxQueued {
		return findsNoRoom
	}
	one.due = now
	if rate := path.network.Rate; rate > 0 {
		if path.free.Before(now) {
			path.free = now
		}
		if waiting := path.free.Sub(now).Seconds() * float64(rate); waiting+float64(one.size) > float64(path.network.Queue) {
			return findsNoRoom
		}
		path.free = path.free.Add(time.Duration(one.size) * time.Second / time.Duration(rate))
		one.due = path.free
	}
	one.due = one.due.Add(path.network.Delay)
	if hold {
		one.due, one.waitsFor = one.due.Add(path.network.HeldAtMost), path.network.HeldFor
		path.held = append(path.held, one)
		return passes
	}
	path.send(one)
	path.countPassed(one.due)
	return passes
}

func (path *path) send(one *packet) {
	one.number = path.number
	path.number++
	heap.Push(&path.queue, one)
}

// countPassed counts a datagram, due at a time, that passes the held ones.
func (path *path) countPassed(due time.Time) {
	kept := path.held[:0]
	for _, one := range path.held {
		if one.waitsFor--; one.waitsFor > 0 {
			kept = append(kept, one)
			continue
		}
		if due.Before(one.due) {
			one.due = due
		}
		path.send(one)
	}
	path.held = kept
}

// pop gives the datagrams that are due, in their order, and says when the next one is; never if that is zero.
func (path *path) pop(now time.Time, into []*packet) (due []*packet, next time.Time) {
	kept := path.held[:0]
	for _, one := range path.held {
		if one.due.After(now) {
			kept = append(kept, one)
			if next.IsZero() || one.due.Before(next) {
				next = one.due
			}
			continue
		}
		path.send(one)
	}
	path.held = kept
	for len(path.queue) > 0 && !path.queue[0].due.After(now) {
		into = append(into, heap.Pop(&path.queue).(*packet))
	}
	if len(path.queue) > 0 && (next.IsZero() || path.queue[0].due.Before(next)) {
		next = path.queue[0].due
	}
	return into, next
}

// packets are ordered by the time at which they are due, then by arrival.
type packets []*packet

func (packets packets) Len() int { return len(packets) }

func (packets packets) Less(one, other int) bool {
	if packets[one].due.Equal(packets[other].due) {
		return packets[one].number < packets[other].number
	}
	return packets[one].due.Before(packets[other].due)
}

func (packets packets) Swap(one, other int) {
	packets[one], packets[other] = packets[other], packets[one]
}

func (packets *packets) Push(one any) { *packets = append(*packets, one.(*packet)) }

func (packets *packets) Pop() any {
	all := *packets
	last := all[len(all)-1]
	all[len(all)-1] = nil
	*packets = all[:len(all)-1]
	return last
}
