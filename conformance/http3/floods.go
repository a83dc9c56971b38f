package main

// This file owns the group `floods`: attacks that are small enough for any machine, while another client is served.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"fairway.dev/conformance/http3/initial"
	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/wire"
)

const (
	// maxFloodGrowth is how much memory a flood may take at most.
	maxFloodGrowth = 256 << 20
	// maxLatency is how long another client may wait meanwhile.
	maxLatency = 2 * time.Second
	// askInterval is the time between its requests.
	askInterval = 20 * time.Millisecond
	// floodTimeout bounds a flood.
	floodTimeout = time.Minute
	// seed is that of all random bytes.
	seed = 42
)

// flooding is a row of the group. Its function returns what it has sent, and what the server did about it.
type flooding struct {
	name string
	send func(context.Context, *laboratory) (sent, end string, err error)
}

var floodings = []flooding{
	{"requests that are reset", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodStreams(ctx, get(), 10_000)
	}},
	{"half requests that are reset", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodStreams(ctx, get()[:20], 10_000)
	}},
	{"reserved frames without payload", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodControl(ctx, wire.Frame(wire.Reserved), 500_000)
	}},
	{"PRIORITY_UPDATE frames", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodControl(ctx, priority(0, "u=1"), 200_000)
	}},
	{"inserts into the dynamic table", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodInserts(ctx, 100_000)
	}},
	{"responses that are not read", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodUnread(ctx, 10, 20)
	}},
	{"PING frames", func(ctx context.Context, lab *laboratory) (string, string, error) { return lab.floodPings(ctx, 100) }},
	{"connections without requests", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodConnections(ctx, 1_000)
	}},
	{"connections of an Initial only", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodInitials(ctx, 1_000)
	}},
	{"Initial packets with junk in CRYPTO", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodPackets(ctx, 20_000, func(random *rand.Rand) []byte {
			return initial.Crypto(uint32(random.IntN(4))*4000, junk(random, 800))
		})
	}},
	{"Initial packets with PING only", func(ctx context.Context, lab *laboratory) (string, string, error) {
		return lab.floodPackets(ctx, 20_000, func(*rand.Rand) []byte { return bytes.Repeat([]byte{0x01}, 100) })
	}},
	{"datagrams of junk", func(ctx context.Context, lab *laboratory) (string, string, error) { return lab.floodJunk(ctx, 100_000) }},
}

func floods(lab *laboratory) error {
	for _, one := range floodings {
		if lab.skips(one.name) {
			continue
		}
		if err := lab.flood(one); err != nil {
			return err
		}
	}
	return nil
}

// flood runs one, with another client that asks all the time.
func (lab *laboratory) flood(one flooding) error {
	found := flood{Name: one.name}
	var err error
	if err := lab.process.ResetPeak(); err != nil {
		return err
	}
	if found.MemoryBefore, _, err = lab.process.Memory(); err != nil {
		return err
	}
	witness, err := lab.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), floodTimeout)
	defer cancel()
	stopped := make(chan struct{})
	var group sync.WaitGroup
	var latencies, connects []time.Duration
	group.Go(func() { latencies, found.Failed = lab.watch(witness, stopped) })
	group.Go(func() { connects = lab.watchConnects(stopped) })
	began := time.Now()
	var problems []string
	found.Sent, found.End, err = one.send(ctx, lab)
	if err != nil {
		problems = append(problems, err.Error())
	}
	found.Seconds = time.Since(began).Seconds()
	close(stopped)
	group.Wait()
	witness.end()
	slices.Sort(latencies)
	found.Answered = len(latencies)
	if len(latencies) > 0 {
		found.Median, found.Slowest = milliseconds(latencies[len(latencies)/2]), milliseconds(latencies[len(latencies)-1])
	}
	if len(connects) > 0 {
		found.Connect = milliseconds(slices.Max(connects))
	}
	if !lab.process.HasEnded() {
		if found.MemoryAfter, found.MemoryPeak, err = lab.process.Memory(); err != nil {
			return err
		}
	}
	lab.results.Floods = append(lab.results.Floods, found)
	return lab.add(result{Group: "floods", Name: one.name, Got: found.End, Seconds: found.Seconds, Problems: append(problems, found.problems()...)}, true)
}

func milliseconds(time time.Duration) float64 { return float64(time.Microseconds()) / 1000 }

// problems are the violations of a flood.
func (flood flood) problems() []string {
	var found []string
	if flood.MemoryPeak > flood.MemoryBefore+maxFloodGrowth {
		found = append(found, fmt.Sprintf("memory grew from %d to %d MiB", flood.MemoryBefore>>20, flood.MemoryPeak>>20))
	}
	if flood.Failed > 0 || flood.Answered == 0 {
		found = append(found, fmt.Sprintf("%d requests of another client failed, %d were answered", flood.Failed, flood.Answered))
	}
	if flood.Slowest > milliseconds(maxLatency) {
		found = append(found, fmt.Sprintf("another client waited for %.0f ms", flood.Slowest))
	}
	return found
}

// watch asks until it is stopped, at least once.
func (lab *laboratory) watch(witness *link, stopped <-chan struct{}) (latencies []time.Duration, failed int) {
	for {
		began := time.Now()
		if witness.isServed() {
			latencies = append(latencies, time.Since(began))
		} else {
			failed++
		}
		select {
		case <-stopped:
			return latencies, failed
		case <-time.After(askInterval):
		}
	}
}

// watchConnects connects now and then until it is stopped. Connections that are refused are counted as the whole deadline.
func (lab *laboratory) watchConnects(stopped <-chan struct{}) (times []time.Duration) {
	for {
		began := time.Now()
		if opened, err := lab.open(); err == nil {
			opened.end()
			times = append(times, time.Since(began))
		} else {
			times = append(times, deadline)
		}
		select {
		case <-stopped:
			return times
		case <-time.After(10 * askInterval):
		}
	}
}

// endState describes the state of a flood's connection: it continues, or the server has closed it.
func (link *link) endState() string {
	if link.Context().Err() == nil {
		return "taken"
	}
	var closed *quic.ApplicationError
	var broken *quic.TransportError
	switch cause := context.Cause(link.Context()); {
	case errors.As(cause, &closed):
		return "connection error " + codeName(uint64(closed.ErrorCode))
	case errors.As(cause, &broken):
		return "transport error " + broken.ErrorCode.String()
	default:
		return cause.Error()
	}
}

// floodStreams opens streams and resets them at once.
func (lab *laboratory) floodStreams(ctx context.Context, head []byte, count int) (string, string, error) {
	opened, err := lab.open()
	if err != nil {
		return "", "", err
	}
	defer opened.end()
	number := 0
	for ; number < count; number++ {
		stream, err := opened.OpenStreamSync(ctx)
		if err != nil {
			break
		}
		if _, err := stream.Write(head); err != nil {
			break
		}
		stream.CancelWrite(requestCancelled)
		stream.CancelRead(requestCancelled)
	}
	return fmt.Sprintf("%d streams", number), opened.endState(), ctx.Err()
}

// floodUni writes the same bytes again and again to a stream.
func (link *link) floodUni(ctx context.Context, stream *quic.SendStream, one []byte, count int) (string, string, error) {
	const piece = 1000
	if limit, has := ctx.Deadline(); has {
		_ = stream.SetWriteDeadline(limit)
	}
	sent, many := 0, bytes.Repeat(one, piece)
	for ; sent < count; sent += piece {
		if _, err := stream.Write(many); err != nil {
			break
		}
	}
	// The server's reaction is known when it has responded to a later request.
	link.isServed()
	return fmt.Sprintf("%d frames", sent), link.endState(), ctx.Err()
}

func (lab *laboratory) floodControl(ctx context.Context, one []byte, count int) (string, string, error) {
	opened, err := lab.dial()
	if err != nil {
		return "", "", err
	}
	defer opened.end()
	stream, err := opened.OpenUniStream()
	if err != nil {
		return "", "", err
	}
	if _, err := stream.Write(controlStart); err != nil {
		return "", "", err
	}
	return opened.floodUni(ctx, stream, one, count)
}

func (lab *laboratory) floodInserts(ctx context.Context, count int) (string, string, error) {
	opened, err := lab.open()
	if err != nil {
		return "", "", err
	}
	defer opened.end()
	stream, err := opened.OpenUniStream()
	if err != nil {
		return "", "", err
	}
	start := wire.Join(wire.Varint(wire.EncoderStream), wire.SetCapacity(lab.results.Settings["QPACK_MAX_TABLE_CAPACITY"]))
	if _, err := stream.Write(start); err != nil {
		return "", "", err
	}
	sent, end, err := opened.floodUni(ctx, stream, wire.Insert("x-name", "value"), count)
	return sent[:len(sent)-len("frames")] + "inserts", end, err
}

// floodUnread asks for endless responses and reads none of them.
func (lab *laboratory) floodUnread(ctx context.Context, connections, streams int) (string, string, error) {
	for number := range connections {
		opened, err := lab.open()
		if err != nil {
			return "", "", err
		}
		defer opened.end()
		for range streams {
			stream, err := opened.OpenStreamSync(ctx)
			if err != nil {
				return "", "", err
			}
			if _, err := stream.Write(request(peer.PlainHost, fmt.Sprintf("/endless?id=unread-%d", number))); err != nil {
				break
			}
			_ = stream.Close()
		}
	}
	// As long as windows and buffers take to be full, many times over.
	for range 20 {
		lab.isOtherServed()
		time.Sleep(askInterval)
	}
	return fmt.Sprintf("%d responses on %d connections", connections*streams, connections), "taken", ctx.Err()
}

// floodPings holds connections that send PING as often as quic-go allows.
func (lab *laboratory) floodPings(ctx context.Context, count int) (string, string, error) {
	const lasting = 3 * time.Second
	var packets uint64
	var all []*quic.Conn
	for range count {
		connection, err := quic.DialAddr(ctx, lab.process.Address.String(), lab.tlsFor(peer.PlainHost), &quic.Config{KeepAlivePeriod: time.Millisecond})
		if err != nil {
			return "", "", err
		}
		defer connection.CloseWithError(noError, "")
		all = append(all, connection)
		packets -= connection.ConnectionStats().PacketsSent
	}
	time.Sleep(lasting)
	open := 0
	for _, connection := range all {
		packets += connection.ConnectionStats().PacketsSent
		if connection.Context().Err() == nil {
			open++
		}
	}
	return fmt.Sprintf("%d packets on %d connections", packets, count), fmt.Sprintf("%d connections are open", open), ctx.Err()
}

func (lab *laboratory) floodConnections(ctx context.Context, count int) (string, string, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", "", err
	}
	defer socket.Close()
	transport := &quic.Transport{Conn: socket}
	defer transport.Close()
	var all []*quic.Conn
	refused := 0
	for range count {
		connection, err := transport.Dial(ctx, lab.process.Address, lab.tlsFor(peer.PlainHost), &quic.Config{})
		if err != nil {
			refused++
			continue
		}
		all = append(all, connection)
	}
	for _, connection := range all {
		_ = connection.CloseWithError(noError, "")
	}
	return fmt.Sprintf("%d connections", count), fmt.Sprintf("%d refused", refused), ctx.Err()
}

// deaf is a socket that reads nothing that was sent to it, and is silent after a while.
type deaf struct {
	*net.UDPConn
	isSilent atomic.Bool
	// sent and dropped are the packets of both directions.
	sent, dropped atomic.Int64
}

// ReadFrom drops received datagrams.
func (deaf *deaf) ReadFrom(buffer []byte) (int, net.Addr, error) {
	for {
		if _, _, err := deaf.UDPConn.ReadFrom(buffer); err != nil {
			return 0, nil, err
		}
		deaf.dropped.Add(1)
	}
}

// WriteTo sends until the socket is silent.
func (deaf *deaf) WriteTo(packet []byte, to net.Addr) (int, error) {
	if deaf.isSilent.Load() {
		return len(packet), nil
	}
	deaf.sent.Add(1)
	return deaf.UDPConn.WriteTo(packet, to)
}

// packetConn hides the methods of a socket with which quic-go would go past deaf.
type packetConn struct{ net.PacketConn }

// floodInitials begins handshakes and never continues them.
func (lab *laboratory) floodInitials(ctx context.Context, count int) (string, string, error) {
	const atOnce = 50
	var packets, dropped int64
	for range count / atOnce {
		socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return "", "", err
		}
		silent := &deaf{UDPConn: socket}
		transport := &quic.Transport{Conn: packetConn{silent}}
		short, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
		var group sync.WaitGroup
		for range atOnce {
			group.Go(func() { _, _ = transport.Dial(short, lab.process.Address, lab.tlsFor(peer.PlainHost), &quic.Config{}) })
		}
		until(deadline, func() bool { return silent.sent.Load() >= atOnce })
		<-short.Done()
		silent.isSilent.Store(true)
		group.Wait()
		cancel()
		packets += silent.sent.Load()
		dropped += silent.dropped.Load()
		_ = transport.Close()
		_ = socket.Close()
	}
	return fmt.Sprintf("%d handshakes, %d packets", count, packets), fmt.Sprintf("%d packets came back", dropped), ctx.Err()
}

// floodPackets sends Initial packets, each of a connection of its own.
func (lab *laboratory) floodPackets(ctx context.Context, count int, frames func(*rand.Rand) []byte) (string, string, error) {
	random := rand.New(rand.NewPCG(seed, seed))
	socket, err := net.DialUDP("udp", nil, lab.process.Address)
	if err != nil {
		return "", "", err
	}
	defer socket.Close()
	answered := countAnswers(socket)
	for number := range count {
		packet, err := initial.Packet(junk(random, 8), junk(random, 8), 0, frames(random), initial.MinSize)
		if err != nil {
			return "", "", err
		}
		_, _ = socket.Write(packet)
		if number%100 == 99 {
			time.Sleep(time.Millisecond) // The socket's buffer is small.
		}
	}
	return fmt.Sprintf("%d packets", count), fmt.Sprintf("%d packets came back", answered.Load()), ctx.Err()
}

// floodJunk sends random datagrams, most of which look like packets of QUIC at first.
func (lab *laboratory) floodJunk(ctx context.Context, count int) (string, string, error) {
	random := rand.New(rand.NewPCG(seed, seed))
	socket, err := net.DialUDP("udp", nil, lab.process.Address)
	if err != nil {
		return "", "", err
	}
	defer socket.Close()
	answered := countAnswers(socket)
	for number := range count {
		datagram := junk(random, 1+random.IntN(1400))
		switch number % 3 {
		case 0:
			datagram[0] |= 0xc0
			if len(datagram) > 5 {
				binary.BigEndian.PutUint32(datagram[1:], initial.Version1)
			}
		case 1:
			datagram[0] = datagram[0]&0x7f | 0x40
		}
		_, _ = socket.Write(datagram)
		if number%100 == 99 {
			time.Sleep(time.Millisecond)
		}
	}
	return fmt.Sprintf("%d datagrams", count), fmt.Sprintf("%d packets came back", answered.Load()), ctx.Err()
}

func countAnswers(socket *net.UDPConn) *atomic.Int64 {
	var count atomic.Int64
	go func() {
		buffer := make([]byte, 2048)
		for {
			if _, err := socket.Read(buffer); errors.Is(err, net.ErrClosed) {
				return
			} else if err == nil {
				count.Add(1)
			}
		}
	}()
	return &count
}

func junk(random *rand.Rand, size int) []byte {
	bytes := make([]byte, size)
	for index := range bytes {
		bytes[index] = byte(random.Uint32())
	}
	return bytes
}
